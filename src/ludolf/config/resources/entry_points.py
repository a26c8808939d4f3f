"""Find extensions of installed distributions without expensive imports."""

import os
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from ludolf.base import ConfigError
from ludolf.base.project_files import read_text

GROUP = "ludolf.extensions"


def installed(folders: Iterable[str] | None = None) -> Iterator[Path]:
    """Return the files that installed distributions register as entry points.

    Parses the metadata directly: `importlib.metadata` takes longer to import than all other
    modules here, and the import system would run the packages around a module.
    """
    places = _search_path(sys.path if folders is None else folders)
    for folder in places:
        if _is_in_project(folder):
            continue
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                for module in _named_modules(f"{folder}/{name}/entry_points.txt"):
                    yield from _module_file(module, places)


def _search_path(folders: Iterable[str]) -> list[Path]:
    """Return the folders of distributions.

    The working folder is left out even if it is on the path: code of a project must not run just
    because the program was started there.
    """
    here = _working_folder()
    return [Path(folder) for folder in folders if folder and os.path.realpath(folder) != here]


def _is_in_project(folder: Path) -> bool:
    """Return whether a folder of the import path is in the project, as for editable installs.

    A command could write the metadata of a distribution there.
    """
    here = _working_folder()
    if here in ("", "/", os.path.realpath(os.path.expanduser("~"))):
        return False
    real = Path(os.path.realpath(folder))
    return real.is_relative_to(here) and real.name not in ("site-packages", "dist-packages")


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
    return _modules_in(path, (state.st_ino, state.st_size, state.st_ctime_ns))


@lru_cache(maxsize=1024)
def _modules_in(path: str, state: tuple[int, ...]) -> tuple[str, ...]:
    """Return the modules that a file names; every session asks, so an unchanged file is kept."""
    try:
        text = read_text(Path(path), within=None) or ""
    except ConfigError:
        return ()
    found, inside = [], False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line == f"[{GROUP}]"
        elif inside and "=" in line and not line.startswith(("#", ";")):
            found.append(line.partition("=")[2].partition(":")[0].partition("[")[0].strip())
    return tuple(found)


def _module_file(module: str, places: Iterable[Path]) -> list[Path]:
    inside = Path(*module.split(".")) if module else Path("?")
    forms = (inside / "__init__.py", inside.with_suffix(".py"))
    candidates = (place / form for place in places for form in forms)
    return [path for path in candidates if path.is_file()][:1]
