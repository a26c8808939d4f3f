"""Node for tests: the one on PATH if it is new enough, else the one of the wheel."""

import re
import shutil
import subprocess
from functools import cache

from ludolf.cli.packages.programs import wheel_folder

LEAST = (22, 12)


@cache
def node() -> str | None:
    """The program, or None without Node 22.12."""
    wheel = wheel_folder()
    places = (shutil.which("node"), None if wheel is None else str(wheel / "bin/node"))
    return next((place for place in places if place and _version(place) >= LEAST), None)


def _version(place: str) -> tuple[int, ...]:
    done = subprocess.run([place, "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"v(\d+)\.(\d+)", done.stdout)
    return tuple(map(int, found.groups())) if found else (0,)
