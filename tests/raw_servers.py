"""Servers and proxies on loopback that send exactly the bytes of a test."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from ludolf.ai.access import Patience
from ludolf.ai.http.transport import HttpRequest, Transport

PATIENCE = Patience(connect=30.0, first=30.0, between=30.0)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RawServer:
    """A server that runs `serve` for each connection; `heads` are the requests without bodies."""

    def __init__(self, serve: Serve | None, tls: ssl.SSLContext | None = None) -> None:
        self.heads: list[bytes] = []
        self.connections = 0
        self.ended = asyncio.Event()
        self._serve = serve
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def request(self, reader: asyncio.StreamReader) -> bytes:
        """Read a request; return its body."""
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        lines = head.lower().split(b"\r\n")
        length = next((line for line in lines if line.startswith(b"content-length:")), b":0")
        return await reader.readexactly(int(length.partition(b":")[2]))

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                if self._serve is not None:
                    await self._serve(reader, writer)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        finally:
            self.ended.set()
            writer.transport.abort()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)


@asynccontextmanager
async def raw_server(
    *answers: bytes,
    serve: Serve | None = None,
    tls: ssl.SSLContext | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[RawServer]:
    """A server that answers the requests of each connection in turn, and then closes it."""
    server = RawServer(serve, tls)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for text in answers:
            await server.request(reader)
            writer.write(text)
            await writer.drain()

    if serve is None:
        server._serve = answer
    listening = await asyncio.start_server(server.accept, host, 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()
        await server.close()


@asynccontextmanager
async def proxy_server(target: int, tls: ssl.SSLContext | None = None) -> AsyncIterator[RawServer]:
    """A proxy whose tunnels all end at one port of this machine."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        there, back = await asyncio.open_connection("127.0.0.1", target)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_copy(reader, back))
                group.create_task(_copy(there, writer))
        finally:
            back.transport.abort()

    async with raw_server(serve=serve, tls=tls) as server:
        yield server


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    target.close()


def server_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


async def fetched(
    transport: Transport, url: str, *, method: str = "POST", patience: Patience = PATIENCE
) -> tuple[int, bytes]:
    """Send a request; return status and body."""
    body = b"{}" if method == "POST" else b""
    sent = HttpRequest(method=method, url=url, headers={}, body=body, patience=patience)
    async with asyncio.timeout(30), transport.exchange(sent) as raw:
        pieces = []
        while piece := await raw.content.readany():
            pieces.append(piece)
        return raw.status, b"".join(pieces)
