"""One gate for the requests of many agents: it finds out how many a provider accepts.

A lane starts with four requests at once and doubles their number every five seconds. When the
server refuses one, the lane closes for all; afterwards requests leave at a rate below the one that
passed before, which rises with each answer.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Protocol

from ludolf.ai.gate import GateReport, RequestGate

FIRST_WIDTH = 4
DOUBLING_SECONDS = 5.0
# Without `retry-after`, a lane closes for this time; twice as long if it was refused again.
PAUSE_SECONDS = 2.0
MOST_PAUSE_SECONDS = 60.0
# The rate after a refusal is this part of the rate that passed in the last seconds.
PART = 0.7
SEEN_SECONDS = 10.0
LEAST_RATE = 0.5
# Each answer adds this many requests per second; up to three times as many if the last refusal was
# long ago.
STEP = 0.03
STEP_SECONDS = 10.0
MOST_STEPS = 3.0
# A late timer may be made up for by this much.
LATE_SECONDS = 0.1


class GateTimer(Protocol):
    """A call in the future."""

    def cancel(self) -> None: ...


class GateClock(Protocol):
    """The part of an event loop that a gate uses."""

    def time(self) -> float: ...
    def call_at(self, when: float, callback: Callable[[], object], /) -> GateTimer: ...


class RateGate:
    """A gate with a lane for each provider, address and key. `clock` is the event loop."""

    def __init__(self, clock: GateClock | None = None) -> None:
        self._clock = clock
        self._lanes: dict[str, GateLane] = {}
        self._tickets: dict[int, GateLane] = {}
        self._numbers = count(1)

    async def enter(self, lane: str) -> int:
        """Wait until a request of the lane may be sent; return its ticket."""
        if lane not in self._lanes:
            self._lanes[lane] = GateLane(self._clock or asyncio.get_running_loop())
        place = self._lanes[lane]
        ticket = next(self._numbers)
        await place.enter(ticket)
        self._tickets[ticket] = place
        return ticket

    def report(self, ticket: int, report: GateReport) -> None:
        """Take what the server said. A ticket that was left is ignored."""
        if ticket in self._tickets:
            self._tickets[ticket].report(ticket, report)

    def leave(self, ticket: int) -> None:
        """End a request. A ticket that was left is ignored."""
        place = self._tickets.pop(ticket, None)
        if place is not None:
            place.leave(ticket)


class GateLane:
    """Requests that share the limits of one server."""

    def __init__(self, clock: GateClock) -> None:
        self._clock = clock
        self._timer: GateTimer | None = None
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        # When each request on its way was sent.
        self._sent: dict[int, float] = {}
        self._width = FIRST_WIDTH
        self._began = self._doubled = clock.time()
        self._answered: deque[float] = deque()
        self._rate: float | None = None
        self._next = 0.0
        self._open_at = 0.0
        self._refused_at = -1.0
        self._pause = PAUSE_SECONDS

    async def enter(self, ticket: int) -> None:
        """Wait for a turn, in the order of the calls."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((ticket, turn))
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if ticket in self._sent:
                self.leave(ticket)
            raise

    def leave(self, ticket: int) -> None:
        self._sent.pop(ticket, None)
        self._admit()

    def report(self, ticket: int, report: GateReport) -> None:
        now = self._clock.time()
        if report.refused:
            self._close(now, self._sent.get(ticket, now), report.retry_after)
        elif report.status < 400:
            self._rise(now)
        if report.remaining == 0 and report.reset is not None:
            self._open_at = max(self._open_at, now + min(report.reset, MOST_PAUSE_SECONDS))

    # ------------------------------------------------------------ the rate

    def _close(self, now: float, sent: float, seconds: float | None) -> None:
        """Close after a refusal. Requests sent before the last one say nothing new."""
        if sent > self._refused_at:
            self._rate = max(LEAST_RATE, PART * self._seen(now))
            self._refused_at = self._doubled = now
            if seconds is None:
                seconds, self._pause = self._pause, 2 * self._pause
        if seconds is not None:
            self._open_at = max(self._open_at, now + min(seconds, MOST_PAUSE_SECONDS))

    def _seen(self, now: float) -> float:
        """Return the answers per second of the last seconds."""
        while self._answered and self._answered[0] < now - SEEN_SECONDS:
            self._answered.popleft()
        return len(self._answered) / min(SEEN_SECONDS, max(1.0, now - self._began))

    def _rise(self, now: float) -> None:
        self._answered.append(now)
        self._pause = PAUSE_SECONDS
        if self._rate is None:
            self._seen(now)  # forgets old answers
        else:
            quiet = (now - self._refused_at) / STEP_SECONDS
            self._rate += STEP * min(1 + quiet, MOST_STEPS)

    # ------------------------------------------------------------ admission

    def _admit(self) -> None:
        """Let requests pass, and return later for the others."""
        now = self._clock.time()
        if len(self._sent) >= self._width and now >= self._doubled + DOUBLING_SECONDS:
            self._width, self._doubled = 2 * self._width, now
        while self._drop_cancelled() and (when := self._opens()) <= now:
            ticket, turn = self._waiting.popleft()
            self._sent[ticket] = now
            if self._rate is not None:
                self._next = max(self._next, now - LATE_SECONDS) + 1 / self._rate
            turn.set_result(None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting and len(self._sent) < self._width:
            self._doubled = now  # a lane that is not full has no reason to widen
        if self._waiting:
            self._timer = self._clock.call_at(when, self._admit)

    def _drop_cancelled(self) -> bool:
        """Forget requests that were aborted; return whether others wait."""
        while self._waiting and self._waiting[0][1].done():
            self._waiting.popleft()
        return bool(self._waiting)

    def _opens(self) -> float:
        """Return when the next request may pass."""
        if len(self._sent) < self._width:
            return max(self._open_at, self._next)
        return self._doubled + DOUBLING_SECONDS


if TYPE_CHECKING:
    _proof: RequestGate = RateGate()
