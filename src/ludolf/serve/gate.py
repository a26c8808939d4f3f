"""One TCP connection of the HTTP server, below HTTP itself: its limits, and its WebSocket.

The HTTP library sees a connection through its gate. The gate limits a connection that has not
shown the token in number, bytes and time, closes one that reads nothing, and takes the bytes over
when a request has become a WebSocket.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol, cast

import msgspec

from ludolf.serve.connection import NORMAL, STUCK, UNAUTHORIZED
from ludolf.serve.websocket import (
    BrokenSocket,
    SocketInput,
    SocketReader,
    close_frame,
    text_frame,
)

_MOST_WAITING = 1 << 18
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\n"
    b"Connection: close\r\nContent-Length: 0\r\nRetry-After: 5\r\n\r\n"
)


class GateLimits(msgspec.Struct, frozen=True):
    """Limits of connections that have not shown the token, and of those that read nothing.

    `head_bytes` limits the head of a request, `first_bytes` what a WebSocket sends before `hello`
    was accepted. `linger_seconds`: so long the server waits for the client to close as well.
    """

    connections: int = 16
    seconds: float = 5.0
    head_bytes: int = 16 << 10
    first_bytes: int = 4 << 10
    stuck_seconds: float = 300.0
    linger_seconds: float = 1.0


class LostPeer(Protocol):
    """What has to know that the client is gone."""

    def lost(self) -> None:
        """The client is gone."""


class GateKeeper:
    """All connections of one server; calling it makes the gate of a new one."""

    def __init__(self, make_http: Callable[[], asyncio.Protocol], limits: GateLimits) -> None:
        self.limits = limits
        self.gates: set[Gate] = set()
        self.strangers: set[Gate] = set()
        self._make_http = make_http

    def __call__(self) -> "Gate":
        return Gate(self, self._make_http)

    async def close(self) -> None:
        """Abort the connections that are still open, and wait for their end."""
        for gate in tuple(self.gates):
            gate.abort()
            await gate.ended.wait()


class Gate(asyncio.Protocol):
    """One connection; `peer` is informed when the client is gone."""

    def __init__(self, keeper: GateKeeper, make_http: Callable[[], asyncio.Protocol]) -> None:
        self.peer: LostPeer | None = None
        self.ended = asyncio.Event()
        self.is_paused = False
        self._keeper = keeper
        self._make_http = make_http
        self._http: asyncio.Protocol | None = None
        self._socket: SocketReader | None = None
        self._received = 0
        self._most = keeper.limits.head_bytes
        self._unsent = 0
        self._is_closing = False
        self._input = bytearray()
        self._wake = asyncio.Event()
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._expiry: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None
        self._linger: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ the connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        keeper = self._keeper
        keeper.gates.add(self)
        if len(keeper.strangers) >= keeper.limits.connections:
            self._transport.write(_FULL)
            self._transport.close()
            return
        keeper.strangers.add(self)
        self._expiry = self._later(keeper.limits.seconds, self.refuse)
        self._http = self._make_http()
        self._http.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self in self._keeper.strangers:
            self._received += len(data)
            if self._received > self._most and not self._is_closing:
                self.refuse()
        if self._socket is None:
            if self._http is not None and not self._transport.is_closing():
                self._http.data_received(data)
        elif self._is_closing:
            self._await_close(data)
        else:
            self._input += data
            self._wake.set()
            if len(self._input) > _MOST_WAITING:
                self._transport.pause_reading()

    def eof_received(self) -> bool | None:
        """A client that sends no more is gone, as far as HTTP and WebSocket are concerned."""
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._keeper.gates.discard(self)
        self._keeper.strangers.discard(self)
        for timer in (self._expiry, self._stuck, self._linger):
            if timer is not None:
                timer.cancel()
        if self._http is not None:
            self._http.connection_lost(exc)
        if self.peer is not None:
            self.peer.lost()
        self._is_closing = True
        self._input.clear()
        self._wake.set()
        self._can_write.set()
        self.ended.set()

    def trust(self) -> None:
        """The client has shown the token: the limits of strangers do not apply any more."""
        self._keeper.strangers.discard(self)
        if self._expiry is not None:
            self._expiry.cancel()

    def refuse(self) -> None:
        """Close the connection of a stranger."""
        if self._socket is None:
            self.abort()
        else:
            self.close_socket(UNAUTHORIZED)

    def abort(self) -> None:
        self._transport.abort()

    def _later(self, seconds: float, act: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, act)

    # ------------------------------------------------------------ writing

    def pause_writing(self) -> None:
        self.is_paused = True
        self._can_write.clear()
        if self._http is not None:
            self._http.pause_writing()
        self._watch()

    def resume_writing(self) -> None:
        self.is_paused = False
        self._can_write.set()
        if self._http is not None:
            self._http.resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()

    def _watch(self) -> None:
        self._unsent = self._transport.get_write_buffer_size()
        self._stuck = self._later(self._keeper.limits.stuck_seconds, self._check_progress)

    def _check_progress(self) -> None:
        """Close the connection if the client has taken nothing since the last look."""
        if self._transport.get_write_buffer_size() < self._unsent:
            self._watch()
        elif self._socket is None:
            self.abort()
        else:
            self.close_socket(STUCK)

    # ------------------------------------------------------------ WebSocket

    def begin_socket(self, longest: int) -> None:
        """Read frames of a WebSocket from now on; the answer to its request has been written."""
        self._socket = SocketReader(longest)
        self._received = 0
        self._most = self._keeper.limits.first_bytes

    async def read_socket(self) -> SocketInput | None:
        """Return what the client has sent; None if the connection is closed or about to be.

        Raises:
            BrokenSocket: the client does not keep to the protocol.
        """
        assert self._socket is not None
        await self._wake.wait()
        if self._is_closing:
            return None
        data = bytes(self._input)
        self._input.clear()
        self._wake.clear()
        self._transport.resume_reading()
        found = self._socket.feed(data)
        if not self.is_paused:  # a client that reads nothing gets no answers to its pings
            self.write(bytes(found.answers))
        return found

    async def write_socket(self, lines: bytes) -> None:
        """Send a text message, and wait until the client has taken enough of it."""
        self.write(text_frame(lines))
        await self._can_write.wait()

    def write(self, data: bytes) -> None:
        if data and not self._is_closing:
            self._transport.write(data)

    def close_socket(self, code: int) -> None:
        """Send a closing frame; what the client still sends is read and dropped."""
        if self._is_closing:
            return
        self.write(close_frame(code))
        self._is_closing = True
        self._wake.set()
        self._can_write.set()
        self._linger = self._later(self._keeper.limits.linger_seconds, self.abort)
        self._transport.resume_reading()
        unread = bytes(self._input)
        self._input.clear()
        self._await_close(unread)

    def end_socket(self) -> None:
        """Answer the closing frame of the client, and close."""
        self.close_socket(NORMAL)
        self._transport.close()

    def _await_close(self, data: bytes) -> None:
        assert self._socket is not None
        # Bytes that cannot be understood are dropped until the time is over: to close while the
        # client is still sending would reset the connection before it has read the code.
        with contextlib.suppress(BrokenSocket):
            if self._socket.feed(data).close_code is not None:
                self._transport.close()
