"""Find extensions of installed distributions without expensive imports."""

import os
import sys
import time
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG

from ludolf.base.project_files import TEXT_LIMIT

GROUP = "ludolf.extensions"
_GROUP_NAME = GROUP.encode()
_SETTLED_NS = 2_000_000_000


def installed(folders: Iterable[str] | None = None) -> Iterator[Path]:
    """Return the files that installed distributions register as entry points.

    Parses the metadata directly: `importlib.metadata` takes longer to import than all other
    modules here, and the import system would run the packages around a module.
    """
    here = _working_folder()
    places = _search_path(sys.path if folders is None else folders, here)
    if here in ("/", os.path.realpath(os.path.expanduser("~"))):
        here = ""
    for folder, real in places.items():
        if here and _is_in_project(real, here):
            continue
        for name in _distributions(folder):
            for module in _named_modules(f"{folder}/{name}/entry_points.txt"):
                yield from _module_file(module, places)


def _search_path(folders: Iterable[str], here: str) -> dict[str, str]:
    """Return the folders of distributions, and their real paths.

    The working folder is left out even if it is on the path: code of a project must not run just
    because the program was started there.
    """
    found = {folder: os.path.realpath(folder) for folder in folders if folder}
    return {folder: real for folder, real in found.items() if real != here}


def _is_in_project(real: str, here: str) -> bool:
    """Return whether a folder of the import path is in the project, as for editable installs.

    A command could write the metadata of a distribution there.
    """
    name = os.path.basename(real)
    return real.startswith(f"{here}/") and name not in ("site-packages", "dist-packages")


def _distributions(folder: str) -> tuple[str, ...]:
    try:
        state = os.stat(folder)
    except OSError:
        return ()
    # A folder that changed just now may change again without another time of change.
    if time.time_ns() - state.st_mtime_ns < _SETTLED_NS:
        return _list(folder)
    return _kept_list(folder, state.st_ino, state.st_mtime_ns, state.st_ctime_ns)


@lru_cache(maxsize=64)
def _kept_list(folder: str, *_state: int) -> tuple[str, ...]:
    """Return the distributions in a folder; every session asks, so an unchanged list is kept."""
    return _list(folder)


def _list(folder: str) -> tuple[str, ...]:
    try:
        names = os.listdir(folder)
    except OSError:
        return ()
    return tuple(sorted(name for name in names if name.endswith((".dist-info", ".egg-info"))))


def _working_folder() -> str:
    try:
        return os.path.realpath(os.curdir)
    except FileNotFoundError:
        return ""  # the folder was removed meanwhile


def _named_modules(path: str) -> tuple[str, ...]:
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return ()
    if not S_ISREG(state.st_mode) or state.st_size > TEXT_LIMIT:
        return ()
    return _modules_in(path, state.st_size, (state.st_ino, state.st_ctime_ns))


@lru_cache(maxsize=1024)
def _modules_in(path: str, size: int, state: tuple[int, ...]) -> tuple[str, ...]:
    """Return the modules that a file names; every session asks, so an unchanged file is kept."""
    data = _content(path, size)
    if _GROUP_NAME not in data:  # as nearly always: an environment may have hundreds of them
        return ()
    found, inside = [], False
    for line in map(str.strip, data.decode("utf-8-sig", "replace").splitlines()):
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and "=" in line and not line.startswith(("#", ";")):
            found.append(line.partition("=")[2].partition(":")[0].partition("[")[0].strip())
    return tuple(found)


def _content(path: str, size: int) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, size)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _module_file(module: str, places: Iterable[str]) -> list[Path]:
    inside = Path(*module.split(".")) if module else Path("?")
    forms = (inside / "__init__.py", inside.with_suffix(".py"))
    candidates = (Path(place, form) for place in places for form in forms)
    return [path for path in candidates if path.is_file()][:1]
