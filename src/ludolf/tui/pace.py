"""When to draw: keys at once, streams at most 30 times a second, and not while sizes change."""

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable

STREAM_SECONDS = 1 / 30
# tmux changes its grid at once, and reports a second change only after a quarter of a second.
SETTLE_SECONDS = 0.3


class DrawPace:
    """Calls a function that draws, no more often than needed; no timer runs while nothing is due.

    Args:
        draw: Composes the rows and draws them.
        loop: Its clock and its timers are used.
        stream_seconds: The shortest time between draws of a stream.
        settle_seconds: How long the size must stay the same before the next draw.
    """

    def __init__(
        self,
        draw: Callable[[], object],
        loop: AbstractEventLoop,
        stream_seconds: float = STREAM_SECONDS,
        settle_seconds: float = SETTLE_SECONDS,
    ) -> None:
        self._draw = draw
        self._loop = loop
        self._stream_seconds = stream_seconds
        self._settle_seconds = settle_seconds
        self._timer: TimerHandle | None = None
        self._next_stream = 0.0
        self._held_until = 0.0

    def now(self) -> None:
        """Draw at once, as for a key, unless the size has just changed."""
        if self._loop.time() < self._held_until:
            self._at(self._held_until)
        else:
            self._run()

    def soon(self) -> None:
        """Draw as for a stream: at once if the last draw is long enough ago."""
        due = max(self._next_stream, self._held_until)
        if self._timer is None:
            if self._loop.time() < due:
                self._at(due)
            else:
                self._run()

    def resized(self) -> None:
        """Draw when the size has stayed the same for a moment.

        What is drawn while the terminal already has another size would leave parts behind.
        """
        self._held_until = self._loop.time() + self._settle_seconds
        self._at(self._held_until)

    def close(self) -> None:
        """Draw no more by a timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _at(self, due: float) -> None:
        self.close()
        self._timer = self._loop.call_at(due, self._run)

    def _run(self) -> None:
        self.close()
        self._next_stream = self._loop.time() + self._stream_seconds
        self._draw()
