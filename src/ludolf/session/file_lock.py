"""One writer per session file: an advisory lock that the kernel frees when the process dies."""

import os

# Locks belong to the process: a second opening here must share the first one's lock.
_held: dict[tuple[int, int], list[int]] = {}


def take(descriptor: int) -> int | None:
    """Lock an open file for writing.

    Gives the descriptor to write with: the one given, or, if this process already holds the lock, a
    copy of that one (the given one is closed). None: another process writes the file.
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
    """Close a descriptor that `take` gave; the lock goes with the last one."""
    holders = _held.get(place := _place(descriptor), [])
    if descriptor in holders:
        holders.remove(descriptor)
    if not holders:
        _held.pop(place, None)
    os.close(descriptor)


def is_shared(path: "os.PathLike[str]") -> bool:
    """Whether more than one opening of this process may write the file."""
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
    except ImportError:  # no such locks on this system: foreign growth is still noticed
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
