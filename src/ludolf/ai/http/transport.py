"""HTTP for model providers; the only module that uses the HTTP library."""

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from errno import ECONNREFUSED
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec

from ludolf.ai.access import Patience
from ludolf.ai.errors import ErrorKind, ProviderError, kind_of_status, retry_after
from ludolf.ai.http.proxy import LOOPBACK, proxy_for
from ludolf.ai.http.sse import SseParser

if TYPE_CHECKING:
    import aiohttp
    import yarl

    from ludolf.ai.messages import ThinkingLevel
    from ludolf.ai.models import Model

MAX_ANSWER_BYTES = 64 << 20
MAX_ERROR_BYTES = 64 << 10
# Time limit for reading an error, or a short response that is read completely.
ERROR_SECONDS = 30.0
# Bytes parsed at once; all of them stay in memory while a slow reader blocks the stream.
PIECE_BYTES = 64 << 10
_READ_SIZE = 64 << 10
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
        with suppress(TimeoutError, OSError, *_network_errors()):
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


class ConnectionPool:
    """Open connections of one event loop, which all its transports use; the last one closes them.

    A connection is used again only for the same server, proxy and login of the proxy, and no
    cookies are kept, so that nothing of one transport reaches the requests of another.
    """

    def __init__(self) -> None:
        import aiohttp

        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(_limit_head)
        self.session = aiohttp.ClientSession(
            trace_configs=[trace],
            connector=aiohttp.TCPConnector(limit=0),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            # Providers set the User-Agent; if the user removes it, none is sent.
            skip_auto_headers=("User-Agent",),
        )
        self._users = 0

    @classmethod
    def join(cls) -> "ConnectionPool":
        """Return the pool of the running loop; the caller must leave it."""
        # The pool refers to its loop: the number cannot belong to another one meanwhile.
        number = id(asyncio.get_running_loop())
        pool = _POOLS.get(number)
        if pool is None or pool.session.closed:
            pool = _POOLS[number] = cls()
        pool._users += 1
        return pool

    async def leave(self) -> None:
        self._users -= 1
        if not self._users:
            await self.session.close()


# By the id of the loop. Only transports keep a pool alive.
_POOLS: "WeakValueDictionary[int, ConnectionPool]" = WeakValueDictionary()


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
            is_proxy = isinstance(error, aiohttp.ClientProxyConnectionError)
            target = f"proxy {error.host}:{error.port}" if is_proxy else _origin(url)
            unreachable = error.os_error.errno == ECONNREFUSED and error.host in LOOPBACK
            raise ProviderError(
                f"Connection error: {reason} ({target})",
                kind="unreachable" if unreachable else None,
            ) from error
        except aiohttp.ClientHttpProxyError as error:
            text = f"The proxy refused the connection: {error.status} {error.message}"
            kind: ErrorKind = "auth" if error.status == 407 else "network"
            raise ProviderError(text, kind=kind) from error
        except aiohttp.ClientPayloadError as error:
            raise ProviderError("terminated", kind="network") from error
        except (aiohttp.ClientError, ConnectionError) as error:
            raise ProviderError(f"Connection error: {error}", kind="network") from error

    async def _send(self, sent: HttpRequest) -> "aiohttp.ClientResponse":
        import aiohttp

        limits = aiohttp.ClientTimeout(
            total=None,
            sock_connect=sent.patience.connect or None,
            sock_read=sent.patience.first or None,
        )
        proxy = proxy_for(sent.url, self.environ)
        login = proxy.headers if proxy is not None else {}
        # A tunnel takes separate headers; otherwise the proxy reads those of the request.
        is_tunnel = sent.url[:6].lower() == "https:"
        try:
            # The socket timeout restarts with each byte of the head; these two limits do not.
            async with asyncio.timeout(_connect_seconds(sent.patience)) as deadline:
                return await self._open().request(
                    sent.method,
                    _as_written(sent.url),
                    headers=sent.headers if is_tunnel else {**sent.headers, **login},
                    data=sent.body,
                    allow_redirects=False,
                    timeout=limits,
                    proxy=proxy.url if proxy is not None else None,
                    proxy_headers=login if is_tunnel else None,
                    trace_request_ctx=(deadline, sent.patience.first),
                )
        except aiohttp.InvalidURL:
            raise
        except ValueError as error:
            # A key or header with invalid characters, or two authentication methods that conflict.
            text = f"The request cannot be sent: {error}"
            raise ProviderError(text, kind="bad_request") from error

    def _open(self) -> "aiohttp.ClientSession":
        if self._pool is None or self._pool.session.closed:
            self._pool = ConnectionPool.join()
        return self._pool.session

    def begin(self, model: "Model | None", level: "ThinkingLevel") -> None:
        """Called at the start of a run, for subclasses that record it."""

    def will_ask(self, model: "Model") -> None:
        """Called before a request to this model, for subclasses that record it."""

    def warm_up(self) -> "asyncio.Future[None]":
        """Import the HTTP library in a thread; loading it and the certificates is slow."""
        if self._warm is None:
            loop = asyncio.get_running_loop()
            self._warm = loop.create_future()
            threading.Thread(target=_import, args=(loop, self._warm), daemon=True).start()
        return self._warm

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.leave()


def _import(loop: asyncio.AbstractEventLoop, done: "asyncio.Future[None]") -> None:
    try:
        import aiohttp  # noqa: F401
    finally:
        with suppress(RuntimeError):  # the loop was closed in the meantime
            loop.call_soon_threadsafe(done.set_result, None)


def _read_smaller(raw: "aiohttp.ClientResponse") -> None:
    # asyncio allocates a buffer of 256 KiB for each read, which is mapped and unmapped each time: a
    # third of the cost of a slow stream. Smaller buffers come from the heap.
    transport = raw.connection.transport if raw.connection is not None else None
    if transport is not None and hasattr(transport, "max_size"):
        transport.max_size = _READ_SIZE


def _limit_silence(raw: Raw, seconds: float) -> None:
    """Set the read timeout of the connection; a recording has none."""
    connection: aiohttp.connector.Connection | None = getattr(raw, "connection", None)
    if connection is None or connection.protocol is None or connection.transport is None:
        return
    connection.protocol.read_timeout = seconds or None
    # While the program waits for a slow reader, nothing is read, and the server is not at fault:
    # the timeout starts when reading resumes.
    if connection.transport.is_reading():
        connection.protocol.start_timeout()


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


def _as_written(url: str) -> "str | yarl.URL":
    """Keep the escapes of a quoted path: a signature covers them, and `%3A` is not a colon."""
    from yarl import URL

    with suppress(ValueError):
        return URL(url, encoded=True) if "%" in url else url
    return url


def _network_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of the HTTP library; a replay has never loaded it."""
    library = sys.modules.get("aiohttp")
    return (library.ClientError,) if library is not None else ()


def _connect_seconds(patience: Patience) -> float | None:
    """Return the time limit for sending a request, including a proxy; None means no limit."""
    return patience.connect + patience.first if patience.connect and patience.first else None


async def _limit_head(_: Any, context: Any, __: Any) -> None:
    """Start the separate time limit for the response headers, once the request is sent."""
    deadline, seconds = context.trace_request_ctx
    deadline.reschedule(asyncio.get_running_loop().time() + seconds if seconds else None)


def _origin(url: str) -> str:
    return "/".join(url.split("/", 3)[:3])
