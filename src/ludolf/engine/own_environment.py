"""Keep keys out of /proc/PID/environ, where other processes of the user can read them.

The kernel shows there the memory that the environment was passed in at the start. `os.environ` and
the C library keep their own copies, so the program and what it starts see no difference.
"""

import os
from collections.abc import Set as AbstractSet

# Counted from behind the name in parentheses, which may hold anything: see proc(5).
_ENV_START, _ENV_END = 47, 48

_wiped: set[str] = set()


def wipe(names: AbstractSet[str]) -> None:
    """Overwrite these variables in the memory of the start, once for each name.

    Only for a program that owns its process. Does nothing without /proc.
    """
    if names <= _wiped:
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
