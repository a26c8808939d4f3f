"""What the server counts and measures, and its text for Prometheus."""

import asyncio
from collections import deque
from collections.abc import Mapping

import msgspec

_EVERY_SECONDS = 0.5
_KEPT = 30  # with the interval above: 15 seconds, a usual interval between two reads
_COUNTERS = {
    "frames": "Numbered frames of all sessions.",
    "bytes": "Bytes of these frames.",
    "replays": "Attachments that were answered with the missed frames.",
    "snapshots": "Attachments that were answered with a snapshot.",
    "resyncs": "Snapshots sent to clients that were too far behind.",
    "loads": "Sessions loaded.",
    "unloads": "Sessions unloaded.",
    "refused_logins": "Connections and requests with no token or a wrong one.",
    "connections": "Connections of clients.",
}
_GAUGES = {
    "sessions_loaded": "Sessions in memory.",
    "sessions_running": "Sessions in which a run is under way.",
    "clients": "Clients that are connected.",
    "dialogs_waiting": "Dialogs that wait for an answer.",
    "loop_lag_seconds": "Longest delay of the event loop during the last 15 seconds.",
    "resident_memory_bytes": "Resident memory of the process.",
}


class ServerFigures(msgspec.Struct):
    """Counters since the start of the server."""

    frames: int = 0
    bytes: int = 0
    replays: int = 0
    snapshots: int = 0
    resyncs: int = 0
    loads: int = 0
    unloads: int = 0
    refused_logins: int = 0
    connections: int = 0


def metrics_text(figures: ServerFigures, gauges: Mapping[str, float]) -> str:
    """Return all figures in the text format of Prometheus; `gauges` has those of this moment."""
    rows = [
        _row(f"ludolf_{name}_total", "counter", text, getattr(figures, name))
        for name, text in _COUNTERS.items()
    ]
    rows += [
        _row(f"ludolf_{name}", "gauge", text, gauges[name])
        for name, text in _GAUGES.items()
        if name in gauges
    ]
    return "".join(rows)


def _row(name: str, kind: str, text: str, value: float) -> str:
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n{name} {value!r}\n"


def resident_bytes() -> int:
    """Return the memory of this process; where the system does not say, the most it ever had."""
    import resource
    import sys

    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


class LoopLag:
    """Measure how late the event loop wakes a task; the owner runs `measure` as a task.

    It wakes twice a second, which takes less than 0.1 % of a core.
    """

    def __init__(self, every_seconds: float = _EVERY_SECONDS) -> None:
        self._every = every_seconds
        self._due: float | None = None
        self._measured: deque[float] = deque(maxlen=_KEPT)

    @property
    def seconds(self) -> float:
        """The last delay, or the present one if that is longer."""
        last = self._measured[-1] if self._measured else 0.0
        return max(last, self._overdue())

    @property
    def worst(self) -> float:
        """The longest delay of the last 30 measurements."""
        return max((*self._measured, self._overdue()))

    async def measure(self) -> None:
        """Measure until the task is cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._due = loop.time() + self._every
                await asyncio.sleep(self._every)
                self._measured.append(max(0.0, loop.time() - self._due))
        finally:
            self._due = None

    def _overdue(self) -> float:
        if self._due is None:
            return 0.0
        return max(0.0, asyncio.get_running_loop().time() - self._due)
