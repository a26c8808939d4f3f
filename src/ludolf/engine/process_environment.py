"""Keep keys out of the environment of this process that the kernel shows to other processes."""

import os
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

# Counted from behind the name in parentheses, which may hold anything: see proc(5).
_ENV_START, _ENV_END = 47, 48

_wiped: set[str] = set()


def wipe(names: AbstractSet[str], environ: Mapping[str, str]) -> None:
    """Overwrite these variables in the memory of the start, once for each name.

    Only for a program that owns its process. Does nothing without /proc, and for a session with an
    environment of its own, which the kernel does not show.
    """
    if environ is not os.environ or names <= _wiped:
        return
    for name in names - _wiped:
        if name in os.environ:
            # The C library makes a copy, for programs that are started with its environment.
            os.environ[name] = os.environ[name]
    _wiped.update(names)
    try:
        memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return  # not Linux, or others cannot look into this process either
    try:
        _overwrite(memory, {os.fsencode(name) for name in names})
    except (OSError, ValueError, IndexError):
        return
    finally:
        os.close(memory)


def _overwrite(memory: int, names: AbstractSet[bytes]) -> None:
    with open("/proc/self/stat", "rb", buffering=0) as file:
        fields = file.read().rpartition(b")")[2].split()
    at, end = int(fields[_ENV_START]), int(fields[_ENV_END])
    for entry in os.pread(memory, end - at, at).split(b"\0"):
        if entry.partition(b"=")[0] in names:
            os.pwrite(memory, bytes(len(entry)), at)
        at += len(entry) + 1
