"""Resolve paths that models write to paths on disk, and lock the files that change."""

import asyncio
import os
import re
from contextlib import suppress
from pathlib import Path
from weakref import WeakValueDictionary

from ludolf.agent.tool import ToolFailure
from ludolf.base import expand_user
from ludolf.base.patterns import lazy_pattern

_ODD_SPACES = lazy_pattern("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_BEFORE_AM_PM = lazy_pattern(r" (?=[AP]M\b)", re.IGNORECASE)
# Attempts to resolve a path whose links change at the same time.
_LOOKS = 100
# Locks that serialise changes to one file; one that no task holds or awaits disappears.
_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


def resolve(path: str, cwd: Path, home: Path) -> Path:
    """Return the absolute path; accepts `@`, `~` for `home`, `file://` and unusual spaces.

    Raises:
        ToolFailure: the path is not valid for any file.
    """
    text = _ODD_SPACES.sub(" ", path.removeprefix("@"))
    if text.startswith("file://"):
        text = _from_url(text)
    _refuse_impossible(text)
    return Path(os.path.normpath(cwd / expand_user(text, home)))


def resolve_existing(path: str, cwd: Path, home: Path) -> Path:
    """Resolve a path; if it does not exist, return the first similar spelling that does.

    Names of macOS screenshots contain narrow spaces, curly apostrophes and decomposed accents.
    """
    plain = resolve(path, cwd, home)
    if os.path.lexists(plain):
        return plain
    return next((spelling for spelling in _spellings(plain) if os.path.exists(spelling)), plain)


def real_path(path: str | Path) -> str:
    """Return the path with every link resolved.

    `os.path.realpath` can fail if a link is removed while it is read, so it is called again.

    Raises:
        OSError: links of the path change during every attempt.
    """
    for _ in range(_LOOKS - 1):
        with suppress(OSError):
            return os.path.realpath(path)
    return os.path.realpath(path)


def landed_at(path: str, target: Path, cwd: Path) -> str:
    """Return the path for a message, with the real path if that is outside the working folder."""
    real = real_path(target)
    inside = Path(real).is_relative_to(os.path.realpath(cwd))
    return path if inside or real == path else f"{path} (real path: {real})"


def file_lock(path: Path) -> asyncio.Lock:
    """Return the lock of a file; all links to it share one lock."""
    return name_lock(real_path(path))


def name_lock(key: str) -> asyncio.Lock:
    """Return the lock of a name, such as the address of a document."""
    return _locks.setdefault(key, asyncio.Lock())


def _from_url(url: str) -> str:
    from urllib.parse import unquote, urlsplit

    try:
        return unquote(urlsplit(url).path)
    except ValueError as error:
        raise ToolFailure(f"Invalid path: not a valid file URL ({error}).") from error


def _refuse_impossible(path: str) -> None:
    if "\0" in path:
        raise ToolFailure("Invalid path: it contains a NUL character.")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise ToolFailure("Invalid path: it contains a lone surrogate.") from error


def _spellings(plain: Path) -> tuple[Path, ...]:
    from unicodedata import normalize

    text = str(plain)
    split = normalize("NFD", text)
    return (
        Path(_BEFORE_AM_PM.sub("\u202f", text)),
        Path(split),
        Path(text.replace("'", "\u2019")),
        Path(split.replace("'", "\u2019")),
    )
