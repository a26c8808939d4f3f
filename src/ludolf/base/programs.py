"""Find programs to run outside the sandbox, ignoring folders that commands can write to."""

import os
from collections.abc import Iterable
from pathlib import Path

_SYSTEM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")


def find_program(name: str, path: str, writable: Iterable[Path] = ()) -> str | None:
    """Return the path of a program, or None if it exists only in writable folders or not at all.

    `path` is the value of PATH: system folders come before its own, relative ones are ignored.
    """
    places = tuple(writable)
    for folder in (*_SYSTEM_FOLDERS, *path.split(os.pathsep)):
        program = os.path.join(folder, name)
        # Neither the program nor a link to it may be a file that a command could have created.
        if not os.path.isabs(folder) or lies_in(program, places) or lies_in(folder, places):
            continue
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return None


def safe_path(path: str, writable: Iterable[Path]) -> str:
    """Return a PATH without relative entries and without entries inside a writable folder."""
    places = tuple(writable)
    folders = path.split(os.pathsep)
    return os.pathsep.join(
        folder for folder in folders if os.path.isabs(folder) and not lies_in(folder, places)
    )


def lies_in(path: str, places: Iterable[Path]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(place)) for place in places)
