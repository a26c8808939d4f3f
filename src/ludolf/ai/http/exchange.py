"""One request and the head of its response, on a connection of the pool."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ludolf.ai.access import Patience
from ludolf.ai.errors import ProviderError
from ludolf.ai.http.address import UrlParts, split_url
from ludolf.ai.http.connection import HttpConnection
from ludolf.ai.http.headers import request_head
from ludolf.ai.http.pool import ConnectionPool
from ludolf.ai.http.proxy import Proxy, proxy_for
from ludolf.ai.http.response import IncomingResponse

if TYPE_CHECKING:
    from ludolf.ai.http.transport import HttpRequest

# Requests of these methods are sent again if a connection that was used before is closed without
# an answer. Others are not: the server may have acted on them.
_REPEATABLE = frozenset(("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"))


class HttpExchange:
    """Sends one request; `close` ends it, also if its response is not complete."""

    def __init__(
        self, pool: ConnectionPool, sent: "HttpRequest", environ: Mapping[str, str]
    ) -> None:
        """Prepare the request.

        Raises:
            ProviderError: the URL, a header or the address of the proxy is invalid.
        """
        self._pool = pool
        self._sent = sent
        self._url = split_url(sent.url)
        self._proxy = proxy_for(sent.url, environ)
        self._route = (self._url.scheme, self._url.host, self._url.port, self._proxy)
        self._connection: HttpConnection | None = None
        try:
            self._head = _head(sent, self._url, self._proxy)
        except ValueError as error:
            # A key or header with invalid characters, or two logins that conflict.
            text = f"The request cannot be sent: {error}"
            raise ProviderError(text, kind="bad_request") from error

    async def send(self) -> IncomingResponse:
        """Send the request and return the response, whose head has arrived.

        Raises:
            ProviderError: the server could not be reached or broke the connection.
            TimeoutError: a time limit has passed.
        """
        patience = self._sent.patience
        async with asyncio.timeout(_connect_seconds(patience)) as deadline:
            self._connection = self._pool.reuse(self._route)
            if self._connection is not None:
                response = self._ask(self._connection, deadline)
                try:
                    return await self._answered(response)
                except ProviderError:
                    if response.has_begun or self._sent.method not in _REPEATABLE:
                        raise
                self.close()
                _limit(deadline, _connect_seconds(patience))
            connection = await self._pool.connect(self._url, self._proxy, patience.connect)
            self._connection = connection
            return await self._answered(self._ask(connection, deadline))

    def close(self) -> None:
        """Return the connection to the pool, or close it if the response is not complete."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.release(self._route, connection)

    def _ask(self, connection: HttpConnection, deadline: asyncio.Timeout) -> IncomingResponse:
        # The head of the response has its own limit, however slowly it arrives.
        _limit(deadline, self._sent.patience.first)
        return connection.ask(self._sent.method, self._head, self._sent.body)

    async def _answered(self, response: IncomingResponse) -> IncomingResponse:
        await response.head()
        response.limit_silence(self._sent.patience.first)
        return response


def _head(sent: "HttpRequest", url: UrlParts, proxy: Proxy | None) -> bytes:
    headers, target = sent.headers, url.target
    if url.login is not None:
        if any(name.lower() == "authorization" for name in headers):
            raise ValueError("both the URL and the header Authorization contain a login")
        headers = {**headers, "Authorization": url.login}
    if proxy is not None and not url.is_secure:
        # A tunnel gets the login of the proxy separately; here the proxy reads this request.
        headers, target = {**headers, **proxy.headers}, url.origin + target
    return request_head(sent.method, target, url.authority, headers, sent.body)


def _connect_seconds(patience: Patience) -> float | None:
    """Return the time limit for opening a connection, including a proxy; None is no limit."""
    return patience.connect + patience.first if patience.connect and patience.first else None


def _limit(deadline: asyncio.Timeout, seconds: float | None) -> None:
    now = asyncio.get_running_loop().time()
    deadline.reschedule(now + seconds if seconds else None)
