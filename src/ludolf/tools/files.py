"""Blocking file access: open regular files only, replace files atomically, name errors.

A new file has no name until its content is on disk, where the file system offers that (O_TMPFILE).
Its writer holds a lock on it, so that one left by a killed program can be recognised: the next
write in the same folder removes it.
"""

import asyncio
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import TypeVar

from ludolf.agent.tool import ToolFailure, Walls
from ludolf.base.patterns import lazy_pattern
from ludolf.tools.paths import real_path

T = TypeVar("T")

# The texts of pi's runtime, which hosts and models expect.
_WORDS = {
    errno.ENOENT: "no such file or directory",
    errno.EEXIST: "file already exists",
    errno.EACCES: "permission denied",
    errno.EPERM: "operation not permitted",
    errno.EISDIR: "illegal operation on a directory",
    errno.ENOTDIR: "not a directory",
    errno.ELOOP: "too many symbolic links encountered",
    errno.ENAMETOOLONG: "name too long",
    errno.ENOSPC: "no space left on device",
    errno.EROFS: "read-only file system",
}
# A file that is a mount point, or in a folder that is not writable, can only be written in place.
_CANNOT_REPLACE = (errno.EACCES, errno.EPERM, errno.EBUSY, errno.EXDEV)
_KINDS = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)
_TEMPORARY = lazy_pattern(r"\.ludolf-[0-9a-f]{12}\.tmp")
_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CLOEXEC
_LOOK = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
# Folders that this program has cleaned already, by device and inode.
_cleaned: set[tuple[int, int]] = set()


def error_code(error: OSError) -> str:
    """Return the symbol of a system error, such as ENOENT."""
    return errno.errorcode.get(error.errno or 0, "EIO")


def error_text(error: OSError, call: str, path: Path | None = None) -> str:
    words = _WORDS.get(error.errno or 0) or (error.strerror or str(error)).lower()
    place = f" '{path}'" if path else ""
    return f"{error_code(error)}: {words}, {call}{place}"


def open_regular(path: Path, walls: Walls | None = None) -> int:
    """Return a descriptor for reading a regular file.

    Raises:
        OSError: the file cannot be opened, or is a folder.
        ToolFailure: it is neither file nor folder, so that reading might not end; or the sandbox
            hides it.
    """
    if walls is not None:
        return walls.open(path)
    refuse_special(os.stat(path), path)
    # Non-blocking, in case a pipe has replaced the file since the check.
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        refuse_opened(file, path)
    except BaseException:
        os.close(file)
        raise
    return file


def replace_file(path: Path, data: bytes, walls: Walls | None = None) -> None:
    """Replace a file atomically: the old content stays until the new content is on disk.

    Follows links; keeps mode and owner. A file with several hard links is written in place, so that
    all its names keep the same content. Inside the sandbox the name gets a new file instead, and
    missing folders are created.
    """
    if walls is not None:
        walls.replace(path, data)
        return
    target = Path(real_path(path))
    old: os.stat_result | None = None
    with suppress(FileNotFoundError):
        old = os.stat(target)
    if old is not None:
        refuse_special(old, path)
        if not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if old.st_nlink > 1:
            _write_in_place(target, data)
            return
    try:
        with closing_file(os.open(target.parent, _PLACE)) as folder:
            write_atomically(folder, target.name, data, old)
    except OSError as error:
        if old is None or error.errno not in _CANNOT_REPLACE:
            raise
        _write_in_place(target, data)


def store_file(path: Path, data: bytes, walls: Walls | None) -> None:
    """Replace a file for a tool, as `replace_file`.

    Raises:
        ToolFailure: it cannot be written.
    """
    try:
        replace_file(path, data, walls)
    except OSError as error:
        raise ToolFailure(error_text(error, "open", path)) from error


async def settle_in_thread(work: Callable[[], T]) -> T:
    """Run work that changes files in a thread; a cancelled caller waits until it ends.

    A thread cannot be stopped, and no other code may touch the file before it has finished.
    """
    future = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait({future})
        future.exception()
        raise


def refuse_special(status: os.stat_result, path: Path) -> None:
    """Raises:
    IsADirectoryError: it is a folder.
    ToolFailure: it is neither file nor folder.
    """
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    kind = next((name for test, name in _KINDS if test(status.st_mode)), "something else")
    raise ToolFailure(f"Not a regular file: {path} is {kind}. Only regular files can be used.")


def refuse_opened(file: int, path: Path) -> os.stat_result:
    """Return the status of an open file, if tools may read it.

    Raises:
        IsADirectoryError: it is a folder.
        ToolFailure: it is neither file nor folder, or it is the environment of a process: that of
            this program contains the keys that commands must not see.
    """
    status = os.fstat(file)
    refuse_special(status, path)
    if status.st_size == 0 and status.st_dev == _proc_device():
        real = os.readlink(f"/proc/self/fd/{file}")
        if os.path.basename(real) == "environ":
            raise ToolFailure(
                f"Not read: {path} is the environment of a process, which may contain keys."
            )
    return status


@cache
def _proc_device() -> int:
    try:
        return os.stat("/proc").st_dev
    except OSError:
        return -1


def make_folders(folder: str) -> None:
    """Create a folder and its parents. The path may have more parts than Python can recurse.

    Raises:
        OSError: a folder cannot be created; on a path that is too long, none is created.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        os.lstat(folder)
    missing = []
    while not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for place in reversed(missing):
        with suppress(FileExistsError):
            os.mkdir(place)
    os.makedirs(missing[0] if missing else folder, exist_ok=True)


def _reserve(file: int, size: int) -> None:
    """Reserve disk space, so that a full disk leaves the old content intact."""
    old_size = os.fstat(file).st_size
    try:
        os.posix_fallocate(file, 0, max(1, size))
    except AttributeError:  # not on this system
        return
    except OSError as error:
        os.ftruncate(file, old_size)
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise


def _write_in_place(target: Path, data: bytes) -> None:
    with closing_file(os.open(target, os.O_WRONLY | os.O_CLOEXEC)) as file:
        _reserve(file, len(data))
        write_all(file, data)
        os.ftruncate(file, len(data))
        os.fsync(file)


def write_all(file: int, data: bytes) -> None:
    """Write every byte, in several calls if necessary."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def write_atomically(folder: int, target: str, data: bytes, old: os.stat_result | None) -> None:
    """Put a new file in the place of `old`, a name in an open folder; keep its owner and mode."""
    _clean(folder)
    name = f".ludolf-{os.urandom(6).hex()}.tmp"
    file, is_named = _create(folder, name, 0o600 if old else 0o666)
    try:
        write_all(file, data)
        if old:
            _keep_owner_and_mode(file, old)
        os.fsync(file)
        if not is_named:
            # A path relative to `folder`: the system follows the link only in this form.
            os.link(f"/proc/self/fd/{file}", name, dst_dir_fd=folder)
            is_named = True
        os.replace(name, target, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        if is_named:
            os.unlink(name, dir_fd=folder)
        raise
    finally:
        os.close(file)


@contextmanager
def closing_file(file: int) -> Iterator[int]:
    """Close a descriptor at the end of the block."""
    try:
        yield file
    finally:
        os.close(file)


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
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        with closing_file(os.open(".", flags, dir_fd=place)) as listing:
            names = os.listdir(listing)
        for name in filter(_TEMPORARY.fullmatch, names):
            _remove_stale(name, place)


def _remove_stale(name: str, place: int) -> None:
    with suppress(OSError):  # already removed, or its writer is running
        if not stat.S_ISREG(os.stat(name, dir_fd=place, follow_symlinks=False).st_mode):
            return
        with closing_file(os.open(name, _LOOK, dir_fd=place)) as file:
            _lock(file)
            os.unlink(name, dir_fd=place)


def _keep_owner_and_mode(file: int, old: os.stat_result) -> None:
    new = os.fstat(file)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        os.fchown(file, old.st_uid, old.st_gid)
    os.fchmod(file, stat.S_IMODE(old.st_mode))
