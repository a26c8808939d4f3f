"""Read files that a project supplies: regular files inside their folder, of limited size.

A repository can hold links to private files, named pipes, devices and files of any size. Code that
reads instructions, rules, settings or ignore lists of a project goes through this module.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from ludolf.base import ConfigError

# 1 MiB: some 250,000 tokens, more than any instruction file that a model can use.
TEXT_LIMIT = 1024 * 1024

IsHidden = Callable[[Path], bool]
# O_PATH: a folder on the way may be one that can be passed but not listed.
_STEP = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FileRefused(ConfigError):
    """A file exists but must not be read; the text names the file and the reason."""


def read_bytes(
    path: Path,
    *,
    within: Path | None,
    limit: int = TEXT_LIMIT,
    is_hidden: IsHidden | None = None,
) -> bytes | None:
    """Return the content of a regular file, or None if there is no such file.

    `within` is the folder that the file must lie in after its links are resolved; None accepts
    every place, for the user's own files. `is_hidden` is asked for the resolved path.

    Raises:
        FileRefused: the file lies outside, is hidden or too large, or is not a regular file.
        ConfigError: the file cannot be read.
    """
    try:
        real = Path(os.path.realpath(path, strict=True))
        _check_place(path, real, within, is_hidden)
        file = _open(real)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {_reason(error)}") from error
    try:
        return _content(file, path, limit)
    except OSError as error:
        raise ConfigError(f"{path}: {_reason(error)}") from error
    finally:
        os.close(file)


def read_text(
    path: Path,
    *,
    within: Path | None,
    limit: int = TEXT_LIMIT,
    is_hidden: IsHidden | None = None,
) -> str | None:
    """Like `read_bytes`, decoded from UTF-8 without a leading BOM; invalid bytes are replaced."""
    data = read_bytes(path, within=within, limit=limit, is_hidden=is_hidden)
    return None if data is None else data.decode("utf-8", "replace").removeprefix("\ufeff")


def _check_place(path: Path, real: Path, within: Path | None, is_hidden: IsHidden | None) -> None:
    if within is not None and not real.is_relative_to(os.path.realpath(within)):
        raise FileRefused(f"{path} is not used: it links to {real}, outside {within}")
    if is_hidden is not None and is_hidden(real):
        raise FileRefused(f"{path} is not used: the sandbox hides {real}")


def _open(real: Path) -> int:
    """Open a resolved path name by name, so that none of its parts can have become a link."""
    here = os.open("/", _STEP)
    try:
        for name in real.parts[1:-1]:
            there = os.open(name, _STEP, dir_fd=here)
            os.close(here)
            here = there
        # Opening a device can already have an effect.
        if not stat.S_ISREG(os.stat(real.name or ".", dir_fd=here, follow_symlinks=False).st_mode):
            raise FileRefused(f"{real} is not used: it is not a regular file")
        return os.open(real.name, _FILE, dir_fd=here)
    finally:
        os.close(here)


def _content(file: int, path: Path, limit: int) -> bytes:
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        raise FileRefused(f"{path} is not used: it is not a regular file")
    # Files of the proc file system claim to be regular and empty, and may never end.
    if found.st_size == 0:
        return b"" if not os.read(file, 1) else _refuse_unsized(path)
    if found.st_size > limit:
        raise FileRefused(f"{path} is not used: it is larger than {limit:,} bytes")
    parts = []
    left = limit + 1
    while left and (part := os.read(file, left)):
        parts.append(part)
        left -= len(part)
    if not left:
        raise FileRefused(f"{path} is not used: it is larger than {limit:,} bytes")
    return b"".join(parts)


def _refuse_unsized(path: Path) -> bytes:
    raise FileRefused(f"{path} is not used: its size is not known")


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
