"""Append lines to the session file; keep them in memory while writing fails.

An advisory lock admits one writing process per file; the kernel frees it with the process.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from ludolf.base import CommandError, Warn

# Bytes of the header line that are compared before each write.
_COMPARED = 4096
_APPENDING = os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY

# Locks belong to the process: if it opens the file again, both share the lock.
_held: dict[tuple[int, int], list[int]] = {}


class SessionFile:
    """Append lines to one file; lines that fail are kept and written with the next one.

    `whole` returns every line of the session from memory, to create the file again.
    """

    def __init__(self, path: Path, whole: Callable[[], Iterable[bytes]], warn: Warn) -> None:
        self.path = path
        self.exists = False
        self._whole = whole
        self._warn = warn
        self._descriptor: int | None = None
        self._size = 0
        self._header_at = 0
        self._synced = -1
        self._torn = False
        self._pending: list[bytes] = []
        self.holding = False
        self._failing = False
        self._told_foreign = False
        self._known: tuple[int, ...] = ()

    @property
    def unsaved(self) -> int:
        """Number of lines that are not written yet."""
        return len(self._pending)

    def lock(self) -> bool:
        """Lock the existing file; return False if another process holds the lock.

        Raises:
            OSError: the file cannot be opened for writing.
        """
        return self._open(create=False)

    def begin_at(
        self, size: int, *, torn: bool, header_at: int, state: tuple[int, ...] = ()
    ) -> None:
        """Append to a file of this size from now on.

        `header_at` is the offset of the header line, which identifies the file later. `state` is
        the `file_state` of the file when it was read.
        """
        self.exists = True
        self._known = state
        self._size, self._torn, self._header_at = size, torn, header_at

    def create(self) -> None:
        """Create the file with the whole session."""
        self.exists = True
        self._pending = [b""]
        self._drain()

    def add(self, line: bytes) -> None:
        """Append a line, after lines that could not be written before."""
        self._pending.append(line)
        if not self.holding:
            self._drain()

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write the lines that are added inside the block with one write, at its end."""
        self.holding = True
        try:
            yield
        finally:
            self.holding = False
            if self._pending:
                self._drain()

    def flush(self, *, sync: bool = True) -> None:
        """Write pending lines and sync the file."""
        if self._pending:
            self._drain()
        if self._descriptor is None or self._pending or self._synced == self._size or not sync:
            return
        try:
            os.fsync(self._descriptor)
            self._synced = self._size
        except OSError as problem:
            self._warn(f"Session file could not be synced: {self.path}: {problem.strerror}")

    def close(self) -> None:
        """Write pending lines without a sync, and release the lock."""
        if self._pending:
            self._drain()
        if self._pending:
            self._warn(
                f"Session was not saved: {self.path}: entries that were not written are lost"
            )
            self._pending.clear()
        self._let_go()

    def release(self) -> bool:
        """Release the lock of a file that is written in full; return False if it is not."""
        if self._descriptor is None or self._pending:
            return False
        self._known = file_state(self._descriptor)
        self._let_go()
        return True

    @property
    def is_unchanged(self) -> bool:
        """Whether the locked file is as it was when it was read, or when it was released."""
        return self._descriptor is not None and self._known == file_state(self._descriptor)

    def _drain(self) -> None:
        try:
            if self._find_place():
                self._write(b"".join(self._pending))
        except OSError as problem:
            self._tell_failure(problem)
            return
        self._pending.clear()
        if self._failing:
            self._failing = False
            self._warn(f"Session is saved again: {self.path}")

    def _find_place(self) -> bool:
        """Make sure that the file exists; return False if it has just been written in full."""
        if self._descriptor is None:
            self._make()
            return False
        try:
            at_path = os.stat(self.path)
        except FileNotFoundError:
            self._make_again("had vanished")
            return False
        held = os.fstat(self._descriptor)
        if not stat.S_ISREG(at_path.st_mode):
            self._make_again("was replaced by something else")
            return False
        if (at_path.st_dev, at_path.st_ino) != (held.st_dev, held.st_ino):
            self._let_go()
            self._open_alone(create=False)
        return self._is_continuable()

    def _is_continuable(self) -> bool:
        """Return whether the open file is still this session; if not, write a new file."""
        assert self._descriptor is not None
        size = os.fstat(self._descriptor).st_size
        header = next(iter(self._whole()))[:_COMPARED].rstrip(b"\n")
        if os.pread(self._descriptor, len(header), self._header_at) != header:
            self._make_again("was replaced by something else")
            return False
        if size < self._size:
            self._make_again("was cut short by another program")
            return False
        if size > self._size:
            self._meet_growth(size)
        return True

    def _make_again(self, cause: str) -> None:
        """Write the whole session from memory: to its path if that is free, else next to it."""
        self._let_go()
        old, self.path = self.path, _free_name(self.path)
        if old == self.path:
            self._warn(f"Session file {cause} and is written again: {self.path}")
        else:
            self._warn(
                f"Session file {cause}: {old}. "
                f"The whole session is written to a new file: {self.path}"
            )
        self._make()

    def _meet_growth(self, size: int) -> None:
        if not self._told_foreign:
            self._told_foreign = True
            self._warn(
                f"Session file was changed by another program: {self.path}. "
                "Its changes are not part of this conversation until the file is opened again."
            )
        assert self._descriptor is not None
        self._torn = size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"
        self._size = size

    def _make(self) -> None:
        make_folders(self.path.parent)
        self.path = _free_name(self.path)
        self._open_alone(create=True)
        self._size, self._torn, self._header_at = 0, False, 0
        try:
            self._write(b"".join(self._whole()))
        except OSError:
            self._let_go()
            self._remove_empty()
            raise

    def _open(self, *, create: bool) -> bool:
        flags = os.O_RDWR | _APPENDING | (os.O_CREAT | os.O_NOFOLLOW if create else 0)
        descriptor = os.open(self.path, flags, 0o600)
        if create:
            os.fchmod(descriptor, 0o600)
        taken = take_lock(descriptor)
        if taken is None:
            os.close(descriptor)
            return False
        self._descriptor = taken
        return True

    def _open_alone(self, *, create: bool) -> None:
        if not self._open(create=create):
            raise OSError(errno.EBUSY, "in use by another process", str(self.path))

    def _write(self, data: bytes) -> None:
        """Write complete lines with one call; undo a partial write."""
        assert self._descriptor is not None
        view = memoryview(b"\n" + data if self._torn and data else data)
        done = 0
        try:
            while done < len(view):
                done += os.write(self._descriptor, view[done:])
        except OSError:
            if done:
                self._take_back(done)
            raise
        self._size += done
        self._torn = self._torn and not done

    def _take_back(self, written: int) -> None:
        assert self._descriptor is not None
        try:
            if os.fstat(self._descriptor).st_size == self._size + written:
                os.ftruncate(self._descriptor, self._size)
                return
        except OSError:
            pass
        self._size += written
        self._torn = True

    def _remove_empty(self) -> None:
        try:
            if os.stat(self.path).st_size == 0:
                os.unlink(self.path)
        except OSError:
            pass

    def _let_go(self) -> None:
        if self._descriptor is not None:
            release_lock(self._descriptor)
            self._descriptor = None

    def _tell_failure(self, problem: OSError) -> None:
        if self._failing:
            return
        self._failing = True
        reason = os.strerror(problem.errno) if problem.errno else str(problem)
        advice = "Free some space." if problem.errno == errno.ENOSPC else "Make it writable."
        self._warn(
            f"Session is not being saved: {self.path}: {reason}. {advice} "
            "Entries are kept in memory and written as soon as possible."
        )


def take_lock(descriptor: int) -> int | None:
    """Lock an open file for writing.

    Returns the descriptor to write with: the argument, or, if this process already holds the lock,
    a copy of the locked one (the argument is closed). None if another process writes the file.
    """
    place = _file_key(descriptor)
    if _held.get(place):
        shared = os.dup(_held[place][0])
        os.close(descriptor)
        _held[place].append(shared)
        return shared
    if not _lock(descriptor):
        return None
    _held.setdefault(place, []).append(descriptor)
    return descriptor


def release_lock(descriptor: int) -> None:
    """Close a descriptor from `take_lock`; closing the last one releases the lock."""
    holders = _held.get(place := _file_key(descriptor), [])
    if descriptor in holders:
        holders.remove(descriptor)
    if not holders:
        _held.pop(place, None)
    os.close(descriptor)


def is_shared(path: Path) -> bool:
    """Return whether this process has the file open for writing more than once."""
    return _times_held(path) > 1


def is_held(path: Path) -> bool:
    """Return whether this process has the file open for writing."""
    return _times_held(path) > 0


def check_not_held(path: Path) -> None:
    """Refuse a file that this process has open for writing: the lock excludes only others.

    Raises:
        CommandError: this process has the file open for writing.
    """
    if is_held(path):
        raise CommandError(
            f"Session is already open in this program: {path}. Close it there, or fork it.",
            code="session_in_use",
        )


def is_written_elsewhere(path: Path) -> bool:
    """Return whether another process has the file open for writing.

    Raises:
        OSError: the file cannot be opened.
    """
    if is_held(path):
        return False
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return not _lock(descriptor)
    finally:
        os.close(descriptor)


def _times_held(path: Path) -> int:
    try:
        status = os.stat(path)
    except OSError:
        return 0
    return len(_held.get((status.st_dev, status.st_ino), ()))


def _file_key(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def file_state(descriptor: int) -> tuple[int, ...]:
    """Return numbers that differ once another program has changed or replaced a file."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def lock_owner(path: Path) -> int | None:
    """Return the id of the process that has locked a file, if the system says so."""
    try:
        status = os.stat(path)
        lines = Path("/proc/locks").read_text().splitlines()
    except (OSError, ValueError):
        return None
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    found = (line.split() for line in lines)
    owners = (words[4] for words in found if len(words) > 5 and words[5] == place)
    return next((int(owner) for owner in owners if owner.isdecimal()), None)


def _lock(descriptor: int) -> bool:
    try:
        import fcntl
    except ImportError:  # a system without locks; writes of other processes are still detected
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def make_folders(folder: Path) -> None:
    """Create missing folders with mode 0700; existing ones keep their modes."""
    missing = [folder, *folder.parents]
    for place in reversed([item for item in missing if not item.exists()]):
        try:
            os.mkdir(place, 0o700)
        except FileExistsError:
            continue
        os.chmod(place, 0o700)


def rewrite(
    path: Path, change: Callable[[list[bytes]], list[bytes]], version: int
) -> tuple[list[bytes], Path]:
    """Replace the lines of an old session file atomically, with mode 0600.

    Returns the new lines and the path of the backup, which is the name of the file with `.v1.bak`
    or `.v2.bak` appended, so that it is not listed as a session.

    Raises:
        OSError: another process writes the file, or writing failed; nothing was changed.
    """
    target = Path(os.path.realpath(path))
    descriptor = os.open(target, os.O_RDWR | os.O_NOFOLLOW | _APPENDING)
    taken = take_lock(descriptor)
    if taken is None:
        os.close(descriptor)
        raise OSError(errno.EBUSY, "in use by another process", str(path))
    try:
        with open(os.dup(taken), "rb") as file:
            file.seek(0)
            old = list(file)
        lines = change(old)
        backup = _keep(target, old, f".v{version}")
        try:
            write_replacing(target, lines)
        except OSError:
            backup.unlink(missing_ok=True)
            raise
        os.chmod(backup, 0o600)
    finally:
        release_lock(taken)
    return lines, backup


def _keep(path: Path, lines: list[bytes], mark: str) -> Path:
    """Link the old file to the backup name; copy it if the file system has no hard links."""
    for number in count():
        backup = path.with_name(f"{path.name}{mark}{f'-{number}' if number else ''}.bak")
        try:
            os.link(path, backup)
        except FileExistsError:
            continue
        except OSError:
            if backup.exists():
                continue
            write_replacing(backup, lines)
        return backup
    raise AssertionError("unreachable")


def write_replacing(path: Path, lines: Iterable[bytes]) -> None:
    """Write a file with mode 0600 under another name, then move it to its path."""
    temporary = path.with_name(f".{path.name[:100]}.{os.urandom(4).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _free_name(path: Path) -> Path:
    """Return the path if it is missing or an empty file, else the first free `-1`, `-2` …"""
    return next(name for name in numbered(path) if _is_free(name))


def numbered(path: Path) -> Iterator[Path]:
    """Yield the path, then its name with `-1`, `-2` …"""
    yield path
    for number in count(1):
        yield path.with_name(f"{path.stem}-{number}{path.suffix}")


def _is_free(path: Path) -> bool:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return True
    return stat.S_ISREG(status.st_mode) and status.st_size == 0
