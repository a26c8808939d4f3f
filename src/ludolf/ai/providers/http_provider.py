"""Outline of an answer over HTTP; the API of each vendor supplies the request and a reader."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, Protocol, TypeVar

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.http.sse import SseParser
from ludolf.ai.http.transport import HttpResponse, Parser, Seal, Transport, check
from ludolf.ai.provider import Provider, Request

FrameT = TypeVar("FrameT")
ReadT = TypeVar("ReadT", contravariant=True)


class HttpCall(NamedTuple):
    """The HTTP request of a call; `seal` signs it before it is sent."""

    url: str
    headers: Mapping[str, str]
    body: bytes
    seal: Seal | None = None


class AnswerReader(Protocol[ReadT]):
    """Reads one answer into a draft."""

    @property
    def done(self) -> bool:
        """Whether the last event of the answer has arrived."""

    def take(self, events: Iterable[ReadT], /) -> Iterator[StreamEvent]:
        """Yield the events of one network read.

        Raises:
            ProviderError: the server reported a failure, or sent data that cannot be parsed.
        """
        ...

    def finish(self) -> Iterable[StreamEvent]:
        """Return the last events and set the stop reason.

        Raises:
            ProviderError: the answer is incomplete, or the model ended it with a failure.
        """
        ...


class AlternatingBlocks:
    """Blocks of an API that streams text and thinking without marking where they end."""

    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self.block = -1
        self._kind = ""

    def open(self, kind: Literal["text", "thinking"]) -> Iterator[StreamEvent]:
        """Start a block unless the open one is of this kind."""
        if kind == self._kind:
            return
        yield from self.close()
        thinks = kind == "thinking"
        start = self.draft.start_thinking(signature=None) if thinks else self.draft.start_text()
        self._kind, self.block = kind, start.index
        yield start

    def close(self) -> Iterator[StreamEvent]:
        """End the open block, if there is one."""
        if self._kind:
            self._kind = ""
            yield self.draft.end(self.block)


class HttpProvider(Generic[FrameT]):
    """Base class of providers that post a request and read a stream of events."""

    api: str
    abort_text = "Request was aborted"

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def call(self, request: Request) -> HttpCall:
        """Return the HTTP request of a request.

        Raises:
            ProviderError: credentials are missing, or the API cannot express the request.
        """
        raise NotImplementedError

    def parser(self) -> Parser[FrameT]:
        raise NotImplementedError

    def reader(self, request: Request, draft: Draft, reply: HttpResponse) -> AnswerReader[FrameT]:
        raise NotImplementedError

    def describe(self, status: int, body: str) -> str:
        """Return the text of an HTTP failure."""
        raise NotImplementedError

    async def check(self, reply: HttpResponse) -> None:
        """Turn an HTTP failure into a ProviderError.

        Raises:
            ProviderError: the status is not 200, or the body is not an event stream.
        """
        await check(reply, self.describe)

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        call = await self.call(request)
        async with self._transport.post(
            call.url, call.headers, call.body, patience=request.patience, seal=call.seal
        ) as reply:
            if request.on_head is not None:
                request.on_head(reply.status, reply.headers)
            await self.check(reply)
            yield ()
            reader = self.reader(request, draft, reply)
            async for events in reply.read(self.parser()):
                yield reader.take(events)
                if reader.done:
                    break
            yield reader.finish()
            await reply.finish()


class EventStreamProvider(HttpProvider[bytes]):
    """Base class of providers with server-sent events."""

    def parser(self) -> SseParser:
        return SseParser()


if TYPE_CHECKING:
    _provider: type[Provider] = EventStreamProvider
