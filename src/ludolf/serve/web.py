"""The server over HTTP: WebSocket, single commands, events, health and figures."""

import asyncio
import contextlib
import os
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base import CommandError, ConfigError, dumps, loads
from ludolf.page.live.watch import read_mark
from ludolf.protocol.commands import COMMANDS
from ludolf.serve.chat_page import chat_page, chat_policy
from ludolf.serve.connection import REPLACED, ServedConnection
from ludolf.serve.event_stream import BEAT, EventStream
from ludolf.serve.figures import LoopLag, metrics_text, resident_bytes
from ludolf.serve.gate import Gate, GateKeeper, GateLimits
from ludolf.serve.guard import is_loopback_host
from ludolf.serve.options import ServeOptions
from ludolf.serve.stories import SessionStories
from ludolf.serve.web_talk import ReplyReader, ask_once, talk
from ludolf.serve.websocket import accept_handshake

if TYPE_CHECKING:
    from aiohttp.web import BaseRequest, RequestHandler, Response, Server, StreamResponse

    from ludolf.serve.server import SessionServer

    Answer = Callable[[BaseRequest], Awaitable[StreamResponse]]

_MOST_LAG = 5.0
_KEEP_ALIVE_SECONDS = 75.0
_JSON = "application/json"
_HTML = "text/html; charset=utf-8"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "ludolf",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_PREFLIGHT = {
    "Access-Control-Allow-Headers": "authorization, content-type, last-event-id, ludolf-client",
    "Access-Control-Allow-Methods": "GET, POST",
    "Access-Control-Max-Age": "600",
}
_STATUS = {"full": 503, "unknown_session": 404}
_STORY = re.compile(r"/sessions/([0-9A-Za-z._-]{1,128})/(page|news)")


class WebWaits(msgspec.Struct, frozen=True):
    """Seconds between signs of life to clients, and before a wrong token is refused."""

    ping: float = 20.0
    beat: float = 15.0
    refusal: float = 0.2


class _Route(NamedTuple):
    method: str
    answer: "Answer"
    needs_token: bool = False


class WebDoor:
    """Listen for HTTP, and connect its clients to the server."""

    def __init__(
        self,
        server: "SessionServer",
        options: ServeOptions,
        gate_limits: GateLimits | None = None,
        waits: WebWaits | None = None,
    ) -> None:
        self._server = server
        self._options = options
        assert server.guard is not None
        self._guard = server.guard
        self._waits = waits or WebWaits()
        stuck = GateLimits(stuck_seconds=options.limits.stuck_seconds)
        self._gates = GateKeeper(self._make_handler, gate_limits or stuck)
        self._stories = SessionStories(server)
        self._lag = LoopLag()
        self._tasks = Tasks()
        self._listener: asyncio.Server | None = None
        self._http: Server | None = None
        self._routes = {
            "/": _Route("GET", self._page),
            "/ws": _Route("GET", self._socket),
            "/command": _Route("POST", self._command, needs_token=True),
            "/events": _Route("GET", self._events, needs_token=True),
            "/metrics": _Route("GET", self._metrics, needs_token=True),
            "/healthz": _Route("GET", self._health),
            "/readyz": _Route("GET", self._readiness),
        }

    async def open(self) -> str:
        """Listen, and return the URL of the server.

        Raises:
            ConfigError: the address or the certificate cannot be used.
        """
        from aiohttp import web

        assert self._options.http is not None
        host, port = self._options.http
        check_reach(host, self._options)
        tls = _tls_context(self._options.tls) if self._options.tls else None
        self._http = web.Server(self._answer)
        self._handler_class = _handler_class()
        loop = asyncio.get_running_loop()
        address = "127.0.0.1" if host == "localhost" else host.strip("[]")
        limits = self._gates.limits
        try:
            self._listener = await loop.create_server(
                self._gates,
                address,
                port,
                ssl=tls,
                ssl_handshake_timeout=limits.seconds if tls else None,
                ssl_shutdown_timeout=limits.linger_seconds if tls else None,
            )
        except (OSError, OverflowError) as problem:
            raise ConfigError(
                f"Cannot listen on {host}:{port}: {_reason(problem)}. "
                "Choose another address with --http."
            ) from problem
        self._tasks.start(self._lag.measure())
        port = self._listener.sockets[0].getsockname()[1]
        shown = f"[{address}]" if ":" in address else address
        return f"{'https' if tls else 'http'}://{shown}:{port}"

    async def close(self) -> None:
        """Stop listening; wait a little for connections that are being closed, and end the rest."""
        if self._listener is not None:
            self._listener.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._gates.limits.linger_seconds + 1):
                for gate in tuple(self._gates.gates):
                    if gate.peer is not None:
                        await gate.ended.wait()
        await self._gates.close()
        if self._http is not None:
            await self._http.shutdown(1)
        await self._tasks.close()
        self._stories.close()

    # ------------------------------------------------------------ access

    def _make_handler(self) -> "RequestHandler":
        handler: RequestHandler = self._handler_class(
            self._http,
            loop=asyncio.get_running_loop(),
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            lingering_time=1.0,
        )
        return handler

    async def _answer(self, request: "BaseRequest") -> "StreamResponse":
        response = await self._routed(request)
        if not response.prepared:
            response.headers.update(
                (name, value)
                for name, value in self._headers(request).items()
                if name not in response.headers
            )
            if self._server.closing or _gate(request) in self._gates.strangers:
                response.force_close()
        return response

    async def _routed(self, request: "BaseRequest") -> "StreamResponse":
        refusal = self._guard.check_names(_judged_headers(request))
        if refusal is not None:
            return _text(403, refusal)
        route = self._routes.get(request.path)
        if route is None and _STORY.fullmatch(request.path):
            route = _Route("GET", self._story, needs_token=True)
        if route is None:
            return _text(404, "Not found.")
        if request.method == "OPTIONS" and self._origin(request) is not None:
            return _text(204, "", _PREFLIGHT)
        if request.method != route.method:
            return _text(405, f"Use {route.method}.", {"Allow": route.method})
        if route.needs_token and not self._has_token(request):
            return await self._unauthorized()
        return await route.answer(request)

    def _headers(self, request: "BaseRequest") -> dict[str, str]:
        origin = self._origin(request)
        if origin is None:
            return _HEADERS
        return {**_HEADERS, "Access-Control-Allow-Origin": origin, "Vary": "Origin"}

    def _origin(self, request: "BaseRequest") -> str | None:
        return self._guard.allowed_origin(request.headers.get("Origin"))

    def _has_token(self, request: "BaseRequest") -> bool:
        given = request.headers.getall("Authorization", [])
        is_ours = len(given) == 1 and self._guard.accepts_header(given[0])
        if is_ours:
            _gate(request).trust()
        return is_ours

    async def _unauthorized(self) -> "Response":
        self._server.figures.refused_logins += 1
        await asyncio.sleep(self._waits.refusal)
        text = "The token of the server is missing or wrong."
        return _text(401, text, {"WWW-Authenticate": "Bearer"})

    # ------------------------------------------------------------ answers without a session

    async def _page(self, _: "BaseRequest") -> "Response":
        from aiohttp import web

        headers = {"Content-Type": _HTML, "Content-Security-Policy": chat_policy()}
        return web.Response(body=chat_page(), headers=headers)

    async def _health(self, _: "BaseRequest") -> "Response":
        return _text(200, "ok")

    async def _readiness(self, _: "BaseRequest") -> "Response":
        if self._server.closing or self._lag.seconds > _MOST_LAG:
            return _text(503, "not ready")
        return _text(200, "ready")

    async def _metrics(self, _: "BaseRequest") -> "Response":
        gauges = {**_gauges(self._server), "loop_lag_seconds": self._lag.worst}
        text = metrics_text(self._server.figures, gauges)
        return _text(200, text, {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    # ------------------------------------------------------------ sessions for the page

    async def _story(self, request: "BaseRequest") -> "StreamResponse":
        """Answer with the entries of a session, or with those after a mark, as a document."""
        found = _STORY.fullmatch(request.path)
        assert found is not None
        known = read_mark(request.query.get("after", ""))
        if found[2] == "news" and known is None:
            return _text(400, "`after` is not a mark.")
        try:
            news = await self._stories.news(found[1], known if found[2] == "news" else None)
        except CommandError as error:
            return _text(404, str(error))
        if news is None:
            return _text(409, "Load the page of the session again.")
        return await self._document(request, news)

    async def _document(
        self, request: "BaseRequest", pieces: AsyncIterator[bytes]
    ) -> "StreamResponse":
        """Send a document; the next piece is rendered while one is sent."""
        from aiohttp import web

        response = web.StreamResponse(headers={**self._headers(request), "Content-Type": _HTML})
        await response.prepare(request)
        try:
            piece = await _next(pieces)
            while piece:
                async with asyncio.TaskGroup() as group:
                    following = group.create_task(_next(pieces))
                    await response.write(piece)
                piece = following.result()
        except* ConnectionError:
            pass  # the page was closed
        return response

    # ------------------------------------------------------------ clients

    async def _socket(self, request: "BaseRequest") -> "StreamResponse":
        from aiohttp import web

        handshake = accept_handshake(request.headers)
        if handshake is None:
            return _text(426, "Open a WebSocket here.", {"Upgrade": "websocket"})
        is_trusted = "Authorization" in request.headers
        if is_trusted and not self._has_token(request):
            return await self._unauthorized()
        gate = _gate(request)
        try:
            connection = self._connect(gate, trusted=is_trusted)
        except CommandError as error:
            return _text(503, str(error))
        gate.begin_socket(self._options.limits.remote_frame)
        response = web.StreamResponse(status=101, headers={**self._headers(request), **handshake})
        response.force_close()
        try:
            await response.prepare(request)
            await talk(gate, connection, self._waits.ping)
        finally:
            connection.lost()
        return response

    async def _command(self, request: "BaseRequest") -> "StreamResponse":
        """Answer one frame with its reply; what it attaches to is detached with the answer."""
        body = await self._body(request)
        if body is None:
            return _text(413, f"A frame has at most {self._options.limits.remote_frame:,} bytes.")
        frame = body.removesuffix(b"\n").removesuffix(b"\r")
        kind = _type_of(frame)
        if kind is None:
            return _text(400, "Send one frame: a JSON object in one line, with its type.")
        gate = _gate(request)
        try:
            connection = self._connect(gate, trusted=True)
        except CommandError as error:
            return _text(503, str(error))
        try:
            if kind in COMMANDS and COMMANDS[kind].unanswered:
                connection.feed([frame])
                await connection.hang_up()
                return _text(204, "")
            found = await ask_once(connection, frame, request.headers.get("Ludolf-Client"))
        finally:
            gate.peer = None
            connection.lost()
        if found is None:
            return _ended(connection)
        return _text(200, found[0].decode(), {"Content-Type": _JSON})

    async def _events(self, request: "BaseRequest") -> "StreamResponse":
        session = request.query.get("session")
        if not session:
            return _text(400, "Name a session: /events?session=ID")
        gate = _gate(request)
        try:
            connection = self._connect(gate, trusted=True)
        except CommandError as error:
            return _text(503, str(error))
        cursor = request.headers.get("Last-Event-ID") or request.query.get("cursor")
        attach = {"type": "attach", "session": session, "cursor": cursor, "role": "view"}
        replies = ReplyReader(connection)
        try:
            connection.feed([dumps(attach)])
            found = await replies.next()
            if found is None:
                return _ended(connection)
            line, reply = found
            if not reply.success:
                status = _STATUS.get(reply.code or "", 400)
                return _text(status, line.decode(), {"Content-Type": _JSON})
            stream = EventStream(bytes(reply.data))
            return await self._stream(request, connection, stream, replies.unread)
        finally:
            gate.peer = None
            connection.lost()

    async def _stream(
        self,
        request: "BaseRequest",
        connection: ServedConnection,
        stream: EventStream,
        frames: list[bytes],
    ) -> "StreamResponse":
        from aiohttp import web

        kind = {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers={**self._headers(request), **kind})
        response.force_close()
        tasks = Tasks()
        try:
            await response.prepare(request)
            await response.write(stream.first + stream.events(frames))
            tasks.start(self._beat(request, response, connection))
            while lines := await connection.outgoing():
                await response.write(stream.events(lines.removesuffix(b"\n").split(b"\n")))
        except ConnectionError:
            pass  # the client is gone
        finally:
            await tasks.close()
        return response

    async def _beat(
        self, request: "BaseRequest", response: "StreamResponse", connection: ServedConnection
    ) -> None:
        """Keep proxies from closing the stream, and the server from missing the client."""
        with contextlib.suppress(ConnectionError):
            while True:
                await asyncio.sleep(self._waits.beat)
                if not _gate(request).is_paused:
                    connection.alive()
                    await response.write(BEAT)

    def _connect(self, gate: Gate, *, trusted: bool) -> ServedConnection:
        """Raises:
        CommandError: too many clients are connected.
        """
        connection = self._server.connect(remote=True, trusted=trusted)
        gate.peer = connection
        return connection

    async def _body(self, request: "BaseRequest") -> bytes | None:
        """Return the body of a request; None if it is too long."""
        most = self._options.limits.remote_frame + 2  # a line may end with CR and LF
        if (request.content_length or 0) > most:
            return None
        if request.headers.get("Expect", "").lower() == "100-continue":
            _gate(request).write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = bytearray()
        async for chunk in request.content.iter_any():
            body += chunk
            if len(body) > most:
                return None
        return bytes(body)


def check_reach(host: str, options: ServeOptions) -> None:
    """Raises:
    ConfigError: other machines would reach the server without encryption.
    """
    if is_loopback_host(host) or options.tls is not None or options.tls_by_proxy:
        return
    raise ConfigError(
        f"{host} can be reached from other machines, so the token and all sessions would be sent "
        "unencrypted. Give a certificate with --tls CERT KEY. If a proxy in front of the server "
        "does the encryption, say so with --tls-by-proxy. To use only this machine, listen on "
        "127.0.0.1."
    )


def _gauges(server: "SessionServer") -> dict[str, float]:
    slots = tuple(server.slots)
    return {
        "sessions_loaded": len(slots),
        "sessions_running": sum(slot.activity == "running" for slot in slots),
        "clients": len(server.connections),
        "dialogs_waiting": sum(len(slot.engine.open_dialogs()) for slot in slots),
        "resident_memory_bytes": resident_bytes(),
    }


def _reason(problem: OSError | OverflowError) -> str:
    if isinstance(problem, OSError) and problem.errno is not None and problem.errno > 0:
        return os.strerror(problem.errno)  # the text of asyncio repeats the address
    return getattr(problem, "strerror", None) or str(problem)


def _tls_context(files: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key = files
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as problem:  # also errors of TLS
        raise ConfigError(
            f"Cannot use the certificate {certificate} with the key {key}: {problem}"
        ) from problem
    return context


def _handler_class() -> Any:
    """Return the class that reads requests, with answers of our own to broken ones."""
    from aiohttp import web

    class Handler(web.RequestHandler):
        def handle_error(
            self,
            request: "BaseRequest",
            status: int = 500,
            exc: BaseException | None = None,
            message: str | None = None,
        ) -> "StreamResponse":
            if status >= 500:
                self.log_exception("Error in a request", exc_info=exc)
            if request.writer.output_size > 0:
                raise ConnectionError("a part of the answer has been sent")
            text = "Not a valid HTTP request." if status < 500 else "Internal error."
            response = _text(status, text, _HEADERS)
            response.force_close()
            return response

    return Handler


def _judged_headers(request: "BaseRequest") -> list[tuple[str, str]]:
    """Return the headers that decide whether a request is refused.

    A link on another site may lead to the page, which holds no data and cannot be framed.
    """
    headers = request.headers
    is_visit = (
        (request.method, request.path) == ("GET", "/")
        and headers.get("Sec-Fetch-Mode") == "navigate"
        and headers.get("Sec-Fetch-Dest") == "document"
    )
    kept = headers.items()
    return [each for each in kept if not is_visit or each[0].lower() != "sec-fetch-site"]


def _gate(request: "BaseRequest") -> Gate:
    """Raises:
    ConnectionResetError: the client is gone.
    """
    gate = request.transport.get_protocol() if request.transport is not None else None
    if not isinstance(gate, Gate):
        raise ConnectionResetError("the client is gone")
    return gate


async def _next(pieces: AsyncIterator[bytes]) -> bytes:
    return await anext(pieces, b"")


def _text(status: int, text: str, headers: dict[str, str] | None = None) -> "Response":
    from aiohttp import web

    kind = {"Content-Type": "text/plain; charset=utf-8"}
    body = text if not text or text.endswith("\n") else f"{text}\n"
    return web.Response(status=status, body=body.encode(), headers={**kind, **(headers or {})})


def _ended(connection: ServedConnection) -> "Response":
    """Answer a request whose connection to the server ended before the reply."""
    if connection.close_code == REPLACED:
        return _text(409, "The same client connected again before the reply.")
    return _text(503, "The server is closing.")


def _type_of(frame: bytes) -> str | None:
    """Return the type of the command in a frame; None if it is not one frame."""
    if b"\n" in frame:
        return None
    try:
        value = loads(frame)
    except ValueError:
        return None
    kind = value.get("type") if isinstance(value, dict) else None
    return kind if isinstance(kind, str) else None
