"""Open connections of one event loop, for all requests that may share them."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from ludolf.ai.http.proxy import Proxy

if TYPE_CHECKING:
    from ludolf.ai.http.address import UrlParts
    from ludolf.ai.http.connection import HttpConnection

IDLE_SECONDS = 15.0
# Bytes that are read at once. asyncio would allocate 256 KiB for each read.
_READ_BYTES = 64 << 10
# Scheme, host and port of a server, and the proxy with its login.
Route = tuple[str, str, int, Proxy | None]


class ConnectionPool:
    """Open connections of one event loop, which all its transports use; the last one closes them.

    A connection is used again only for the same server, proxy and login of the proxy, and no
    cookies are kept, so that nothing of one transport reaches the requests of another.
    """

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._loop = asyncio.get_running_loop()
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._open: set[HttpConnection] = set()
        self._idle: dict[Route, list[HttpConnection]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._users = 0
        self.is_closed = False

    @classmethod
    def join(cls) -> "ConnectionPool":
        """Return the pool of the running loop; the caller must leave it."""
        # The pool refers to its loop: the number cannot belong to another one meanwhile.
        number = id(asyncio.get_running_loop())
        pool = _POOLS.get(number)
        if pool is None or pool.is_closed:
            pool = _POOLS[number] = cls()
        pool._users += 1
        return pool

    async def leave(self) -> None:
        self._users -= 1
        if not self._users:
            await self.close()

    async def close(self) -> None:
        """Close all connections."""
        self.is_closed = True
        self._idle.clear()
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._open:
            connection.abort()
        await asyncio.sleep(0)  # asyncio closes the sockets in the next turn of the loop

    def reuse(self, route: Route) -> "HttpConnection | None":
        """Return an idle connection, if there is one that the server has not closed."""
        idle = self._idle.get(route)
        while idle:
            connection = idle.pop()
            if connection.is_usable:
                return connection
            connection.abort()
        return None

    async def connect(
        self, url: "UrlParts", proxy: Proxy | None, seconds: float
    ) -> "HttpConnection":
        """Open a connection; `seconds` limit each step of it, 0 is no limit.

        Raises:
            ProviderError: the server or the proxy cannot be reached, or the proxy refuses.
            TimeoutError: a step took too long.
        """
        from ludolf.ai.http.dialing import dial

        connection = await dial(url, proxy, seconds, self._buffer)
        connection.forget = self._forget
        self._open.add(connection)
        return connection

    def release(self, route: Route, connection: "HttpConnection") -> None:
        """End an exchange: keep the connection for the next one, or close it."""
        if not connection.end_exchange() or self.is_closed:
            connection.abort()
            return
        connection.idle_since = self._loop.time()
        self._idle.setdefault(route, []).append(connection)
        if self._timer is None:
            self._timer = self._loop.call_later(self._idle_seconds, self._close_idle)

    # ------------------------------------------------------------ private

    def _forget(self, connection: "HttpConnection") -> None:
        self._open.discard(connection)
        self._keep_idle(lambda each: each is not connection)

    def _close_idle(self) -> None:
        self._timer = None
        limit = self._loop.time() - self._idle_seconds
        for idle in self._idle.values():
            for connection in idle:
                if connection.idle_since <= limit:
                    connection.abort()
        self._keep_idle(lambda each: each.idle_since > limit)
        if self._idle:
            oldest = min(idle[0].idle_since for idle in self._idle.values())
            self._timer = self._loop.call_at(oldest + self._idle_seconds, self._close_idle)

    def _keep_idle(self, is_kept: Callable[["HttpConnection"], bool]) -> None:
        kept = {route: [*filter(is_kept, idle)] for route, idle in self._idle.items()}
        self._idle = {route: idle for route, idle in kept.items() if idle}


# By the id of the loop. Only transports keep a pool alive.
_POOLS: "WeakValueDictionary[int, ConnectionPool]" = WeakValueDictionary()
