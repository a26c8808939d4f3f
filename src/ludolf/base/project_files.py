"""Read files that a project supplies: regular files inside their folder, of limited size.

A repository can hold links to private files, named pipes, devices and files of any size. Code that
reads instructions, rules, settings or ignore lists of a project goes through this module.
"""

import os
import stat
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

import msgspec

from ludolf.base import ConfigError

# 1 MiB is about 250,000 tokens, more than any instruction file that a model can use.
TEXT_LIMIT = 1024 * 1024

# More names than any project needs in one folder of rules, skills or templates.
MOST_NAMES = 10_000

IsHidden = Callable[[Path], bool]
# A parent folder may be one that the user can enter but not list.
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
    """Return the content of a regular file, or None if the file is missing.

    `within` is the folder that must contain the file after links are resolved; None accepts every
    location, for the user's own files. `is_hidden` is called with the resolved path.

    Raises:
        FileRefused: the file is outside, hidden, too large, or not a regular file.
        ConfigError: the file cannot be read.
    """
    try:
        if within is None and is_hidden is None:
            file = _open_anywhere(path)
        else:
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
    """Like `read_bytes`, but decode UTF-8, drop a leading BOM and replace invalid bytes."""
    data = read_bytes(path, within=within, limit=limit, is_hidden=is_hidden)
    return None if data is None else data.decode("utf-8", "replace").removeprefix("\ufeff")


class Reader(msgspec.Struct, frozen=True, kw_only=True):
    """Reader for the files of one owner; by default the user's own, at any location.

    `within` and `is_hidden` are those of `read_bytes`. `shared` is a folder that also contains
    private folders of the user: links in it must not lead to a path below it with a component that
    starts with a dot.
    """

    within: Path | None = None
    is_hidden: IsHidden | None = None
    shared: Path | None = None

    def text(self, path: Path, limit: int = TEXT_LIMIT) -> str | None:
        """Return the text of a file, or None if the file is missing.

        Raises:
            ConfigError: as `read_bytes`.
        """
        if self.shared is not None:
            _refuse_private(path, self.shared)
        return read_text(path, within=self.within, limit=limit, is_hidden=self.is_hidden)

    def names(self, folder: Path, limit: int = MOST_NAMES) -> list[str]:
        """Return the sorted names in a folder; an empty list if it is missing or cannot be listed.

        Raises:
            FileRefused: the folder is outside, hidden, or contains more than `limit` names.
        """
        try:
            if self.within is not None or self.is_hidden is not None:
                real = Path(os.path.realpath(folder, strict=True))
                _check_place(folder, real, self.within, self.is_hidden)
            with os.scandir(folder) as entries:
                names = [entry.name for entry in islice(entries, limit + 1)]
        except (OSError, ValueError):
            return []
        if len(names) > limit:
            raise FileRefused(f"{folder} is not used: it holds more than {limit:,} files")
        return sorted(names)


def project_reader(
    folder: Path, private: Iterable[Path], is_hidden: IsHidden | None = None
) -> Reader:
    """Return the reader for files that a project folder supplies.

    They must lie in the repository of the folder (the nearest ancestor with `.git`), or else in the
    folder itself. An ancestor that contains a `private` folder (the user's home, the agent's
    folder) or that is world-writable does not count as a repository.
    """
    here = Path(os.path.realpath(folder))
    private_folders = [Path(os.path.realpath(place)) for place in private]
    root = _repository(here)
    if root is None or any(place.is_relative_to(root) for place in private_folders):
        root = here
    is_shared = any(place.is_relative_to(root) for place in private_folders)
    return Reader(within=root, is_hidden=is_hidden, shared=folder if is_shared else None)


def _repository(folder: Path) -> Path | None:
    for place in (folder, *folder.parents):
        if os.path.lexists(place / ".git"):
            try:
                return None if os.stat(place).st_mode & stat.S_IWOTH else place
            except OSError:
                return None
    return None


def _check_place(path: Path, real: Path, within: Path | None, is_hidden: IsHidden | None) -> None:
    if within is not None:
        root = os.path.realpath(within)
        if not real.is_relative_to(root):
            raise FileRefused(f"{path} is not used: it links to {real}, outside {within}")
        # `.git` and `.env` files are not project text: they may contain tokens and keys of the
        # user.
        is_env = real.name.startswith(".env") and not path.name.startswith(".env")
        if ".git" in real.relative_to(root).parts[:-1] or is_env:
            raise FileRefused(f"{path} is not used: it links to {real}, which may be private")
    if is_hidden is not None and is_hidden(real):
        raise FileRefused(f"{path} is not used: the sandbox hides {real}")


def _refuse_private(path: Path, shared: Path) -> None:
    try:
        real, root = Path(os.path.realpath(path)), Path(os.path.realpath(shared))
    except ValueError:
        return  # not a path; reading it reports the error
    if path.is_relative_to(shared) and real == root / path.relative_to(shared):
        return  # the path contains no link
    below = real.relative_to(root).parts if real.is_relative_to(root) else ()
    if any(part.startswith(".") for part in below):
        raise FileRefused(f"{path} is not used: it links to {real}, which may be private")


def _open_anywhere(path: Path) -> int:
    # Opening a device can have side effects. O_NONBLOCK covers a pipe that replaces the file later.
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise FileRefused(f"{path} is not used: it is not a regular file")
    return os.open(path, _FILE & ~os.O_NOFOLLOW)


def _open(real: Path) -> int:
    """Open a resolved path component by component, so that no component can have become a link."""
    here = os.open("/", _STEP)
    try:
        for name in real.parts[1:-1]:
            there = os.open(name, _STEP, dir_fd=here)
            os.close(here)
            here = there
        # Opening a device can have side effects.
        if not stat.S_ISREG(os.stat(real.name or ".", dir_fd=here, follow_symlinks=False).st_mode):
            raise FileRefused(f"{real} is not used: it is not a regular file")
        return os.open(real.name, _FILE, dir_fd=here)
    finally:
        os.close(here)


def _content(file: int, path: Path, limit: int) -> bytes:
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise FileRefused(f"{path} is not used: it is not a regular file")
    # Files in /proc claim to be regular and empty, and may never end.
    if status.st_size == 0:
        if os.read(file, 1):
            raise FileRefused(f"{path} is not used: its size is not known")
        return b""
    if status.st_size > limit:
        raise FileRefused(f"{path} is not used: it is larger than {limit:,} bytes")
    parts = []
    left = limit + 1
    while left and (part := os.read(file, left)):
        parts.append(part)
        left -= len(part)
    if not left:
        raise FileRefused(f"{path} is not used: it is larger than {limit:,} bytes")
    return b"".join(parts)


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
