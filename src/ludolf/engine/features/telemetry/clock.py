"""Times of spans: durations follow the monotonic clock, also when the wall clock jumps."""

import time


class SpanClock:
    """Counts nanoseconds of Unix time from the moment at which it was set."""

    def __init__(self) -> None:
        self.set()

    def set(self) -> None:
        """Take over the wall clock, between two runs."""
        self._wall = time.time_ns()
        self._monotonic = time.monotonic_ns()

    def now(self) -> int:
        return self._wall + time.monotonic_ns() - self._monotonic
