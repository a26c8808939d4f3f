"""One road for events: recorded on disk, then spoken by the sinks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from ludolf.protocol.events import Event


class Sink(Protocol):
    """Someone who tells events to the outside."""

    def take(self, event: Event) -> None:
        """Tell an event at once, in order; must not wait and must not fail."""

    def has_room(self) -> bool:
        """Whether more can be told without piling up."""

    async def room(self) -> None:
        """Wait until there is room again."""


class Hub:
    """No await stands between recording and telling, so what a host sees finished is on disk."""

    def __init__(self, record: Callable[[Event], None]) -> None:
        self._record = record
        self._sinks: list[Sink] = []
        self._before: Callable[[Event], Awaitable[None]] | None = None
        self._after: Callable[[Event], None] | None = None

    def listen(
        self,
        before: Callable[[Event], Awaitable[None]] | None,
        after: Callable[[Event], None] | None,
    ) -> None:
        """Let extensions hear: `before` an event that is awaited, `after` one that is not."""
        self._before, self._after = before, after

    def attach(self, sink: Sink) -> Callable[[], None]:
        """Add a sink; returns the function that takes it away again."""
        self._sinks.append(sink)
        return lambda: self._sinks.remove(sink)

    def post(self, event: Event) -> None:
        """Record and tell, without waiting for anyone."""
        self._record(event)
        self.tell(event)
        if self._after is not None:
            self._after(event)

    def tell(self, event: Event) -> None:
        """Tell only: for pieces of an answer, which are never recorded."""
        for sink in self._sinks:
            sink.take(event)

    async def emit(self, event: Event) -> None:
        """Let extensions hear it, record and tell, then wait while a reader is too slow."""
        if self._before is not None:
            await self._before(event)
        self._record(event)
        self.tell(event)
        await self.room()

    def has_room(self) -> bool:
        return all(sink.has_room() for sink in self._sinks)

    async def room(self) -> None:
        for sink in self._sinks:
            if not sink.has_room():
                await sink.room()

    async def breathe(self) -> None:
        """Let commands in between two bursts of pieces."""
        await self.room()
        await asyncio.sleep(0)
