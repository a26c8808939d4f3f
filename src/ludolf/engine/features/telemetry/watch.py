"""Watch requests to models: when one is sent, its first chunk, its end."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import NamedTuple, Protocol

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.provider import Provider, Request


class RequestFailure(NamedTuple):
    """The kind of an error or `aborted`, and the HTTP status if there is one."""

    kind: str
    status: int | None = None


class RequestWatch(Protocol):
    """Takes what a watched provider sees."""

    def send(self, request: Request) -> tuple[int, Request]:
        """Called before a request is sent; returns its key, and the request to send."""

    def start_answer(self, key: int) -> None:
        """Called with the first chunk of the answer."""

    def end(self, key: int, failure: RequestFailure | None, draft: Draft) -> None:
        """Called when the stream has ended; `failure` says why if it failed or was cancelled."""


class WatchedProvider(Provider):
    """Adds nothing to an answer: each read of the network passes as it is."""

    def __init__(self, inner: Provider, watch: RequestWatch) -> None:
        self._inner = inner
        self._watch = watch

    @property
    def api(self) -> str:
        return self._inner.api

    @property
    def abort_text(self) -> str:
        return self._inner.abort_text

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        key, sent = self._watch.send(request)
        failure: RequestFailure | None = RequestFailure("aborted")
        try:
            async with aclosing(self._inner.stream(sent, draft)) as stream:
                # The first item says that the server answers; the second is the first chunk.
                async for head in stream:
                    yield head
                    break
                async for chunk in stream:
                    self._watch.start_answer(key)
                    yield chunk
                    break
                async for chunk in stream:
                    yield chunk
            failure = None
        except ProviderError as error:
            failure = RequestFailure(error.kind, error.status)
            raise
        finally:
            self._watch.end(key, failure, draft)
