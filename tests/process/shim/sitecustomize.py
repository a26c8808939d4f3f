"""Loaded by the program's interpreter when a test says so: a disk that fails, a clock that jumps.

LUDOLF_TEST_DISK   call:kind:first:count:name - the first-th call of `write`, `fsync`, `open`,
                   `replace` or `mkdir` on a path that holds the name, and so many after it, fail
                   with an errno of that name; `short` writes a part of the data.
LUDOLF_TEST_CALLS  a file in which every such call is noted by its name, one a line.
LUDOLF_TEST_CLOCK  a file that holds the seconds by which the wall clock is off.
"""

import errno
import os
import time
from typing import Any

_CALLS = ("write", "fsync", "open", "replace", "mkdir")


def _path_of(target: Any) -> str:
    if isinstance(target, int):
        try:
            return os.readlink(f"/proc/self/fd/{target}")
        except OSError:
            return ""
    return os.fsdecode(target)


class _Disk:
    def __init__(self, plan: str, log: str) -> None:
        call, kind, first, count, self.name = plan.split(":", 4)
        self.call, self.kind = call, kind
        self.first, self.last = int(first), int(first) + int(count)
        self.seen = 0
        self.log = log

    def install(self) -> None:
        for name in _CALLS:
            setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name: str, real: Any) -> Any:
        def call(target: Any, *rest: Any, **more: Any) -> Any:
            if self.name not in _path_of(target):
                return real(target, *rest, **more)
            if self.log:
                with open(self.log, "a") as file:
                    file.write(f"{name}\n")
            if name != self.call:
                return real(target, *rest, **more)
            self.seen += 1
            if not self.first <= self.seen < self.last:
                return real(target, *rest, **more)
            if self.kind == "short":
                return real(target, bytes(rest[0])[: max(1, len(rest[0]) // 2)])
            number = getattr(errno, self.kind)
            raise OSError(number, os.strerror(number))

        return call


def _move_clock(path: str) -> None:
    real, real_ns = time.time, time.time_ns

    def offset() -> float:
        with open(path) as file:
            return float(file.read() or 0)

    time.time = lambda: real() + offset()
    time.time_ns = lambda: real_ns() + int(offset() * 1e9)


if "LUDOLF_TEST_DISK" in os.environ:
    _Disk(os.environ["LUDOLF_TEST_DISK"], os.environ.get("LUDOLF_TEST_CALLS", "")).install()
if "LUDOLF_TEST_CLOCK" in os.environ:
    _move_clock(os.environ["LUDOLF_TEST_CLOCK"])
