"""Name the code that blocks the event loop, and with it every session of the server."""

import asyncio
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable
from types import FrameType

BLOCKED = (
    "{place} has blocked the server for {seconds:g} s: all sessions wait for it. Make the code "
    "asynchronous, or open its session with isolated."
)
_OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LIBRARY = tuple({os.path.abspath(path) for path in sysconfig.get_paths().values() if path})


class LoopWatch:
    """A thread looks whether the loop runs. `report` is called in that thread, once a block."""

    def __init__(self, report: Callable[[str], None], seconds: float = 1.0) -> None:
        self._report = report
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        self._stopped = threading.Event()
        self._beat = time.monotonic()
        self._reported = False
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._tick()
        threading.Thread(target=self._watch, daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self._beat = time.monotonic()
        self._reported = False
        self._timer = self._loop.call_later(self._seconds / 2, self._tick)

    def _watch(self) -> None:
        while not self._stopped.wait(self._seconds / 2):
            # The loop beats twice in this time, so it is late by the whole of it.
            is_late = time.monotonic() - self._beat > 1.5 * self._seconds
            if is_late and not self._reported:
                self._reported = True
                frame = sys._current_frames().get(self._thread_id)
                self._report(BLOCKED.format(place=_place(frame), seconds=self._seconds))


def _place(frame: FrameType | None) -> str:
    """Return the innermost line that is neither of this program nor of a library."""
    inner = frame
    while frame is not None:
        file = os.path.abspath(frame.f_code.co_filename)
        if not file.startswith((_OWN, *_LIBRARY)) and os.path.exists(file):
            return f"{file}:{frame.f_lineno}"
        frame = frame.f_back
    return "Unknown code" if inner is None else f"{inner.f_code.co_filename}:{inner.f_lineno}"
