"""One road for events: recorded on disk, then spoken by the sinks."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from ludolf.protocol.events import Event, Warned


class Sink(Protocol):
    """Someone who tells events to the outside."""

    def take(self, event: Event) -> None:
        """Tell an event at once, in order; must not wait and must not fail."""

    def has_room(self) -> bool:
        """Whether more can be told at once without piling up."""

    async def room(self) -> None:
        """Wait while the reader lags behind."""


class Record(Protocol):
    """Writes what has to be kept of events, with one write for all of one call."""

    def __call__(self, *events: Event) -> None: ...


class Hub:
    """No await stands between recording and telling, so what a host sees finished is on disk."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._sinks: list[Sink] = []
        self._before: Callable[[Event], Awaitable[None]] | None = None
        self._after: Callable[[Event], None] | None = None
        # What was reported before anybody listened; None from then on.
        self._unheard: list[Warned] | None = []

    def begin(self) -> None:
        """Somebody listens from now on: what was reported before is told first."""
        unheard, self._unheard = self._unheard, None
        for event in unheard or ():
            self.post(event)

    def report(self, text: str) -> None:
        """Tell that something could not be done as it should."""
        event = Warned(message=text)
        if self._unheard is None:
            self.post(event)
        else:
            self._unheard.append(event)

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

    async def emit_all(self, events: Sequence[Event]) -> None:
        """Emit events that belong together: one write for all, and then they are told.

        Commands are let in afterwards, since there may be many such groups.
        """
        if self._before is not None:
            for event in events:
                await self.emit(event)
        else:
            self._record(*events)
            for event in events:
                self.tell(event)
        await self.breathe()

    def has_room(self) -> bool:
        return all(sink.has_room() for sink in self._sinks)

    async def room(self) -> None:
        for sink in tuple(self._sinks):
            await sink.room()

    async def breathe(self) -> None:
        """Let commands in between two bursts of pieces."""
        await self.room()
        await asyncio.sleep(0)
