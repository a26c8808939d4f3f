"""Sources of lines: a child process, or a connection to a server."""

from collections import deque
from typing import TYPE_CHECKING, Protocol

from ludolf.base.addresses import Address
from ludolf.base.byte_pipes import BytePipe, ConnectError, open_pipe
from ludolf.client.errors import NotAdmitted, ServerClosed, ServerUnreachable


class LineSource(Protocol):
    """The other side of a client."""

    async def write(self, data: bytes) -> None:
        """Send bytes as they are; waits while the other side does not read.

        Raises:
            ClientError: it reads no more.
        """
        ...

    async def read_line(self) -> bytes | None:
        """The next line without its LF, or None at the end; half a line there is dropped."""
        ...


class LineBuffer:
    """Cuts chunks of bytes into lines."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._rest: list[bytes] = []

    def __bool__(self) -> bool:
        return bool(self._lines)

    def add(self, chunk: bytes) -> None:
        *whole, rest = chunk.split(b"\n")
        if whole:
            whole[0] = b"".join((*self._rest, whole[0]))
            self._rest.clear()
            self._lines.extend(whole)
        self._rest.append(rest)

    def take(self) -> bytes:
        return self._lines.popleft()


class Socket:
    """Lines to and from a server. `close_code` is that of a WebSocket once it has ended, else 0."""

    def __init__(self, pipe: BytePipe) -> None:
        self._pipe = pipe
        self._lines = LineBuffer()

    @classmethod
    async def connect(cls, address: Address, ca: str | None = None) -> "Socket":
        """Raises:
        ServerUnreachable: no server answers.
        NotAdmitted: the server admits no such client.
        """
        try:
            return cls(await open_pipe(address, ca))
        except ConnectError as error:
            raise (NotAdmitted if error.refused else ServerUnreachable)(str(error)) from error

    @property
    def close_code(self) -> int:
        return self._pipe.close_code

    async def write(self, data: bytes) -> None:
        try:
            await self._pipe.write(data)
        except ConnectionError as error:
            raise ServerClosed(f"The server closed the connection: {error}") from error

    async def read_line(self) -> bytes | None:
        while not self._lines:
            chunk = await self._pipe.read()
            if not chunk:
                return None
            self._lines.add(chunk)
        return self._lines.take()

    async def close(self) -> None:
        await self._pipe.close()


if TYPE_CHECKING:
    from ludolf.client.process import Process

    _sources: tuple[type[LineSource], ...] = (Process, Socket)
