"""The ACP server: reads lines of JSON-RPC, runs methods in order, answers every request once."""

import asyncio
import contextlib
import traceback
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ludolf import __version__
from ludolf.acp.requests import (
    IncomingRequest,
    RequestFault,
    code_of,
    not_initialized,
)
from ludolf.acp.setup import initialized
from ludolf.agent.scope import Aborted, Tasks
from ludolf.base import LudolfError, dumps, is_nested_deeper, loads
from ludolf.base.jsonrpc import INVALID_REQUEST, RequestId, RpcFrame, RpcHandler, RpcPeer
from ludolf.config.settings.options import Options
from ludolf.protocol.acp.structs import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    REQUEST_CANCELLED,
    ClientCapabilities,
    decode_params,
)
from ludolf.rpc.line_reader import MAX_FRAME, TOO_LONG
from ludolf.rpc.stdio import Stdio

if TYPE_CHECKING:
    from ludolf.acp.sessions import ClientSessions
    from ludolf.engine.bundles import Bundles

SHUTDOWN_SECONDS = 5.0
AgentMethod = Callable[[IncomingRequest], Awaitable[Any]]


class ClientGone(LudolfError):
    """The client has closed the connection."""


class ClientPeer(RpcPeer):
    """Our end of the connection: unlike its base, it answers lines that are not messages."""

    def _count(self, line: RpcFrame) -> None:
        super()._count(line)
        code, text = _mistake_of(line)
        if text:
            error = {"code": code, "message": text}
            self._send(dumps({"jsonrpc": "2.0", "id": None, "error": error}))


def _mistake_of(line: RpcFrame) -> tuple[int, str]:
    """Return the error for a line that is not a message; an empty text if it needs no answer."""
    if line is TOO_LONG:
        return PARSE_ERROR, f"Parse error: the line is longer than {MAX_FRAME >> 20} MiB"
    if is_nested_deeper(bytes(line)):
        return PARSE_ERROR, "Parse error: the message is nested too deeply"
    try:
        message = loads(line)
    except (ValueError, RecursionError) as error:
        return PARSE_ERROR, f"Parse error: the line is not JSON: {str(error)[:200]}"
    if isinstance(message, dict) and "method" not in message and {"result", "error"} & {*message}:
        return 0, ""  # an answer to a question that we did not ask
    return INVALID_REQUEST, "Invalid request: expected an object with `method` and `id`"


class AcpServer(RpcHandler):
    """One client on one pair of pipes. The engine is loaded with the first session.

    `prepare` may register models and tools with the engine of each session.
    """

    def __init__(
        self, options: Options, stdio: Stdio, prepare: "Callable[[Bundles], None] | None" = None
    ) -> None:
        self._options = options
        self._prepare = prepare
        self._stdio = stdio
        self._peer = ClientPeer(self._send_line, self)
        self._tasks = Tasks()
        self._client: ClientCapabilities | None = None
        self._running: dict[RequestId, IncomingRequest] = {}
        # The last request about each session, until it has begun.
        self._last: dict[str, IncomingRequest] = {}
        self._sessions: ClientSessions | None = None
        self._methods: dict[str, AgentMethod] = {}
        self._ended = asyncio.Event()

    # ------------------------------------------------------------ life

    async def serve(self) -> None:
        """Serve until the input ends; then stop what runs, store it and send its end."""
        self._stdio.lines(self.feed, self._ended.set)
        await self._ended.wait()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SHUTDOWN_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self.close()
        await self._stdio.drain(max(0.0, deadline - loop.time()))

    async def close(self) -> None:
        """Close all sessions; prompts that run are answered as cancelled."""
        self._peer.close(ClientGone("The client has closed the connection"))
        for request in tuple(self._running.values()):
            if request.method == "authenticate":
                request.cancel()
        if self._sessions is None:
            return
        await self._sessions.close_all()
        await self._tasks.ended()
        await self._sessions.close_all()  # those that were just being opened

    def feed(self, lines: list[bytes]) -> None:
        """Handle lines of the client, in order, each on its own."""
        for line in lines:
            if line and not line.isspace():
                self._peer.receive(line)

    def _send_line(self, frame: bytes) -> None:
        self._stdio.send(frame + b"\n")

    # ------------------------------------------------------------ messages of the client

    def requested(self, number: RequestId, method: str, params: Any) -> None:
        try:
            if method == "initialize":
                self._initialize(number, params)
            elif self._client is None:
                raise not_initialized()
            elif number in self._running:
                raise RequestFault(INVALID_REQUEST, f"A request with the id {number} is running")
            else:
                self._start(IncomingRequest(number, method, params), self._method(method))
        except LudolfError as error:
            self._peer.refuse(number, code_of(error), str(error))
        except Exception as error:  # a bug in reading a line is an error, too
            self._refuse_bug(number, method, error)

    def notified(self, method: str, params: Any) -> None:
        if method not in ("session/cancel", "$/cancel_request"):
            return
        try:
            wanted: Any = decode_params(method, params)
        except LudolfError:
            return  # a notification has no answer
        if method == "$/cancel_request":
            request = self._running.get(wanted.request_id)
            if request is not None:
                request.cancel()
            return
        for request in tuple(self._running.values()):
            if request.method == "session/prompt" and request.session_id == wanted.session_id:
                request.cancel()

    def _initialize(self, number: RequestId, params: Any) -> None:
        wanted: Any = decode_params("initialize", params)
        client, result = initialized(wanted, __version__)
        if self._client is None:
            # The client's next request needs the engine: load it while the answer travels.
            asyncio.get_running_loop().call_soon(self._load)
        self._client = client
        self._peer.respond(number, result)

    # ------------------------------------------------------------ methods

    def _method(self, name: str) -> AgentMethod:
        self._load()
        method = self._methods.get(name)
        if method is None:
            raise RequestFault(METHOD_NOT_FOUND, f"Method not found: {name[:100]}")
        return method

    def _load(self) -> None:
        """Import the engine, and fill the table of methods."""
        if self._sessions is not None or self._client is None:
            return
        from ludolf.acp.link import ClientLink
        from ludolf.acp.methods import table_of
        from ludolf.acp.sessions import ClientSessions

        self._sessions = ClientSessions(
            self._options, ClientLink(self._client, self._peer, self._stdio, set()), self._prepare
        )
        self._methods = table_of(self._sessions)

    def _start(self, request: IncomingRequest, run: AgentMethod) -> None:
        self._running[request.id] = request
        about = request.session_id
        earlier = self._last.get(about) if about is not None else None
        if about is not None:
            self._last[about] = request
        self._tasks.start(self._answer(request, run, earlier))

    async def _answer(
        self, request: IncomingRequest, run: AgentMethod, earlier: IncomingRequest | None
    ) -> None:
        try:
            if earlier is not None:
                await asyncio.wait((earlier.begun,))
            result = await request.scope.run(_awaited(run, request))
            self._peer.respond(request.id, result)
            if request.after is not None:
                self._stdio.flush()  # what follows may take a while
                request.after()
        except Aborted:
            self._peer.refuse(request.id, REQUEST_CANCELLED, "The request was cancelled")
        except LudolfError as error:
            self._peer.refuse(request.id, code_of(error), str(error))
        except Exception as error:  # a bug in a method is an error, not the end
            self._refuse_bug(request.id, request.method, error)
        finally:
            self._forget(request)

    def _forget(self, request: IncomingRequest) -> None:
        request.begin()
        self._running.pop(request.id, None)
        about = request.session_id
        if about is not None and self._last.get(about) is request:
            del self._last[about]

    def _refuse_bug(self, number: RequestId, method: str, error: Exception) -> None:
        with contextlib.suppress(OSError, ValueError):  # stderr may be closed
            traceback.print_exception(error)
        text = f"Internal error in {method[:100]}: {type(error).__name__}: {error}"
        self._peer.refuse(number, INTERNAL_ERROR, text)


async def _awaited(run: AgentMethod, request: IncomingRequest) -> Any:
    return await run(request)
