"""Relays in front of a server that cut connections abruptly at random places."""

import asyncio
import random
from contextlib import suppress
from pathlib import Path
from typing import Self


class CuttingRelay:
    """Each connection moves a random number of bytes, from the range `life`, then it is cut.

    `cuts` counts them. After `most` cuts, connections live until `close`.
    """

    def __init__(self, path: Path, target: Path, *, seed: int, life: tuple[int, int]) -> None:
        self.path = path
        self._target = target
        self._random = random.Random(seed)
        self._life = life
        self.most = 0
        self.cuts = 0
        self.is_down = False
        self._transports: set[asyncio.WriteTransport] = set()
        self._handlers: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._handlers)

    def cut(self) -> None:
        """Cut all connections now."""
        for transport in tuple(self._transports):
            transport.abort()
        self._transports.clear()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_unix_server(self._connected, self.path)

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self._target)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        task.add_done_callback(self._handlers.discard)
        self._transports.add(writer.transport)
        if self.is_down:
            writer.transport.abort()
            return
        try:
            there, back = await self._dial()
        except OSError:
            writer.transport.abort()
            return
        self._transports.add(back.transport)
        left = [self._random.randint(*self._life) if self.cuts < self.most else 1 << 60]
        with suppress(OSError, EOFError):
            await asyncio.gather(self._move(reader, back, left), self._move(there, writer, left))
        writer.transport.abort()
        back.transport.abort()

    async def _move(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: list[int]
    ) -> None:
        while data := await reader.read(1 << 16):
            piece = data[: left[0]]
            left[0] -= len(piece)
            writer.write(piece)
            await writer.drain()
            if not left[0]:
                self.cuts += 1
                raise EOFError
        raise EOFError


class TcpRelay(CuttingRelay):
    """The same in front of a port of this machine; `port` is its own."""

    def __init__(self, target: int, *, seed: int, life: tuple[int, int]) -> None:
        super().__init__(Path(), Path(), seed=seed, life=life)
        self._target_port = target
        self.port = 0

    async def _listen(self) -> asyncio.Server:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self._target_port)
