"""Replace a file atomically: write a temporary file next to it, sync, rename.

The temporary file has no name until its content is on disk, where the file system offers that
(O_TMPFILE). A writer holds a lock on it, so that one left by a killed program can be recognised:
the next write in the same folder removes it.
"""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ludolf.tools.overflow_file import write_all

_TEMPORARY = re.compile(r"\.ludolf-[0-9a-f]{12}\.tmp")
_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CLOEXEC
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Folders that this program has cleaned already, by device and inode.
_cleaned: set[tuple[int, int]] = set()


def write_atomically(
    target: Path, data: bytes, old: os.stat_result | None, folder: int | None = None
) -> None:
    """Put a new file in the place of `old`, keeping its owner and mode.

    With a `folder`, an open directory, the target is a name in it.
    """
    with _opened(target.parent, folder) as place:
        _clean(place)
        name = f".ludolf-{os.urandom(6).hex()}.tmp"
        file, is_named = _create(place, name, 0o600 if old else 0o666)
        try:
            write_all(file, data)
            if old:
                _keep_owner_and_mode(file, old)
            os.fsync(file)
            if not is_named:
                # A path relative to `place`: the system follows the link only in this form.
                os.link(f"/proc/self/fd/{file}", name, dst_dir_fd=place)
                is_named = True
            os.replace(name, target.name, src_dir_fd=place, dst_dir_fd=place)
        except BaseException:
            if is_named:
                os.unlink(name, dir_fd=place)
            raise
        finally:
            os.close(file)


@contextmanager
def _opened(path: Path, folder: int | None) -> Iterator[int]:
    if folder is not None:
        yield folder
        return
    place = os.open(path, _PLACE)
    try:
        yield place
    finally:
        os.close(place)


def _create(place: int, name: str, mode: int) -> tuple[int, bool]:
    """Return a locked file in the folder, and whether it has the name already."""
    if hasattr(os, "O_TMPFILE") and os.path.exists("/proc/self/fd"):
        with suppress(OSError):  # not every file system supports it
            file = os.open(".", _WRITE | os.O_TMPFILE, mode, dir_fd=place)
            with suppress(OSError):
                _lock(file)
            return file, False
    while True:
        file = os.open(name, _WRITE | os.O_CREAT | os.O_EXCL, mode, dir_fd=place)
        try:
            _lock(file)
        except BlockingIOError:
            is_ours = False  # another program considers it stale
        except OSError:
            is_ours = True  # the file system has no locks, so no program removes the file
        else:
            is_ours = os.fstat(file).st_nlink > 0
        if is_ours:
            return file, True
        os.close(file)


def _lock(file: int) -> None:
    """Lock a file until it is closed or this program ends.

    Raises:
        BlockingIOError: another program holds the lock.
        OSError: the file system has no locks.
    """
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _clean(place: int) -> None:
    """Remove temporary files of programs that were killed; once for each folder."""
    status = os.fstat(place)
    if (status.st_dev, status.st_ino) in _cleaned:
        return
    _cleaned.add((status.st_dev, status.st_ino))
    with suppress(OSError):
        listing = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
        try:
            names = os.listdir(listing)
        finally:
            os.close(listing)
        for name in filter(_TEMPORARY.fullmatch, names):
            _remove_stale(name, place)


def _remove_stale(name: str, place: int) -> None:
    with suppress(OSError):  # already removed, or its writer is running
        if not stat.S_ISREG(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
            return
        file = os.open(name, _LOOK, dir_fd=place)
        try:
            _lock(file)
            os.unlink(name, dir_fd=place)
        finally:
            os.close(file)


def _keep_owner_and_mode(file: int, old: os.stat_result) -> None:
    new = os.fstat(file)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.fchown(file, old.st_uid, old.st_gid)
    os.fchmod(file, stat.S_IMODE(old.st_mode))
