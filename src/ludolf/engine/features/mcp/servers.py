"""The MCP servers of a program: each runs once for all of its sessions.

A server starts when something of it is used, and ends some time after its last user has left.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.mcp.catalog import read_tools
from ludolf.mcp.connection import Connection, connect
from ludolf.mcp.definitions import ToolDefinition
from ludolf.mcp.paging import Listing
from ludolf.mcp.wire import (
    METHOD_NOT_FOUND,
    Era,
    HttpServer,
    Json,
    LoginNeeded,
    McpError,
    Refusal,
    ServerFacts,
    StdioServer,
    Tokens,
)
from ludolf.protocol.results import McpState

# Seconds before a server that failed once, twice, three times is started again.
DELAYS = (1.0, 4.0, 15.0)
MOST_FAILURES, FAILURE_SECONDS = 3, 60.0
LINGER_SECONDS = 30.0
# Limit of the lists of prompts and resources when a server starts.
OPTIONAL_SECONDS = 5.0
GAVE_UP = (
    "it failed {count} times within {seconds:g} seconds and is not started again. The last time: "
    '{error} Correct its entry, then reconnect it ("mcp_reconnect").'
)


class Catalog(msgspec.Struct, frozen=True, kw_only=True):
    """What a server offers, as it was read last."""

    facts: ServerFacts
    tools: tuple[ToolDefinition, ...] = ()
    prompts: tuple[dict[str, Any], ...] = ()
    resources: int = 0
    templates: int = 0


class ServerLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a server: its address and what belongs to it."""

    address: StdioServer | HttpServer
    tokens: Tokens | None = None
    protocol: Era | None = None
    # Appended to the error of a failed start.
    advice: str = ""


class ServerUser(Protocol):
    """A session that uses servers."""

    def on_server(self, server: "McpServer") -> None:
        """Called when the state or the catalog of a server has changed."""

    def on_problem(self, text: str) -> None:
        """Called with a text for the user when something of a server does not work."""

    def calling(self, server: str) -> AbstractContextManager[None]:
        """Return the block in which a call of one of the server's tools runs."""

    def on_log(self, server: str, params: Json) -> None:
        """Called with a log message of a server."""

    def capabilities(self) -> Json:
        """Return what the session can answer to servers."""

    async def answer(self, server: str, method: str, params: Json) -> Json:
        """Answer a request of a server.

        Raises:
            Refusal: it is unknown or refused.
        """


class McpServer:
    """One server. `launch` is called for each start; `keep` stores a catalog for later programs."""

    def __init__(
        self,
        name: str,
        launch: Callable[[], Awaitable[ServerLaunch]],
        catalog: Catalog | None,
        keep: Callable[[Catalog], Awaitable[None]],
    ) -> None:
        self.name = name
        self.catalog = catalog
        self.state: McpState = "known"
        self.error: str | None = None
        # Whether the server failed too often to be started again without being asked for.
        self.gave_up = False
        self._launch = launch
        self._keep = keep
        self._connection: Connection | None = None
        self._tokens: Tokens | None = None
        self._start: asyncio.Task[Connection] | None = None
        self._refresh: asyncio.Task[None] | None = None
        self._failures: deque[float] = deque(maxlen=MOST_FAILURES)
        self._tasks = Tasks()
        # Held while the server is stopped: no start begins then.
        self._stopping = asyncio.Lock()
        self._closed = False
        self._users: list[ServerUser] = []
        # The users whose calls run, the newest last: they answer what the server asks.
        self._callers: list[ServerUser] = []
        self._linger: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ state

    @property
    def connection(self) -> Connection | None:
        return self._connection

    @property
    def is_new(self) -> bool:
        """Return whether nothing is known of the server yet, and it may still become known."""
        return self.catalog is None and self.state != "needs_login" and not self.gave_up

    def _set(self, state: McpState, error: str | None = None) -> None:
        self.state, self.error = state, error
        for user in tuple(self._users):
            user.on_server(self)

    def _report(self, text: str) -> None:
        for user in tuple(self._users):
            user.on_problem(text)

    # ------------------------------------------------------------ users

    def add_user(self, user: ServerUser) -> None:
        if user not in self._users:
            self._users.append(user)
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    def remove_user(self, user: ServerUser, end: Callable[[], None], seconds: float) -> None:
        """Let `end` be called after some seconds if this was the last user."""
        if user in self._users:
            self._users.remove(user)
        if not self._users and self._linger is None:
            loop = asyncio.get_running_loop()
            self._linger = loop.call_later(seconds, end)

    @property
    def is_used(self) -> bool:
        return bool(self._users)

    @contextmanager
    def called_by(self, user: ServerUser) -> Iterator[None]:
        """Let this user answer what the server asks during the block."""
        self._callers.append(user)
        try:
            with user.calling(self.name):
                yield
        finally:
            self._callers.remove(user)

    # ------------------------------------------------------------ life

    async def use(self) -> Connection:
        """Return the connection, after starting the server if it does not run.

        Raises:
            McpError: it cannot be started.
        """
        while self._connection is None:
            async with self._stopping:
                self._check_startable()
                start = self.begin()
            await asyncio.wait((start,))
            if not start.cancelled():  # else the server was stopped meanwhile
                return start.result()
        return self._connection

    def _check_startable(self) -> None:
        if self._closed:
            raise McpError("the server is not used any more")
        if self.gave_up:
            raise McpError(
                GAVE_UP.format(
                    count=MOST_FAILURES,
                    seconds=FAILURE_SECONDS,
                    error=_sentences(self.error or "it ended"),
                )
            )

    def begin(self) -> "asyncio.Task[Connection]":
        """Start the server without waiting for it."""
        if self._start is None:
            self._start = self._tasks.start(self._connect())
            self._start.add_done_callback(self._started)
            self._set("starting")
        return self._start

    def _started(self, task: "asyncio.Task[Connection]") -> None:
        self._start = None
        if not task.cancelled():
            task.exception()  # retrieve it: there may be no user that waits

    async def reconnect(self) -> None:
        """End the server, forget its failures and start it again.

        Raises:
            McpError: it cannot be started.
        """
        await self.stop()
        self._failures.clear()
        self.gave_up = False
        await self.use()

    async def stop(self) -> None:
        """End the server; the next use starts it again."""
        async with self._stopping:
            await self._tasks.close()
            self._refresh = None
            connection, self._connection = self._connection, None
            if connection is not None:
                await connection.close()
            if self.state in ("starting", "ready"):
                self._set("known" if self.catalog is not None else "failed", self.error)
            if self._tokens is not None:
                await self._tokens.close()

    async def lose_login(self, error: LoginNeeded) -> None:
        """End the connection: the server has refused its token."""
        if self.state != "needs_login":
            await self.stop()
            self._want_login(error)

    async def close(self) -> None:
        """End the server for good."""
        if self._linger is not None:
            self._linger.cancel()
        self._users.clear()
        self._closed = True
        await self.stop()

    # ------------------------------------------------------------ private

    async def _connect(self) -> Connection:
        if self._failures:
            delay = DELAYS[min(len(self._failures), len(DELAYS)) - 1]
            await asyncio.sleep(self._failures[-1] + delay - time.monotonic())
        advice = ""
        try:
            launch = await self._launch()
            advice, self._tokens = launch.advice, launch.tokens
            connection = await connect(
                launch.address,
                _ServerClient(self),
                tokens=launch.tokens,
                protocol=launch.protocol,
            )
        except LoginNeeded as error:
            self._want_login(error)
            raise
        except McpError as error:
            raise self._failed(_sentences(str(error), advice)) from error
        await self._take(connection)
        return connection

    async def _take(self, connection: Connection) -> None:
        try:
            await self._read(connection)
        except McpError as error:
            await _close(connection)
            raise self._failed(str(error)) from error
        except asyncio.CancelledError:
            await connection.close()
            raise
        self._connection = connection
        self._set("ready")
        if connection.invalid_count:
            text = f"it writes lines to stdout that are not messages: {connection.first_invalid}"
            self._report(f'MCP server "{self.name}": {text}')
        self._tasks.start(self._watch(connection))

    def _want_login(self, error: LoginNeeded) -> None:
        self._set("needs_login", str(error))
        advice = f'Run "ludolf mcp login {self.name}".'
        self._report(f'MCP server "{self.name}" needs a login. {advice}')

    def _failed(self, text: str) -> McpError:
        now = time.monotonic()
        self._failures.append(now)
        full = len(self._failures) == MOST_FAILURES
        self.gave_up = full and now - self._failures[0] < FAILURE_SECONDS
        self._set("failed", text)
        self._report(f'MCP server "{self.name}" failed: {text}')
        return McpError(text)

    async def _watch(self, connection: Connection) -> None:
        """Note the end of a server that ends without being asked to."""
        await connection.closed.wait()
        self._connection = None
        await _close(connection)
        self._failed(connection.failure or "it ended")
        if not self.gave_up:
            self._set("known", self.error)

    # ------------------------------------------------------------ catalog

    def refresh_later(self) -> None:
        """Read the catalog again: the server says that it has changed."""
        if self._refresh is None and self._connection is not None:
            self._refresh = self._tasks.start(self._read_again(self._connection))

    async def _read_again(self, connection: Connection) -> None:
        # Several notices may arrive together.
        await asyncio.sleep(0)
        self._refresh = None
        try:
            await self._read(connection)
        except McpError as error:
            self._report(f'MCP server "{self.name}": its tools cannot be read again: {error}')
        else:
            self._set(self.state, self.error)

    async def _read(self, connection: Connection) -> None:
        """Raises:
        McpError: the server does not say what it offers.
        """
        listing, prompts, resources, templates = await asyncio.gather(
            _tools_of(connection),
            _optional(connection.list_prompts),
            _optional(connection.list_resources),
            _optional(connection.list_resource_templates),
        )
        read = await asyncio.to_thread(read_tools, self.name, listing.items)
        warnings = list(read.warnings)
        if listing.cut:
            warnings.append(f'MCP server "{self.name}": {listing.cut}.')
        catalog = Catalog(
            facts=connection.facts,
            tools=read.tools,
            prompts=tuple(map(dict, prompts.items)),
            resources=len(resources.items),
            templates=len(templates.items),
        )
        before = self.catalog
        if catalog != before:
            self.catalog = catalog
            await self._keep(catalog)
            for text in warnings:
                self._report(text)
        if before is not None:
            self._report_changes(before, catalog)

    def _report_changes(self, before: Catalog, after: Catalog) -> None:
        digests = {tool.tool: tool.digest for tool in before.tools}
        changed = [t.tool for t in after.tools if digests.get(t.tool, t.digest) != t.digest]
        if changed:
            self._report(
                f'MCP server "{self.name}" changed the definitions of: {", ".join(changed)}. '
                "Approvals for this session no longer cover them."
            )

    # ------------------------------------------------------------ what the server asks

    def asked_user(self) -> ServerUser | None:
        """Return the user that answers what the server asks now."""
        users = self._callers or self._users
        return users[-1] if users else None


def _sentences(*texts: str) -> str:
    """Return texts as sentences; those without an end get one."""
    return " ".join(text if text.endswith(".") else f"{text}." for text in texts if text)


async def _close(connection: Connection) -> None:
    """Close a connection, also if the task is cancelled meanwhile: its process must end."""
    try:
        await connection.close()
    except asyncio.CancelledError:
        await connection.close()
        raise


async def _tools_of(connection: Connection) -> Listing:
    """Return the tools; none if the server has only prompts or resources."""
    try:
        return await connection.list_tools()
    except Refusal as error:
        if error.code == METHOD_NOT_FOUND:
            return Listing()
        raise


async def _optional(read: Callable[[], Awaitable[Listing]]) -> Listing:
    """Return a list that a server can do without; empty if it does not come."""
    try:
        async with asyncio.timeout(OPTIONAL_SECONDS):
            return await read()
    except (McpError, TimeoutError):
        return Listing()


class _ServerClient:
    """Answers a server in the name of the session whose call runs."""

    def __init__(self, server: McpServer) -> None:
        self._server = server

    def capabilities(self) -> Json:
        user = self._server.asked_user()
        return {} if user is None else user.capabilities()

    async def answer(self, method: str, params: Json) -> Json:
        user = self._server.asked_user()
        if user is None:
            raise McpError("no session uses this server")
        return await user.answer(self._server.name, method, params)

    def notice(self, method: str, params: Json) -> None:
        if method.endswith("/list_changed"):
            self._server.refresh_later()
        elif method == "notifications/message":
            user = self._server.asked_user()
            if user is not None:
                user.on_log(self._server.name, params)


class ServerPool:
    """The servers of one event loop, by entry and folder."""

    def __init__(self) -> None:
        self._servers: dict[str, McpServer] = {}
        self._tasks = Tasks()

    def take(self, key: str, user: ServerUser, make: Callable[[], McpServer]) -> McpServer:
        """Return the server with this key, made if there is none."""
        server = self._servers.get(key)
        if server is None:
            server = self._servers[key] = make()
        server.add_user(user)
        return server

    def give_back(self, key: str, user: ServerUser, seconds: float = LINGER_SECONDS) -> None:
        """End the use of a server; it ends some seconds after its last user."""
        server = self._servers.get(key)
        if server is not None:
            server.remove_user(user, lambda: self._end(key), seconds)

    def _end(self, key: str) -> None:
        server = self._servers.get(key)
        if server is not None and not server.is_used:
            del self._servers[key]
            self._tasks.start(server.close())

    async def close_unused(self) -> None:
        """End all servers without users at once, and wait until they have ended."""
        unused = [key for key, server in self._servers.items() if not server.is_used]
        for key in unused:
            self._end(key)
        await self._tasks.ended()


_POOLS: "WeakKeyDictionary[asyncio.AbstractEventLoop, ServerPool]" = WeakKeyDictionary()


def server_pool() -> ServerPool:
    """Return the pool of the running event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _POOLS:
        _POOLS[loop] = ServerPool()
    return _POOLS[loop]
