"""Resolve symbolic links step by step, and open folders without following any."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

# The kernel follows 40 links in one path. A path with more is not resolved, and cannot be opened.
_MOST_LINKS = 40
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Followed(NamedTuple):
    """A path without links, and the links that led to it, each at a path without links."""

    path: Path
    links: tuple[Path, ...]


def follow(path: Path, locate: Callable[[Path], Path] = lambda path: path) -> Followed:
    """Resolve an absolute path; parts that do not exist are kept.

    `locate` returns the place on disk of a path, for a view of the file system in which some
    folders are replaced by others. Targets of links are paths in that view.
    """
    here = Path("/")
    links: list[Path] = []
    todo = list(reversed(path.parts[1:]))
    while todo:
        name = todo.pop()
        if name == "..":
            here = here.parent
            continue
        step = here / name
        target = _target(locate(step)) if len(links) < _MOST_LINKS else None
        if target is None:
            here = step
            continue
        links.append(step)
        if target.startswith("/"):
            here = Path("/")
        todo.extend(reversed([part for part in target.split("/") if part not in ("", ".")]))
    return Followed(here, tuple(links))


def _target(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except (OSError, ValueError):
        return None


@contextmanager
def open_folder(path: Path, *, make: bool = False) -> Iterator[int]:
    """Open a folder name by name, so that none of the names can have become a link.

    Raises:
        OSError: it does not exist, or a part of the path is a link.
    """
    here = os.open("/", _STEP & ~os.O_NOFOLLOW)
    try:
        for name in path.parts[1:]:
            try:
                there = os.open(name, _STEP, dir_fd=here)
            except FileNotFoundError:
                if not make:
                    raise
                # Another process may be faster; if by a link, the next step fails.
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=here)
                there = os.open(name, _STEP, dir_fd=here)
            os.close(here)
            here = there
        yield here
    finally:
        os.close(here)
