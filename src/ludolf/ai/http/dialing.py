"""Open a connection: addresses of a host, tunnels of proxies, TLS."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from errno import ECONNREFUSED
from typing import TYPE_CHECKING

from ludolf.ai.errors import ErrorKind, ProviderError
from ludolf.ai.http.address import UrlParts, split_url
from ludolf.ai.http.connection import HttpConnection
from ludolf.ai.http.headers import request_head
from ludolf.ai.http.proxy import LOOPBACK, Proxy
from ludolf.ai.http.sockets import connected_socket

if TYPE_CHECKING:
    from ssl import SSLContext
# Characters of a refusal that an error shows.
_MAX_REASON = 200


async def dial(
    url: UrlParts, proxy: Proxy | None, seconds: float, buffer: memoryview
) -> HttpConnection:
    """Open a connection to the server of a URL; it reads into `buffer`.

    Raises:
        ProviderError: the server or the proxy cannot be reached, or the proxy refuses.
        TimeoutError: a step took more than `seconds`, unless they are 0.
    """
    first = split_url(proxy.url) if proxy is not None else url
    shown = f"proxy {first.endpoint}" if proxy is not None else url.origin
    tls = _prepare_tls() if first.is_secure or url.is_secure else None
    async with _step(first, shown, seconds):
        connected = await connected_socket(first.host, first.port)
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: HttpConnection(buffer), sock=connected
        )
    try:
        if tls is not None and first.is_secure:
            async with _step(first, shown, seconds):
                await connection.encrypt(await tls, first.host)
        if tls is not None and proxy is not None and url.is_secure:
            await _ask_for_tunnel(connection, url, proxy)
            async with _step(url, url.origin, seconds):
                await connection.encrypt(await tls, url.host)
    except BaseException:
        connection.abort()
        raise
    return connection


def _prepare_tls() -> "asyncio.Future[SSLContext]":
    from ludolf.ai.http.tls import tls_context

    return tls_context()


@asynccontextmanager
async def _step(url: UrlParts, shown: str, seconds: float) -> AsyncIterator[None]:
    """Limit and name a step towards a server."""
    try:
        async with asyncio.timeout(seconds or None) as limit:
            yield
    except OSError as error:
        if limit.expired():
            raise TimeoutError(f"no connection to {shown} within {seconds:g} s") from None
        reason = error.strerror or str(error) or type(error).__name__
        is_local = error.errno == ECONNREFUSED and url.host in LOOPBACK
        raise ProviderError(
            f"Connection error: {reason} ({shown})", kind="unreachable" if is_local else None
        ) from error


async def _ask_for_tunnel(connection: HttpConnection, url: UrlParts, proxy: Proxy) -> None:
    head = request_head("CONNECT", url.endpoint, url.endpoint, proxy.headers, b"")
    reply = connection.ask("CONNECT", head, b"")
    await reply.head()
    if not 200 <= reply.status < 300:
        kind: ErrorKind = "auth" if reply.status == 407 else "network"
        text = f"The proxy refused the connection: {reply.status} {reply.reason[:_MAX_REASON]}"
        raise ProviderError(text.rstrip(), kind=kind)
    if not connection.end_exchange():
        raise ProviderError("Connection error: the proxy broke the tunnel", kind="network")
