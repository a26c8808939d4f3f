"""Watch requests to models: when one is sent, and the end of those without events."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Protocol

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.provider import Provider, ProviderWrapper, Request


class RequestWatch(Protocol):
    """Takes what a watched provider sees."""

    def send(self, request: Request, draft: Draft) -> tuple[Request, int | None]:
        """Called before a request is sent; returns the request to send.

        Also returns the key of a request that is not part of a turn, such as that for a summary.
        """

    def end(self, key: int, draft: Draft, *, whole: bool) -> None:
        """Called when the stream of such a request has ended; `whole` unless it broke off."""


class WatchedProvider(ProviderWrapper):
    """Adds nothing to the answer of a turn, whose stream is that of the provider itself."""

    def __init__(self, inner: Provider, watch: RequestWatch) -> None:
        super().__init__(inner)
        self._watch = watch

    def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        sent, key = self._watch.send(request, draft)
        stream = self._inner.stream(sent, draft)
        return stream if key is None else self._watched(key, stream, draft)

    async def _watched(
        self, key: int, stream: AsyncGenerator[Iterable[StreamEvent]], draft: Draft
    ) -> AsyncGenerator[Iterable[StreamEvent]]:
        whole = False
        try:
            async with aclosing(stream):
                async for events in stream:
                    yield events
            whole = True
        finally:
            self._watch.end(key, draft, whole=whole)
