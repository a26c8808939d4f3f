"""Connect to a server by its address and move bytes; one pipe for each kind of address."""

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from ludolf.base import LudolfError
from ludolf.base.addresses import Address

if TYPE_CHECKING:
    from aiohttp import ClientSession, ClientWebSocketResponse

_READ = 1 << 18
CONNECT_SECONDS = 10.0
# How long unsent bytes wait for a server that does not read.
CLOSE_SECONDS = 2.0
_UNAUTHORIZED = (401, 403)


class ConnectError(LudolfError):
    """The server cannot be reached; `refused`: it answered, and admits this client not."""

    def __init__(self, text: str, *, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


class BytePipe(Protocol):
    """Bytes to and from a server. `close_code` is that of a WebSocket once it has ended, else 0.

    `half_closes`: after `end` the server still answers what it has read, then it closes.
    """

    @property
    def close_code(self) -> int: ...
    @property
    def half_closes(self) -> bool: ...

    async def read(self) -> bytes:
        """The next bytes; b"" at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send whole lines. Raises `ConnectionError` if the server reads no more."""
        ...

    def end(self) -> None:
        """Write nothing more."""
        ...

    async def close(self) -> None: ...


async def open_pipe(address: Address, ca: str | None = None) -> BytePipe:
    """Connect. `ca` is a file of certificate authorities, in place of those of the system.

    Raises:
        ConnectError: no server is there, or it admits no such client.
    """
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            if address.kind == "unix":
                return _StreamPipe(*await asyncio.open_unix_connection(address.place))
            if address.kind == "fd":
                given = socket.socket(fileno=int(address.place))
                return _StreamPipe(*await asyncio.open_unix_connection(sock=given))
            return await _open_web(address, ca)
    except TimeoutError:
        raise _unreachable(address, f"no answer within {CONNECT_SECONDS:g} s") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unreachable(address, reason) from error


def _unreachable(address: Address, reason: str) -> ConnectError:
    advice = f"--socket {address.place}" if address.kind == "unix" else "--http PORT"
    return ConnectError(
        f"No server answers at {address}: {reason}. Start one with `ludolf serve {advice}`."
    )


class _StreamPipe:
    """A Unix socket."""

    half_closes = True
    close_code = 0

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(_READ)
        except ConnectionError:
            return b""

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def end(self) -> None:
        with suppress(OSError):
            self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()
        with suppress(OSError):  # a timeout too
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._writer.wait_closed()
        self._writer.transport.abort()


async def _open_web(address: Address, ca: str | None) -> BytePipe:
    import ssl

    from aiohttp import (
        ClientConnectorCertificateError,
        ClientError,
        ClientSession,
        ClientWSTimeout,
        WSServerHandshakeError,
    )

    tls = ssl.create_default_context(cafile=ca) if address.kind == "wss" else True
    session = ClientSession(trust_env=not address.is_loopback)
    try:
        socket = await session.ws_connect(
            address.place, ssl=tls, max_msg_size=0, timeout=ClientWSTimeout(ws_close=2.0)
        )
    except WSServerHandshakeError as error:
        await session.close()
        if error.status in _UNAUTHORIZED:
            text = f"The server at {address} refused the connection: HTTP {error.status}."
            raise ConnectError(text, refused=True) from error
        raise _unreachable(address, f"HTTP {error.status}") from error
    except ClientConnectorCertificateError as error:
        await session.close()
        reason = getattr(error.certificate_error, "verify_message", str(error.certificate_error))
        advice = "Pass the file of its authority as `ca`, or in SSL_CERT_FILE."
        text = f"The certificate of {address} is not trusted: {reason}. {advice}"
        raise ConnectError(text) from error
    except ClientError as error:
        await session.close()
        raise _unreachable(address, str(error)) from error
    except BaseException:
        await session.close()
        raise
    return _WebPipe(session, socket)


class _WebPipe:
    """A WebSocket; each text message holds whole lines."""

    half_closes = False

    def __init__(self, session: "ClientSession", socket: "ClientWebSocketResponse") -> None:
        self._session = session
        self._socket = socket

    @property
    def close_code(self) -> int:
        return self._socket.close_code or 0

    async def read(self) -> bytes:
        from aiohttp import WSMsgType

        while True:
            message = await self._socket.receive()
            if message.type is WSMsgType.TEXT:
                return str(message.data).encode()
            if message.type is not WSMsgType.BINARY:
                return b""

    async def write(self, data: bytes) -> None:
        await self._socket.send_str(data.decode("utf-8", "replace"))

    def end(self) -> None:
        """A WebSocket has one end for both directions."""

    async def close(self) -> None:
        await self._socket.close()
        await self._session.close()
