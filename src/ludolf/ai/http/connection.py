"""One connection to a server or proxy, with one exchange at a time."""

import asyncio
import select
from collections.abc import Callable
from typing import TYPE_CHECKING

from ludolf.ai.http.response import IncomingResponse

if TYPE_CHECKING:
    from ssl import SSLContext

# Requests up to this size are one write; larger bodies are not copied.
_ONE_WRITE = 64 << 10


class HttpConnection(asyncio.BufferedProtocol):
    """A connection that reads into `buffer`, which all connections of a loop may use.

    `forget` is called when it is closed.
    """

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self.forget: Callable[[HttpConnection], None] | None = None
        self._transport: asyncio.Transport | None = None
        self._response: IncomingResponse | None = None
        self._is_closed = False
        self.idle_since = 0.0

    # ------------------------------------------------------------ called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._response is None:
            self.abort()  # a response that nothing asked for
        else:
            self._response.feed(self._buffer[:nbytes])

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closed = True
        if self._response is not None:
            self._response.cut(exc)
        if self.forget is not None:
            self.forget(self)

    # ------------------------------------------------------------ for the pool

    @property
    def is_usable(self) -> bool:
        """Return whether a request can be sent: the server has neither closed nor spoken."""
        if self._is_closed or self._transport is None or self._transport.is_closing():
            return False
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    def ask(self, method: str, head: bytes, body: bytes) -> IncomingResponse:
        """Send a request; the response comes later."""
        assert self._transport is not None
        response = self._response = IncomingResponse(self, method)
        if self._is_closed:
            response.cut(None)
        elif len(body) <= _ONE_WRITE:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._transport.write(body)
        return response

    def end_exchange(self) -> bool:
        """Forget the response; return whether another request can be sent."""
        response, self._response = self._response, None
        if response is None or self._transport is None:
            return False
        response.close()
        is_sent = not self._transport.get_write_buffer_size()
        return is_sent and response.is_complete and response.keeps_alive and not self._is_closed

    async def encrypt(self, context: "SSLContext", host: str) -> None:
        """Continue with TLS, also inside TLS.

        Raises:
            OSError: the certificate is not valid for this host, or the handshake failed.
        """
        assert self._transport is not None
        self._transport = await asyncio.get_running_loop().start_tls(
            self._transport, self, context, server_hostname=host.rstrip(".")
        )
        if self._transport is None:
            raise ConnectionResetError("the connection was closed in the TLS handshake")

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # ------------------------------------------------------------ for the response

    def pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
