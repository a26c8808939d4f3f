"""Connection to one server, in either era and over either transport."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base import LudolfError
from ludolf.base.jsonrpc import OutgoingCall, RequestId, RpcFault, RpcFrame, RpcPeer
from ludolf.mcp.call_clocks import CallClock, CallClocks, TakeProgress
from ludolf.mcp.handshake import initialize, modern_meta, negotiate
from ludolf.mcp.link import AnswerCut, Link, SessionLost
from ludolf.mcp.paging import Listing, read_pages
from ludolf.mcp.questions import PendingQuestions, gather_inputs
from ludolf.mcp.request_headers import MirroredTools, modern_headers
from ludolf.mcp.streams import keep_open
from ludolf.mcp.wire import (
    METHOD_NOT_FOUND,
    Client,
    Era,
    HttpServer,
    Json,
    McpError,
    Refusal,
    ServerFacts,
    StdioServer,
    Tokens,
)

# Results that ask for input, in one call.
MAX_ROUNDS = 8
_HEADER_MISMATCH = -32020


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Time limits of a connection in seconds."""

    first_byte: float = 60.0  # a package runner may install the server first
    handshake: float = 10.0  # after the first byte
    silence: float = 10.0  # until the modern way is tried too
    request: float = 60.0
    call_total: float = 900.0  # progress restarts the limit of a call, up to this time
    pauses: tuple[float, ...] = (0.5, 2.0)  # before HTTP requests are sent again
    grace: float = 1.0  # for a process to end after its stdin was closed


_USUAL = ConnectionLimits()


async def connect(
    server: StdioServer | HttpServer,
    client: Client,
    *,
    tokens: Tokens | None = None,
    protocol: Era | None = None,
    limits: ConnectionLimits = _USUAL,
) -> "Connection":
    """Start or reach a server and agree on a version; `protocol` allows one era only.

    Raises:
        LoginNeeded: the server requires a login.
        McpError: the server cannot be used.
    """
    connection = Connection(server, client, tokens, limits)
    try:
        await connection._open(protocol)
    except BaseException:
        await connection.close()
        raise
    return connection


class Connection:
    """An open connection; several requests may run at the same time.

    `closed` is set when the connection has ended; `failure` then says why, unless `close` was
    called.
    """

    facts: ServerFacts

    def __init__(
        self,
        server: StdioServer | HttpServer,
        client: Client,
        tokens: Tokens | None,
        limits: ConnectionLimits,
    ) -> None:
        self._client = client
        self._limits = limits
        self._capabilities = client.capabilities()
        self._tasks = Tasks()
        self._clocks = CallClocks()
        self._questions = PendingQuestions(client, self._clocks)
        self._renewing = asyncio.Lock()
        # Tools with arguments that are repeated in headers; None where headers do not exist.
        self._mirrored: MirroredTools | None = None
        self._link = self._make_link(server, tokens)
        self._peer = RpcPeer(self._link.send, self)
        self.closed = asyncio.Event()
        self.failure: str | None = None

    @property
    def pid(self) -> int | None:
        return self._link.pid

    @property
    def stderr(self) -> str:
        """The last 64 KiB that a child process wrote to stderr."""
        return self._link.stderr

    @property
    def invalid_count(self) -> int:
        """Number of messages that were not JSON-RPC and were ignored."""
        return self._peer.invalid_count

    @property
    def first_invalid(self) -> str:
        """The beginning of the first message that was ignored."""
        return self._peer.first_invalid

    # ------------------------------------------------------------ requests

    async def list_tools(self) -> Listing:
        """Return the tools.

        Raises:
            McpError: the list cannot be read.
        """
        listing = await self._list("tools/list", "tools")
        if self._mirrored is not None:
            listing = self._mirrored.learn(listing)
        return listing

    async def list_prompts(self) -> Listing:
        """Return the prompts; none if the server does not declare any."""
        return await self._list("prompts/list", "prompts", capability="prompts")

    async def list_resources(self) -> Listing:
        """Return the resources; none if the server does not declare any."""
        return await self._list("resources/list", "resources", capability="resources")

    async def list_resource_templates(self) -> Listing:
        """Return the templates of resources; none if the server does not declare any."""
        try:
            return await self._list(
                "resources/templates/list", "resourceTemplates", capability="resources"
            )
        except Refusal as error:
            if error.code == METHOD_NOT_FOUND:
                return Listing()
            raise

    async def call_tool(
        self,
        name: str,
        args: Json,
        *,
        timeout: float = 60.0,
        on_progress: TakeProgress | None = None,
        meta: Json | None = None,
    ) -> Json:
        """Call a tool and return its result. `meta` are further members of `_meta`.

        The call is sent again only if the server has certainly not run it: it had forgotten the
        session, or missed a header. Cancelling the task cancels the call at the server too.

        Raises:
            Refusal: the server answered with an error.
            McpError: the server ended, did not answer in time, or sent an invalid answer.
        """
        params: Json = {"name": name, "arguments": args}
        if meta:
            params = {**params, "_meta": meta}
        try:
            return await self._ask("tools/call", params, timeout, on_progress)
        except Refusal as error:
            if error.code != _HEADER_MISMATCH or self._mirrored is None:
                raise
        # The server checks headers before it runs a tool; its list says which ones it expects.
        await self.list_tools()
        return await self._ask("tools/call", params, timeout, on_progress)

    async def get_prompt(self, name: str, args: Json) -> Json:
        """Return the messages of a prompt; raises as `call_tool`."""
        return await self._ask("prompts/get", {"name": name, "arguments": args})

    async def read_resource(self, uri: str) -> Json:
        """Return the contents of a resource; raises as `call_tool`."""
        return await self._ask("resources/read", {"uri": uri})

    async def close(self) -> None:
        """End the connection, and the process if there is one, within about two seconds."""
        self._end("The connection was closed")
        await self._questions.close()
        await self._tasks.close()
        await self._link.close()

    # ------------------------------------------------------------ messages of the server

    def received(self, frame: RpcFrame) -> None:
        self._peer.receive(frame)

    def lost(self, reason: str) -> None:
        self.failure = reason
        self._end(reason)

    def requested(self, number: RequestId, method: str, params: Any) -> None:
        self._questions.take(self._peer, number, method, params)

    def notified(self, method: str, params: Any) -> None:
        values: Json = params if isinstance(params, dict) else {}
        if method == "notifications/progress":
            self._clocks.progress(values)
        elif method == "notifications/cancelled":
            self._questions.cancel(values.get("requestId"))
        else:
            self._client.notice(method, values)

    # ------------------------------------------------------------ private

    def _make_link(self, server: StdioServer | HttpServer, tokens: Tokens | None) -> Link:
        if isinstance(server, StdioServer):
            from ludolf.mcp.stdio import StdioLink

            return StdioLink(server, self, grace=self._limits.grace)
        from ludolf.mcp.http import HttpLink

        self._mirrored = MirroredTools()
        return HttpLink(server, self, tokens, self._limits.pauses)

    async def _open(self, protocol: Era | None) -> None:
        await self._link.start()
        work = negotiate(
            self._shake, self._capabilities, protocol=protocol, silence=self._limits.silence
        )
        self.facts = await self._in_time(work)
        if self.facts.era == "legacy":
            await self._confirm()
        else:
            self._link.session = None
            self._listen()
        if self.failure is not None:
            raise McpError(self.failure)

    async def _in_time(self, work: Any) -> ServerFacts:
        """Run the handshake: limits until the first byte, and from there to the end."""
        task = self._tasks.start(work)
        limits = self._limits
        try:
            await asyncio.wait(
                {task, self._link.heard},
                timeout=limits.first_byte,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if self._link.heard.done():
                await asyncio.wait({task}, timeout=limits.handshake)
            if task.done():
                return task.result()  # type: ignore[no-any-return]  # tasks have any type
            waited = limits.handshake if self._link.heard.done() else limits.first_byte
            raise McpError(f"The server did not answer `initialize` within {waited:g} s")
        finally:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # retrieve it: this may be cancelled before it reads the result

    async def _confirm(self) -> None:
        self._peer.notify("notifications/initialized")
        await self._link.handshake_done(self.facts.version)

    async def _shake(self, method: str, params: Json) -> Json:
        """Send a request of the handshake, which is never cancelled at the server."""
        call = self._peer.open(method, params)
        headers = {} if method == "initialize" else modern_headers(method, params)
        try:
            return _object(method, await self._link.exchange(call, headers))
        except RpcFault as error:
            raise Refusal(error.code, str(error), error.data) from None
        finally:
            self._peer.drop(call)

    async def _renew(self, session: str | None) -> None:
        """Start a new session after the server has forgotten one."""
        async with self._renewing:
            if self._link.session != session:
                return  # another request has done it
            self.facts = await self._in_time(initialize(self._shake, self._capabilities))
            await self._confirm()

    async def _list(self, method: str, key: str, capability: str | None = None) -> Listing:
        if capability is not None and capability not in self.facts.capabilities:
            return Listing()

        async def read_page(params: Json) -> tuple[Json, int]:
            return await self._send_again(method, params, self._limits.request, None)

        return await read_pages(key, read_page)

    async def _ask(
        self,
        method: str,
        params: Json,
        timeout: float | None = None,
        on_progress: TakeProgress | None = None,
    ) -> Json:
        """Send a request, and again with the input that the server asks for."""
        seconds = self._limits.request if timeout is None else timeout
        extra: Json = {}
        for _ in range(MAX_ROUNDS + 1):
            result, _ = await self._send_again(method, {**params, **extra}, seconds, on_progress)
            if self.facts.era == "legacy" or result.get("resultType") != "input_required":
                return result
            extra = await gather_inputs(self._client, result)
        raise McpError(f"The server asked for input more than {MAX_ROUNDS} times in one call")

    async def _send_again(
        self, method: str, params: Json, seconds: float, on_progress: TakeProgress | None
    ) -> tuple[Json, int]:
        """Send a request, and once more if the server had forgotten the session."""
        if self._renewing.locked():
            async with self._renewing:
                pass  # the session in use is the forgotten one
        session = self._link.session
        try:
            return await self._send(method, params, seconds, on_progress)
        except SessionLost:
            await self._renew(session)
            return await self._send(method, params, seconds, on_progress)

    async def _send(
        self, method: str, params: Json, seconds: float, on_progress: TakeProgress | None
    ) -> tuple[Json, int]:
        number = self._peer.next_id()
        full = self._with_meta(method, params, number)
        call = self._peer.open(method, full, number)
        try:
            async with asyncio.timeout(seconds) as timeout:
                clock = CallClock(seconds, self._limits.call_total, timeout, on_progress)
                self._clocks.add(number, clock)
                result = await self._link.exchange(call, self._headers(method, params))
                return _object(method, result), call.answer_bytes
        except TimeoutError:
            self._cancel(call, "timeout")
            raise McpError(f"The server did not answer `{method}` within {seconds:g} s") from None
        except asyncio.CancelledError:
            self._cancel(call, "cancelled by the user")
            raise
        except RpcFault as error:
            raise Refusal(error.code, str(error), error.data) from None
        finally:
            self._peer.drop(call)
            self._clocks.remove(number)

    def _with_meta(self, method: str, params: Json, number: int) -> Json:
        meta: dict[str, Any] = {}
        if self.facts.era == "modern":
            meta = modern_meta(self._capabilities)
        if method == "tools/call":
            meta["progressToken"] = number
        return {**params, "_meta": {**params.get("_meta", {}), **meta}} if meta else params

    def _headers(self, method: str, params: Json) -> Mapping[str, str]:
        if self._mirrored is None or self.facts.era == "legacy":
            return {}
        return {**modern_headers(method, params), **self._mirrored.headers(method, params)}

    def _cancel(self, call: OutgoingCall, reason: str) -> None:
        """Report to the server that nothing waits for the answer any more."""
        # Over modern HTTP, the closed stream says so.
        if self.facts.era == "legacy" or self._mirrored is None:
            params = {"requestId": call.id, "reason": reason}
            self._peer.notify("notifications/cancelled", params)

    def _listen(self) -> None:
        """Subscribe to changes of lists, which modern servers send on request only."""
        wanted = {}
        for name in ("tools", "prompts", "resources"):
            declared = self.facts.capabilities.get(name)
            if isinstance(declared, dict) and declared.get("listChanged"):
                wanted[f"{name}ListChanged"] = True
        if wanted:
            self._tasks.start(keep_open(lambda: self._subscribe(wanted)))

    async def _subscribe(self, wanted: Json) -> bool:
        """Read changes until the stream ends; return whether another attempt is useful."""
        method, params = "subscriptions/listen", {"notifications": wanted}
        number = self._peer.next_id()
        try:
            call = self._peer.open(method, self._with_meta(method, params, number), number)
        except McpError:
            return False
        try:
            await self._link.exchange(call, self._headers(method, params))
        except AnswerCut:
            return True
        except LudolfError:
            return False  # the lists are still read when they are needed
        finally:
            self._peer.drop(call)
        return True

    def _end(self, reason: str) -> None:
        self._peer.close(McpError(reason))
        self.closed.set()


def _object(method: str, result: Any) -> Json:
    if not isinstance(result, dict):
        raise McpError(f"The server answered `{method}` with a value that is not an object")
    return result
