"""The one path of events: recorded on disk, then sent by the sinks."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from ludolf.engine.feature import Features
from ludolf.protocol.events import Event, Warned


class Sink(Protocol):
    """A receiver of events; one that derives from it and never waits only has to `take` them."""

    def take(self, event: Event) -> None:
        """Send an event at once, in order; must not wait and must not fail."""

    def has_room(self) -> bool:
        """Return whether more can be sent at once without piling up."""
        return True

    async def room(self) -> None:
        """Wait while the reader lags behind."""
        return

    def unread_bytes(self) -> int:
        """Return how much was sent that the reader has not taken yet, if that is known."""
        return 0

    async def all_read(self) -> None:
        """Wait until `unread_bytes` is 0."""
        return


class EventWriter(Protocol):
    """Writes events that have to be kept, with one write for all of one call."""

    def __call__(self, *events: Event) -> None: ...


class Hub:
    """No await stands between recording and sending: an event that a host sees is on disk."""

    def __init__(
        self,
        record: EventWriter,
        warn: Callable[[str], None],
        features: Features,
    ) -> None:
        self._record = record
        self._warn = warn
        self._features = features
        self._sinks: list[Sink] = []
        # Reports from before a sink was attached; None from then on.
        self._early: list[Warned] | None = []

    def begin(self) -> None:
        """Send the reports that were made before; from now on each is sent at once."""
        early, self._early = self._early, None
        for event in early or ():
            self.post(event)

    def report(self, text: str) -> None:
        """Report a failure on stderr and to the host."""
        self._warn(text)
        self.notify(text)

    def notify(self, text: str) -> None:
        """Send a warning to the host."""
        event = Warned(message=text)
        if self._early is None:
            self.post(event)
        else:
            self._early.append(event)

    def attach(self, sink: Sink) -> Callable[[], None]:
        """Add a sink; returns the function that removes it."""
        self._sinks.append(sink)
        return lambda: self._sinks.remove(sink)

    def post(self, event: Event) -> None:
        """Record and send, without waiting."""
        self._record(event)
        self.send(event)
        for feature in self._features.hooks["after_event"]:
            feature.after_event(event)

    def send(self, event: Event) -> None:
        """Send only: for pieces of an answer, which are never recorded."""
        for sink in self._sinks:
            sink.take(event)

    async def emit(self, event: Event) -> None:
        """Call extensions, record and send, then wait while a reader is too slow."""
        for feature in self._features.hooks["before_event"]:
            await feature.before_event(event)
        self._record(event)
        self.send(event)
        await self.room()

    async def emit_all(self, events: Sequence[Event]) -> None:
        """Emit events that belong together, with one write for all of them.

        Commands are let in afterwards, since there may be many such groups.
        """
        for feature in self._features.hooks["before_event"]:
            for event in events:
                await feature.before_event(event)
        self._record(*events)
        for event in events:
            self.send(event)
        await self.yield_to_loop()

    def has_room(self) -> bool:
        return all(sink.has_room() for sink in self._sinks)

    async def room(self) -> None:
        for sink in tuple(self._sinks):
            await sink.room()

    def unread_bytes(self) -> int:
        """Return how much the slowest reader has not taken yet."""
        return max((sink.unread_bytes() for sink in self._sinks), default=0)

    async def all_read(self) -> None:
        for sink in tuple(self._sinks):
            await sink.all_read()

    async def yield_to_loop(self) -> None:
        """Let commands in between two bursts of pieces."""
        await self.room()
        await asyncio.sleep(0)
