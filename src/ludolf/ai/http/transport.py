"""HTTP for model providers: the only file that knows the HTTP library."""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from ludolf.ai.errors import ErrorKind, ProviderError, kind_of_status, retry_after
from ludolf.ai.http.proxy import proxy_for
from ludolf.ai.http.sse import SseParser
from ludolf.ai.http.timeouts import Patience

if TYPE_CHECKING:
    import aiohttp
    import yarl

    from ludolf.ai.messages import ThinkingLevel
    from ludolf.ai.models import Model

MAX_ANSWER_BYTES = 64 << 20
MAX_ERROR_BYTES = 64 << 10
# An error, or a short answer that is read as a whole, has to be there within this time.
ERROR_SECONDS = 30.0
# So much is taken apart at once: all of it is held while a slow reader is waited for.
PIECE_BYTES = 64 << 10
_READ_SIZE = 64 << 10
PACKED = "The answer is compressed, although no compression was requested"
_USUAL = Patience()

Found = TypeVar("Found", covariant=True)
# What proves who asks, for the request as it leaves: (address, headers, body) -> all headers.
Seal = Callable[[str, Mapping[str, str], bytes], dict[str, str]]


class Body(Protocol):
    """The bytes of an answer as they arrive."""

    async def readany(self) -> bytes:
        """What has arrived, at least one byte; nothing at the end."""

    async def read(self, n: int = -1) -> bytes:
        """At most so many bytes; nothing at the end."""

    def at_eof(self) -> bool: ...


class Raw(Protocol):
    """An HTTP answer as the network, or a recording, gives it."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def content(self) -> Body: ...


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it leaves."""

    method: str = "POST"
    url: str
    headers: Mapping[str, str]
    body: bytes
    patience: Patience


class Reply:
    """An HTTP answer whose body is still to be read."""

    def __init__(self, raw: Raw, patience: Patience) -> None:
        self._raw = raw
        self._patience = patience
        self.status = raw.status
        self.headers: Mapping[str, str] = raw.headers
        packed = raw.headers.get("Content-Encoding", "identity").strip().lower()
        self._packed = "" if packed in ("", "identity") else packed

    async def text(self) -> str:
        """Return the first part of the body: at most 64 KiB, and what comes within 30 s."""
        if self._packed:
            return ""
        body = bytearray()
        limit = min(ERROR_SECONDS, self._patience.first or ERROR_SECONDS)
        # A server that sends its text byte by byte has said enough by then.
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while len(body) < MAX_ERROR_BYTES:
                    more = await self._raw.content.read(MAX_ERROR_BYTES - len(body))
                    if not more:
                        break
                    body += more
        return body.decode("utf-8", "replace")

    def events(self) -> AsyncIterator[Iterator[bytes]]:
        """For each read from the network, the data of the server-sent events it completed."""
        return self.read(SseParser())

    async def read(self, parser: "Parser[Found]") -> AsyncIterator[Iterator[Found]]:
        """For each read from the network, what the parser found in it."""
        if self._packed:
            # It could unpack to any size, and it was not asked for.
            raise ProviderError(f"{PACKED}: {self._packed}. Check the base URL", kind="bad_request")
        total, heard, limit = 0, time.monotonic(), self._patience.first
        while chunk := await self._raw.content.readany():
            total += len(chunk)
            if total > MAX_ANSWER_BYTES:
                raise ProviderError(
                    f"The answer is larger than {MAX_ANSWER_BYTES >> 20} MiB", kind="bad_request"
                )
            for start in range(0, len(chunk), PIECE_BYTES):
                yield parser.feed(chunk[start : start + PIECE_BYTES])
            now = time.monotonic()
            if parser.told:
                parser.told, heard = False, now
                if limit != self._patience.between:
                    limit = self._patience.between
                    _limit_silence(self._raw, limit)
            elif limit and now - heard > limit:
                # Pings keep the connection alive, but they are not an answer.
                raise ProviderError(f"Request timed out: no event for {limit:.0f} s")
        yield parser.close()

    async def finish(self, seconds: float = 0.05) -> None:
        """Wait a moment for the end of a body that has told all: its connection can serve again."""
        # A server that goes on, or leaves, after the last event has answered all the same.
        with suppress(TimeoutError, OSError, *_network_errors()):
            async with asyncio.timeout(seconds):
                while await self._raw.content.readany():
                    pass


class Parser(Protocol[Found]):
    """Finds events in bytes that are split anywhere; `told` is set when it has found one."""

    told: bool

    def feed(self, chunk: bytes) -> Iterator[Found]: ...
    def close(self) -> Iterator[Found]: ...


class Watcher(Protocol):
    """Somebody who may look at, and change, what goes to a provider."""

    async def sending(self, body: bytes, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        """Called before a request leaves; returns what to send instead."""

    async def answered(self, status: int, headers: Mapping[str, str]) -> None:
        """Called when the head of an answer is there, before its body is read."""


class Transport:
    """Connections to model servers, shared by all requests of an engine."""

    # Whether a recording answers, so that no server needs to run.
    plays_back = False

    def __init__(self) -> None:
        self.watcher: Watcher | None = None
        self._session: aiohttp.ClientSession | None = None
        self._warm: asyncio.Future[None] | None = None

    @asynccontextmanager
    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        *,
        patience: Patience = _USUAL,
        seal: Seal | None = None,
    ) -> AsyncIterator[Reply]:
        """Send a request. Redirects are not followed: a key goes to the configured origin only.

        `seal` comes last: a signature must cover what a watcher made of the request.

        Raises:
            ProviderError: the server could not be reached or fell silent.
        """
        given = {"Accept-Encoding": "identity", **headers}
        if self.watcher is not None:
            body, given = await self.watcher.sending(body, given)
        if seal is not None:
            given = seal(url, given, body)
        sent = Sent(url=url, headers=given, body=body, patience=patience)
        async with self.model_exchange(sent) as raw:
            if self.watcher is not None:
                await self.watcher.answered(raw.status, raw.headers)
            yield Reply(raw, patience)

    def model_exchange(self, sent: Sent) -> AbstractAsyncContextManager[Raw]:
        """An exchange with a model: what a recording listens to, or stands in for."""
        return self.exchange(sent)

    @asynccontextmanager
    async def exchange(self, sent: Sent) -> AsyncIterator[Raw]:
        """One request over the network, to whomever it goes.

        Raises:
            ProviderError: the server could not be reached or fell silent.
        """
        await asyncio.wait((self.warm_up(),))
        import aiohttp

        url = sent.url
        try:
            async with await self._send(sent) as raw:
                _read_smaller(raw)
                yield raw
        except (aiohttp.ServerTimeoutError, TimeoutError) as error:
            text = str(error) or f"no answer from {_origin(url)} in time"
            raise ProviderError(f"Request timed out: {text}", kind="timeout") from error
        except aiohttp.InvalidURL as error:
            raise ProviderError(f"Not a valid URL: {url}", kind="bad_request") from error
        except aiohttp.ClientConnectorError as error:
            reason = error.os_error.strerror or error
            place = _refusing(error) or _origin(url)
            raise ProviderError(f"Connection error: {reason} ({place})") from error
        except aiohttp.ClientHttpProxyError as error:
            raise _refused_by_proxy(error) from error
        except aiohttp.ClientPayloadError as error:
            raise ProviderError("terminated", kind="network") from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise ProviderError(f"Connection error: {error}", kind="network") from error

    async def _send(self, sent: Sent) -> "aiohttp.ClientResponse":
        import aiohttp

        limits = aiohttp.ClientTimeout(
            total=None,
            sock_connect=sent.patience.connect or None,
            sock_read=sent.patience.first or None,
        )
        proxy = proxy_for(sent.url)
        login = proxy.headers if proxy is not None else {}
        # A tunnel is asked for with headers of its own; else the proxy reads those of the request.
        tunnelled = sent.url[:6].lower() == "https:"
        try:
            # Each byte of the head restarts the limit of the socket; these two count through.
            async with asyncio.timeout(_connect_seconds(sent.patience)) as deadline:
                return await self._open().request(
                    sent.method,
                    _as_written(sent.url),
                    headers=sent.headers if tunnelled else {**sent.headers, **login},
                    data=sent.body,
                    allow_redirects=False,
                    timeout=limits,
                    proxy=proxy.url if proxy is not None else None,
                    proxy_headers=login if tunnelled else None,
                    trace_request_ctx=(deadline, sent.patience.first),
                )
        except aiohttp.InvalidURL:
            raise
        except ValueError as error:
            # A key or a header that no request can carry, or two ways in that exclude each other.
            text = f"The request cannot be sent: {error}"
            raise ProviderError(text, kind="bad_request") from error

    def _open(self) -> "aiohttp.ClientSession":
        import aiohttp

        if self._session is None or self._session.closed:
            trace = aiohttp.TraceConfig()
            trace.on_request_headers_sent.append(_limit_head)
            self._session = aiohttp.ClientSession(
                trace_configs=[trace],
                connector=aiohttp.TCPConnector(limit=0),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                # Providers name the program; where a user takes the name away, none is sent.
                skip_auto_headers=("User-Agent",),
            )
        return self._session

    def begin(self, model: "Model | None", level: "ThinkingLevel") -> None:
        """The run starts with these; of interest to whoever keeps a record."""

    def will_ask(self, model: "Model") -> None:
        """Somebody is about to ask this model; likewise."""

    def warm_up(self) -> "asyncio.Future[None]":
        """Import the HTTP library, which loads the certificates, in a thread: it takes its time."""
        if self._warm is None:
            loop = asyncio.get_running_loop()
            self._warm = loop.create_future()
            threading.Thread(target=_import, args=(loop, self._warm), daemon=True).start()
        return self._warm

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def _import(loop: asyncio.AbstractEventLoop, done: "asyncio.Future[None]") -> None:
    try:
        import aiohttp  # noqa: F401
    finally:
        with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
            loop.call_soon_threadsafe(done.set_result, None)


def _read_smaller(raw: "aiohttp.ClientResponse") -> None:
    # asyncio makes a buffer of 256 KiB for each read, which is mapped and unmapped each time: a
    # third of what a slow stream costs. Smaller ones are memory that is at hand.
    transport = raw.connection.transport if raw.connection is not None else None
    if transport is not None and hasattr(transport, "max_size"):
        transport.max_size = _READ_SIZE


def _limit_silence(raw: Raw, seconds: float) -> None:
    """From now on the network may be silent for so long; of a recording there is none."""
    connection: aiohttp.connector.Connection | None = getattr(raw, "connection", None)
    if connection is None or connection.protocol is None or connection.transport is None:
        return
    connection.protocol.read_timeout = seconds or None
    # While a slow reader is waited for, nothing is read, and that is not the server's silence: the
    # limit then counts from the moment when reading goes on.
    if connection.transport.is_reading():
        connection.protocol.start_timeout()


async def check(reply: Reply, describe: Callable[[int, str], str]) -> None:
    """Turn an HTTP failure into a ProviderError; `describe(status, body)` words it.

    Raises:
        ProviderError: the status is not 200, or the body is plainly no event stream.
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
    raise ProviderError(
        text,
        kind=kind_of_status(reply.status, text),
        retry_after=retry_after(reply.headers),
    )


def _as_written(url: str) -> "str | yarl.URL":
    """A quoted path goes as it is: a signature covers its letters, and a `%3A` is no colon."""
    from yarl import URL

    with suppress(ValueError):
        return URL(url, encoded=True) if "%" in url else url
    return url


def _network_errors() -> tuple[type[Exception], ...]:
    """What the HTTP library raises; a replay has never loaded it, and need not wait for it."""
    library = sys.modules.get("aiohttp")
    return (library.ClientError,) if library is not None else ()


def _connect_seconds(patience: Patience) -> float | None:
    """The time until a request can be sent, by way of a proxy too; None is no limit."""
    return patience.connect + patience.first if patience.connect and patience.first else None


async def _limit_head(_: Any, context: Any, __: Any) -> None:
    """The request leaves: from now on the head of the answer has its own limit."""
    deadline, seconds = context.trace_request_ctx
    deadline.reschedule(asyncio.get_running_loop().time() + seconds if seconds else None)


def _refusing(error: "aiohttp.ClientConnectorError") -> str:
    """The proxy, if it was that which could not be reached."""
    import aiohttp

    is_proxy = isinstance(error, aiohttp.ClientProxyConnectionError)
    return f"proxy {error.host}:{error.port}" if is_proxy else ""


def _refused_by_proxy(error: "aiohttp.ClientHttpProxyError") -> ProviderError:
    text = f"The proxy refused the connection: {error.status} {error.message}"
    kind: ErrorKind = "auth" if error.status == 407 else "network"
    return ProviderError(text, kind=kind)


def _origin(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])
