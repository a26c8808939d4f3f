"""Finds a Python that is newer than the one of the tests, for programs that need it."""

import shutil
import subprocess

_NAMES = ("python3.14", "python3.13", "python3.12")


def newer_python() -> str | None:
    """A Python of 3.12 or newer that runs; a name on the path may be of an inactive one."""
    return next((path for path in map(shutil.which, _NAMES) if path and _runs(path)), None)


def _runs(path: str) -> bool:
    return subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0
