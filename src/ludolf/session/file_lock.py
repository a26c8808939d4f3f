"""Advisory lock for the one writer of a session file; the kernel frees it with the process."""

import os

# Locks belong to the process: if it opens the file again, both share the lock.
_held: dict[tuple[int, int], list[int]] = {}


def take(descriptor: int) -> int | None:
    """Lock an open file for writing.

    Returns the descriptor to write with: the argument, or, if this process already holds the lock,
    a copy of the locked one (the argument is closed). None if another process writes the file.
    """
    place = _place(descriptor)
    if _held.get(place):
        shared = os.dup(_held[place][0])
        os.close(descriptor)
        _held[place].append(shared)
        return shared
    if not _lock(descriptor):
        return None
    _held.setdefault(place, []).append(descriptor)
    return descriptor


def release(descriptor: int) -> None:
    """Close a descriptor from `take`; closing the last one releases the lock."""
    holders = _held.get(place := _place(descriptor), [])
    if descriptor in holders:
        holders.remove(descriptor)
    if not holders:
        _held.pop(place, None)
    os.close(descriptor)


def is_shared(path: "os.PathLike[str]") -> bool:
    """Return whether this process has the file open for writing more than once."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return len(_held.get((status.st_dev, status.st_ino), ())) > 1


def _place(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


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
