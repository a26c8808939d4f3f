"""Time limits of the calls that wait for a server."""

import asyncio
from collections.abc import Callable
from typing import Any

from ludolf.mcp.wire import Json

TakeProgress = Callable[[Json], None]


class CallClock:
    """Time limit of one call, up to a limit in all."""

    def __init__(
        self, seconds: float, total: float, timeout: asyncio.Timeout, take: TakeProgress | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._seconds = seconds
        self._until = self._loop.time() + max(total, seconds)
        self._timeout = timeout
        self._take = take

    def restart(self) -> None:
        if not self._timeout.expired():
            self._timeout.reschedule(min(self._loop.time() + self._seconds, self._until))

    def pause(self) -> None:
        if not self._timeout.expired():
            self._timeout.reschedule(self._until)

    def progress(self, params: Json) -> None:
        self.restart()
        if self._take is not None:
            self._take(params)


class CallClocks:
    """The clocks of a connection, by the number of the call, which is its progress token."""

    def __init__(self) -> None:
        self._clocks: dict[int, CallClock] = {}

    def add(self, number: int, clock: CallClock) -> None:
        self._clocks[number] = clock

    def remove(self, number: int) -> None:
        self._clocks.pop(number, None)

    def progress(self, params: Json) -> None:
        """Pass on a report of progress and restart the time limit of its call."""
        token: Any = params.get("progressToken")
        clock = self._clocks.get(token) if isinstance(token, int) else None
        if clock is not None:
            clock.progress(params)

    def pause(self) -> None:
        """Stop all clocks: the server waits for us."""
        for clock in self._clocks.values():
            clock.pause()

    def restart(self) -> None:
        for clock in self._clocks.values():
            clock.restart()
