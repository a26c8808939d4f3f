"""What a trusted project would run, as one number: if it changes, trust has to be given again."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ludolf.base import ConfigError
from ludolf.config.files import read_object
from ludolf.config.home import Home

if TYPE_CHECKING:
    from hashlib import _Hash

_RUNS = ("settings.json", "extensions", "agent/extensions")
# Made by tools that run the code, or far too large; neither is looked at by us.
_PASSED_OVER = ("__pycache__", "node_modules", ".git")


def digest(home: Home) -> str:
    """A digest of the settings and extensions of a project, and of those that its settings name."""
    from hashlib import sha256

    total = sha256()
    for path in (*(home.project / name for name in _RUNS), *_named(home)):
        for file in _files(path):
            _add(total, file, os.path.relpath(file, home.project))
    return total.hexdigest()


def _named(home: Home) -> Iterator[Path]:
    try:
        names = read_object(home.project / "settings.json").get("extensions", ())
    except ConfigError:
        return  # spoilt: it names nothing, and its bytes count
    for name in names if isinstance(names, list) else ():
        if isinstance(name, str):
            yield home.project / os.path.expanduser(name.lstrip("+-!"))


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(set(folders) - set(_PASSED_OVER))
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in sorted((*files, *links)):
            yield Path(folder, name)


def _add(total: "_Hash", path: Path, name: str) -> None:
    total.update(os.fsencode(name) + b"\0")
    try:
        if path.is_symlink():
            total.update(os.fsencode(os.readlink(path)) + b"\0")
        # A pipe would be waited for, a device never ends.
        if stat.S_ISREG(path.stat().st_mode):
            total.update(path.read_bytes())
    except OSError as error:
        total.update(f"{error.errno}".encode())
    total.update(b"\0")
