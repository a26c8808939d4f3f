"""A server over streamable HTTP: each message is a POST, answered by JSON or an event stream."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urljoin, urlsplit

from ludolf import __version__
from ludolf.agent.scope import Tasks
from ludolf.ai.access import Patience
from ludolf.ai.errors import ProviderError, retry_after
from ludolf.ai.http.sse import SseParser
from ludolf.ai.http.transport import HttpRequest, Raw, Transport
from ludolf.base.jsonrpc import OutgoingCall, RpcFault, fault_from, parse_envelope
from ludolf.mcp.link import AnswerCut, HttpFailure, LinkOwner, SessionLost
from ludolf.mcp.streams import keep_open
from ludolf.mcp.wire import METHOD_NOT_FOUND, HttpServer, LoginNeeded, McpError, Tokens

MAX_RESULT_BYTES = 64 << 20
MAX_ERROR_BYTES = 64 << 10
_SHOWN_CHARACTERS = 300
_MAX_REDIRECTS, _MAX_LOGINS = 3, 2
_MOST_PAUSE = 10.0
_NOTIFY_SECONDS, _DELETE_SECONDS = 30.0, 1.0
# The time limits of requests are those of the connection.
_PATIENCE = Patience(connect=30.0, first=0, between=0)
_RETRIED = (408, 429)


class HttpLink:
    """A link to a server at an address."""

    def __init__(
        self,
        server: HttpServer,
        owner: LinkOwner,
        tokens: Tokens | None,
        pauses: tuple[float, ...],
    ) -> None:
        self._url = server.url
        self._configured = server.headers
        self._owner = owner
        self._tokens = tokens
        self._pauses = pauses
        self._transport = Transport(server.environ)
        self._posts = Tasks()
        self._streams = Tasks()
        # Each ends one request that waits for its answer.
        self._stops: set[asyncio.Timeout] = set()
        self._version = ""
        self.session: str | None = None
        self.heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.pid: int | None = None
        self.stderr = ""

    async def start(self) -> None:
        """Check the address; the first request opens a connection.

        Raises:
            McpError: the address is not an address of a web server.
        """
        scheme, host = _origin(self._url)
        if scheme not in ("http", "https") or not host:
            raise McpError(f"Not a web address: {self._url}. `url` must begin with https://")

    async def exchange(self, call: OutgoingCall, headers: Mapping[str, str]) -> Any:
        """Send a request and return the result.

        Raises:
            RpcFault: the server answered with an error.
            LoginNeeded: the server requires a login.
            SessionLost: the server has forgotten the session.
            McpError: the request failed.
        """
        kind = ""
        try:
            async with asyncio.timeout(None) as stop:
                self._stops.add(stop)
                try:
                    kind = await self._post(call, headers)
                finally:
                    self._stops.discard(stop)
        except TimeoutError:
            if not call.answer.done():
                raise McpError("The connection was closed") from None
        except McpError:
            if not call.answer.done():
                raise
        if not call.answer.done():
            raise self._unanswered(call.method, kind)
        return await call.answer

    def send(self, frame: bytes) -> None:
        """Send a notification or an answer without waiting."""
        self._posts.start(self._post_quietly(frame))

    async def handshake_done(self, version: str) -> None:
        """Name the version from now on, and open the stream for messages of the server."""
        self._version = version
        await self._posts.ended()
        await self._streams.close()
        self._streams.start(keep_open(self._listen))

    async def close(self) -> None:
        """End the session at the server and close all connections."""
        while self._stops:
            self._stops.pop().reschedule(asyncio.get_running_loop().time())
        await self._streams.close()
        try:
            async with asyncio.timeout(_DELETE_SECONDS):
                await self._posts.ended()
                if self.session is not None:
                    async with self._answered("DELETE", b"", "", {}):
                        pass
        except (TimeoutError, McpError, RpcFault):
            pass  # a server need not support it, or is gone already
        finally:
            await self._posts.close()
            await self._transport.close()

    # ------------------------------------------------------------ requests

    async def _post(self, call: OutgoingCall, headers: Mapping[str, str]) -> str:
        """Send a request and pass on what is answered; return the type of the answer."""
        async with self._answered("POST", call.frame, call.method, headers) as reply:
            if call.method == "initialize":
                self.session = _header(reply, "Mcp-Session-Id") or None
            kind = _header(reply, "Content-Type")
            if "text/event-stream" in kind:
                await self._read_events(reply, call)
            else:
                self._owner.received(await _body(reply, MAX_RESULT_BYTES))
            return kind

    @asynccontextmanager
    async def _answered(
        self, http_method: str, body: bytes, method: str, headers: Mapping[str, str]
    ) -> AsyncIterator[Raw]:
        """Send a request until the server accepts it; a tool is called once only."""
        pauses = () if method == "tools/call" else self._pauses
        logins, redirects, url = 0, 0, self._url
        attempt = 0
        while True:
            token = await self._tokens.current() if self._tokens is not None else None
            all_headers = self._all_headers(headers, token, with_session=method != "initialize")
            sent = HttpRequest(
                method=http_method, url=url, headers=all_headers, body=body, patience=_PATIENCE
            )
            async with self._exchange(sent) as reply:
                if 200 <= reply.status < 300:
                    yield reply
                    return
                if reply.status in (301, 302, 307, 308) and redirects < _MAX_REDIRECTS:
                    url = _redirected(url, _header(reply, "Location"))
                    redirects += 1
                    continue
                challenge = _challenge(reply)
                if challenge is not None and logins < _MAX_LOGINS:
                    await self._log_in(token, challenge)
                    logins += 1
                    continue
                if attempt >= len(pauses) or not _is_retried(reply.status):
                    raise await self._failure(reply, challenge, "Mcp-Session-Id" in all_headers)
                pause = min(retry_after(reply.headers) or pauses[attempt], _MOST_PAUSE)
            await asyncio.sleep(pause)
            attempt += 1

    @asynccontextmanager
    async def _exchange(self, sent: HttpRequest) -> AsyncIterator[Raw]:
        try:
            async with self._transport.exchange(sent) as reply:
                if not self.heard.done():
                    self.heard.set_result(None)
                encoding = _header(reply, "Content-Encoding").strip().lower()
                if encoding not in ("", "identity"):
                    raise McpError(f"{self._url} answered with the encoding {encoding[:50]!r}")
                yield reply
        except ProviderError as error:
            if str(error) == "terminated":
                text = f"The connection to {self._url} was cut in an answer"
                raise AnswerCut(f"{text}. The request was not sent again") from error
            raise McpError(f"{error}; the address is {self._url}") from error

    def _all_headers(
        self, more: Mapping[str, str], token: str | None, *, with_session: bool
    ) -> dict[str, str]:
        headers = {
            "Accept": "application/json, text/event-stream",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": f"ludolf/{__version__}",
            **self._configured,
        }
        if token is not None:
            headers = {key: each for key, each in headers.items() if key.lower() != "authorization"}
            headers["Authorization"] = f"Bearer {token}"
        if self._version and with_session:
            headers["MCP-Protocol-Version"] = self._version
        if self.session is not None and with_session:
            headers["Mcp-Session-Id"] = self.session
        return {**headers, **more}

    async def _log_in(self, token: str | None, challenge: str) -> None:
        if self._tokens is None or not await self._tokens.refused(token, challenge):
            raise LoginNeeded(f"{self._url} requires a login", challenge)

    async def _failure(self, reply: Raw, challenge: str | None, in_session: bool) -> Exception:
        """Return the error for a status that means failure."""
        if challenge is not None:
            return LoginNeeded(f"{self._url} requires a login", challenge)
        body = await _body(reply, MAX_ERROR_BYTES, whole=False)
        message = parse_envelope(body)
        fault = message.error if message is not None else None
        unknown_method = isinstance(fault, dict) and fault.get("code") == METHOD_NOT_FOUND
        if reply.status == 404 and in_session and not unknown_method:
            return SessionLost(f"{self._url} has forgotten the session")
        if isinstance(fault, dict):
            return fault_from(fault)
        if reply.status in (404, 405):
            text = (
                f"{self._url} answered with status {reply.status}: it is not an address for MCP "
                "over streamable HTTP. Such an address often ends in /mcp now, not in /sse"
            )
            return HttpFailure(reply.status, text)
        shown = " ".join(body.decode("utf-8", "replace").split())[:_SHOWN_CHARACTERS]
        text = f"{self._url} answered with status {reply.status}"
        return HttpFailure(reply.status, f"{text}: {shown}" if shown else text)

    def _unanswered(self, method: str, kind: str) -> McpError:
        if "text/event-stream" in kind:
            return AnswerCut(
                f"The connection to {self._url} was cut before the server answered `{method}`. "
                "The request was not sent again: the server may have handled it"
            )
        return McpError(
            f"{self._url} answered `{method}` with {kind[:100] or 'nothing'}, and not with a "
            "JSON-RPC answer. Check `url`"
        )

    # ------------------------------------------------------------ streams

    async def _read_events(self, reply: Raw, call: OutgoingCall | None) -> None:
        """Pass on the messages of a stream, until the call is answered or the stream ends."""
        parser, size = SseParser(MAX_RESULT_BYTES), 0
        while chunk := await reply.content.readany():
            try:
                events = list(parser.feed(chunk))
            except ProviderError as error:
                raise McpError(f"{self._url}: {error}") from error
            for data in events:
                self._owner.received(data)
                size = 0
            if call is not None and call.answer.done():
                return
            # Lines of one event add up.
            size += len(chunk)
            if size > 2 * MAX_RESULT_BYTES:
                raise McpError(f"An answer of {self._url} is larger than 64 MiB")

    async def _listen(self) -> bool:
        """Read messages that the server sends without a request; return False if it refuses."""
        try:
            async with self._answered("GET", b"", "", {"Accept": "text/event-stream"}) as reply:
                if "text/event-stream" not in _header(reply, "Content-Type"):
                    return False
                await self._read_events(reply, None)
        except AnswerCut:
            return True
        except (McpError, RpcFault):
            return False
        return True

    async def _post_quietly(self, frame: bytes) -> None:
        """Send a message that has no answer; the next request reports a server that is gone."""
        try:
            async with asyncio.timeout(_NOTIFY_SECONDS):
                async with self._answered("POST", frame, "", {}) as reply:
                    await _body(reply, MAX_ERROR_BYTES, whole=False)
        except (TimeoutError, McpError, RpcFault):
            return


def _header(reply: Raw, name: str) -> str:
    return reply.headers.get(name, "")


async def _body(reply: Raw, limit: int, *, whole: bool = True) -> bytes:
    """Return the body; at most its first `limit` bytes unless it must be whole.

    Raises:
        McpError: the body is larger than the limit.
    """
    pieces, size = [], 0
    while chunk := await reply.content.readany():
        pieces.append(chunk)
        size += len(chunk)
        if size > limit:
            if whole:
                raise McpError(f"The answer of the server is larger than {limit >> 20} MiB")
            break
    return b"".join(pieces)[:limit]


def _challenge(reply: Raw) -> str | None:
    """Return what the server says of the login it wants; None if it wants none."""
    challenge = _header(reply, "WWW-Authenticate")
    if reply.status == 401 or (reply.status == 403 and "insufficient_scope" in challenge):
        return challenge
    return None


def _is_retried(status: int) -> bool:
    return status in _RETRIED or status >= 500


def _redirected(url: str, location: str) -> str:
    """Return the new address.

    Raises:
        McpError: it has another origin, where neither the request nor a token may go.
    """
    try:
        target = urljoin(url, location)
    except ValueError:
        target = ""
    if _origin(url) != _origin(target):
        scheme, host = _origin(target)
        raise McpError(
            f"{url} redirects to another origin, {scheme}://{host}, which is not "
            "followed. If you trust that server, set `url` to its address"
        )
    return target


def _origin(url: str) -> tuple[str, str]:
    """Return scheme and host with port; empty if it is not an address."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", ""
    return parts.scheme, parts.netloc.lower()
