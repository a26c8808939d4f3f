"""HTTP for model providers: requests within time limits, responses with a bounded body."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

import msgspec

from ludolf.ai.access import Patience
from ludolf.ai.errors import ProviderError, kind_of_status, retry_after

if TYPE_CHECKING:
    from ludolf.ai.http.pool import ConnectionPool
    from ludolf.ai.http.response import IncomingResponse
    from ludolf.ai.messages import ThinkingLevel
    from ludolf.ai.models import Model

MAX_ANSWER_BYTES = 64 << 20
MAX_ERROR_BYTES = 64 << 10
# Time limit for reading an error, or a short response that is read completely.
ERROR_SECONDS = 30.0
# Bytes parsed at once; all of them stay in memory while a slow reader blocks the stream.
PIECE_BYTES = 64 << 10
PACKED = "The answer is compressed, although no compression was requested"
_USUAL = Patience()

ParsedT = TypeVar("ParsedT", covariant=True)
# Signs or authenticates the final request: (address, headers, body) -> all headers.
Seal = Callable[[str, Mapping[str, str], bytes], dict[str, str]]


class ResponseBody(Protocol):
    """The body of a response as it arrives."""

    async def readany(self) -> bytes:
        """Return the available bytes, at least one; b"" at the end."""

    async def read(self, n: int = -1) -> bytes:
        """Return at most `n` bytes; b"" at the end."""

    def at_eof(self) -> bool: ...


class Raw(Protocol):
    """An HTTP response from the network or from a recording."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def content(self) -> ResponseBody: ...


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A final HTTP request."""

    method: str = "POST"
    url: str
    headers: Mapping[str, str]
    body: bytes
    patience: Patience


class HttpResponse:
    """An HTTP response with an unread body."""

    def __init__(self, raw: Raw, patience: Patience) -> None:
        self._raw = raw
        self._patience = patience
        self.status = raw.status
        self.headers: Mapping[str, str] = raw.headers
        encoding = raw.headers.get("Content-Encoding", "identity").strip().lower()
        self._encoding = "" if encoding in ("", "identity") else encoding

    async def text(self) -> str:
        """Return the start of the body: at most 64 KiB, received within at most 30 s."""
        if self._encoding:
            return ""
        body = bytearray()
        limit = min(ERROR_SECONDS, self._patience.first or ERROR_SECONDS)
        # After the time limit, the text received so far is enough.
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while len(body) < MAX_ERROR_BYTES:
                    more = await self._raw.content.read(MAX_ERROR_BYTES - len(body))
                    if not more:
                        break
                    body += more
        return body.decode("utf-8", "replace")

    def events(self) -> AsyncIterator[Iterator[bytes]]:
        """Yield, for each network read, the data of the server-sent events that it completed."""
        from ludolf.ai.http.sse import SseParser

        return self.read(SseParser())

    async def read(self, parser: "Parser[ParsedT]") -> AsyncIterator[Iterator[ParsedT]]:
        """Yield, for each network read, the items that the parser found.

        Raises:
            ProviderError: the body is compressed or too large, or no event came in time.
        """
        if self._encoding:
            # No compression was requested, and the decompressed size is unbounded.
            raise ProviderError(
                f"{PACKED}: {self._encoding}. Check the base URL", kind="bad_request"
            )
        total, last_event, limit = 0, time.monotonic(), self._patience.first
        while chunk := await self._raw.content.readany():
            total += len(chunk)
            if total > MAX_ANSWER_BYTES:
                raise ProviderError(
                    f"The answer is larger than {MAX_ANSWER_BYTES >> 20} MiB", kind="bad_request"
                )
            for start in range(0, len(chunk), PIECE_BYTES):
                yield parser.feed(chunk[start : start + PIECE_BYTES])
            now = time.monotonic()
            if parser.has_event:
                parser.has_event, last_event = False, now
                if limit != self._patience.between:
                    limit = self._patience.between
                    _limit_silence(self._raw, limit)
            elif limit and now - last_event > limit:
                # Pings keep the connection alive, but do not count as an answer.
                raise ProviderError(f"Request timed out: no event for {limit:.0f} s")
        yield parser.close()

    async def finish(self, seconds: float = 0.05) -> None:
        """Wait `seconds` for the end of a complete answer, so that the connection can be reused."""
        # The answer is complete even if the server sends more or disconnects now.
        with suppress(TimeoutError, ProviderError):
            async with asyncio.timeout(seconds):
                while await self._raw.content.readany():
                    pass


class Parser(Protocol[ParsedT]):
    """Finds events in chunks that are split anywhere; sets `has_event` when it finds one."""

    has_event: bool

    def feed(self, chunk: bytes) -> Iterator[ParsedT]: ...
    def close(self) -> Iterator[ParsedT]: ...


class Watcher(Protocol):
    """Observer that may inspect and change requests to a provider."""

    async def sending(self, body: bytes, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        """Called before a request is sent; returns the body and headers to send."""

    async def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Called when the response headers have arrived, before the body is read."""


class Transport:
    """The way to model servers, shared by all requests of an engine.

    `environ` names the proxies.
    """

    # Whether responses come from a recording, so that no server needs to run.
    plays_back = False

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.watcher: Watcher | None = None
        self._pool: ConnectionPool | None = None

    @asynccontextmanager
    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        patience: Patience = _USUAL,
        seal: Seal | None = None,
    ) -> AsyncIterator[HttpResponse]:
        """Send a request. Redirects are not followed: a key is sent to the configured origin only.

        `seal` runs last, because a signature must cover the changes of a watcher.

        Raises:
            ProviderError: the server could not be reached or stopped sending.
        """
        all_headers = {"Accept-Encoding": "identity", **headers}
        if self.watcher is not None:
            body, all_headers = await self.watcher.sending(body, all_headers)
        if seal is not None:
            all_headers = seal(url, all_headers, body)
        sent = HttpRequest(url=url, headers=all_headers, body=body, patience=patience)
        async with self.model_exchange(sent) as raw:
            if self.watcher is not None:
                await self.watcher.answered(raw.status, raw.headers)
            yield HttpResponse(raw, patience)

    def model_exchange(self, sent: HttpRequest) -> AbstractAsyncContextManager[Raw]:
        """Exchange with a model server; recording and replay override this method."""
        return self.exchange(sent)

    @asynccontextmanager
    async def exchange(self, sent: HttpRequest) -> AsyncIterator[Raw]:
        """Send one request over the network, to any server.

        Raises:
            ProviderError: the server could not be reached or stopped sending.
        """
        from ludolf.ai.http.exchange import HttpExchange

        exchange = HttpExchange(self._open(), sent, self.environ)
        try:
            yield await exchange.send()
        except TimeoutError as error:
            text = str(error) or f"no answer from {_origin(sent.url)} in time"
            raise ProviderError(f"Request timed out: {text}", kind="timeout") from error
        finally:
            exchange.close()

    def _open(self) -> "ConnectionPool":
        from ludolf.ai.http.pool import ConnectionPool

        if self._pool is None or self._pool.is_closed:
            self._pool = ConnectionPool.join()
        return self._pool

    def begin(self, model: "Model | None", level: "ThinkingLevel") -> None:
        """Called at the start of a run, for subclasses that record it."""

    def will_ask(self, model: "Model") -> None:
        """Called before a request to this model, for subclasses that record it."""

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.leave()


def _limit_silence(raw: Raw, seconds: float) -> None:
    """Limit the time between two reads of a body; a recording has no connection."""
    connection: IncomingResponse | None = getattr(raw, "connection", None)
    if connection is not None:
        connection.limit_silence(seconds)


async def check(reply: HttpResponse, describe: Callable[[int, str], str]) -> None:
    """Turn an HTTP failure into a ProviderError; `describe(status, body)` returns its text.

    Raises:
        ProviderError: the status is not 200, or the body is not an event stream.
    """
    kind = reply.headers.get("Content-Type", "")
    other = "html" in kind or "json" in kind
    if reply.status == 200 and not other:
        return
    body = await reply.text()
    if reply.status == 200:
        start = " ".join(body.split())[:200]
        raise ProviderError(
            f"Expected an event stream, got {kind}: {start}. Check the base URL of the provider.",
            kind="bad_request",
        )
    text = describe(reply.status, body)
    error = ProviderError(
        text,
        kind=kind_of_status(reply.status, text),
        retry_after=retry_after(reply.headers),
    )
    error.status = reply.status
    raise error


def _origin(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])
