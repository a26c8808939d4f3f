"""Read CPU time and memory of a process (Linux)."""

import contextlib
import os
import time
from pathlib import Path

import msgspec

_SCHED_CLOCK = 2


class Memory(msgspec.Struct, frozen=True):
    """MiB of a process and its descendants."""

    rss: float
    pss: float
    peak: float


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process, without its children."""
    # The CPU clock of another process, as in clock_getcpuclockid(3), has a resolution of a
    # nanosecond; /proc counts in ticks of ten milliseconds.
    return time.clock_gettime((~pid << 3) | _SCHED_CLOCK)


def family_cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process and its live descendants."""
    total = 0.0
    for each in family(pid):
        with contextlib.suppress(OSError):  # the process has ended
            total += cpu_seconds(each)
    return total


def memory(pid: int) -> Memory:
    parts = [_memory_of(each) for each in family(pid)]
    return Memory(
        rss=sum(each.rss for each in parts),
        pss=sum(each.pss for each in parts),
        peak=sum(each.peak for each in parts),
    )


def family(pid: int) -> list[int]:
    """Return the ids of a process and its descendants."""
    ids, waiting = [], [pid]
    while waiting:
        each = waiting.pop()
        ids.append(each)
        for thread in _list(f"/proc/{each}/task"):
            waiting += map(int, _read(f"/proc/{each}/task/{thread}/children").split())
    return ids


def _memory_of(pid: int) -> Memory:
    sizes = _sizes(_read(f"/proc/{pid}/smaps_rollup"))
    peak = _sizes(_read(f"/proc/{pid}/status"))
    return Memory(rss=sizes.get("Rss", 0), pss=sizes.get("Pss", 0), peak=peak.get("VmHWM", 0))


def _sizes(text: str) -> dict[str, float]:
    lines = (line.split() for line in text.splitlines())
    return {
        words[0].rstrip(":"): int(words[1]) / 1024
        for words in lines
        if len(words) == 3 and words[2] == "kB"
    }


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:  # the process has ended
        return ""


def _list(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
