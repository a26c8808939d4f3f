"""Doors for lines: a Unix socket that only this user can open, and stdin with stdout."""

import asyncio
import contextlib
import fcntl
import os
import select
import socket
import stat
import struct
from pathlib import Path

from ludolf.agent.scope import Tasks
from ludolf.base import CommandError, ConfigError
from ludolf.protocol.framing import Head, render_reply
from ludolf.rpc.desk import refusal
from ludolf.rpc.line_reader import LineSplitter
from ludolf.rpc.stdio import Stdio
from ludolf.serve.connection import STUCK, ServedConnection
from ludolf.serve.seat import joined
from ludolf.serve.server import SessionServer

_READ = 256 << 10
_HIGH_WATER = 64 << 10
_LAST_SECONDS = 1.0
_PEER = struct.Struct("3i")


class UnixDoor:
    """Listens on a socket. A lock in a file next to it keeps a second server away."""

    def __init__(self, server: SessionServer, path: Path, *, keeps_lock: bool = True) -> None:
        self._server = server
        self.path = path
        # The file of the lock stays, unless no other server uses this path.
        self._keeps_lock = keeps_lock
        self._lock = -1
        self._listener: asyncio.Server | None = None
        self._tasks = Tasks()

    async def open(self) -> None:
        """Raises:
        ConfigError: another server listens there, or the socket cannot be made.
        """
        try:
            self._take_path()
            listener = _bound(self.path)
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"Cannot listen on {self.path}: {reason}") from error
        self._listener = await asyncio.start_unix_server(self._meet, sock=listener, limit=_READ)

    def _take_path(self) -> None:
        folder = self.path.parent
        if not folder.exists():
            folder.mkdir(parents=True, mode=0o700)
        self._lock = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            text = f"Another server listens on {self.path}. Use it, or choose another --socket."
            raise ConfigError(text) from None
        if self.path.exists() and not stat.S_ISSOCK(self.path.lstat().st_mode):
            os.close(self._lock)
            raise ConfigError(f"{self.path} is not a socket. Choose another path with --socket.")
        self.path.unlink(missing_ok=True)  # of a server that was killed

    async def close(self) -> None:
        """Stop listening and remove the socket; open connections end after their last frames."""
        if self._listener is None:
            return
        self._listener.close()
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                await self._tasks.ended()
        await self._tasks.close()
        if not self._keeps_lock:
            self.path.with_name(f"{self.path.name}.lock").unlink(missing_ok=True)
        os.close(self._lock)

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.start(self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(high=_HIGH_WATER)
        try:
            if _is_own(writer):
                await self._talk(reader, writer)
        finally:
            await _closed(writer)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            connection = self._server.connect(remote=False, trusted=True)
        except CommandError as error:
            writer.write(joined(render_reply(refusal(Head("connect"), error))))
            return
        await serve_stream(connection, reader, writer, self._server.limits.stuck_seconds)


async def serve_stream(
    connection: ServedConnection,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    stuck_seconds: float,
) -> None:
    """Move lines between a connection and a socket until one of them ends; closes the socket."""
    tasks = Tasks()
    tasks.start(_hear(connection, reader, writer))
    try:
        await _speak(connection, writer, stuck_seconds)
    except OSError:
        pass  # the client has closed its end
    finally:
        connection.lost()
        await tasks.close()
        await _closed(writer)


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def _speak(
    connection: ServedConnection, writer: asyncio.StreamWriter, stuck_seconds: float
) -> None:
    while data := await connection.outgoing():
        if writer.transport.is_closing():
            return  # the client has closed its end
        writer.write(data)
        if not writer.transport.get_write_buffer_size():
            continue  # all of it has been sent
        try:
            async with asyncio.timeout(stuck_seconds):
                await writer.drain()
        except TimeoutError:
            connection.end(STUCK)
            writer.transport.abort()
            return


async def _hear(
    connection: ServedConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    lines = LineSplitter()
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_READ):
            connection.feed(lines.add(chunk))
            await connection.readable()
    connection.feed(lines.end())
    await connection.hang_up(is_gone=_is_closed(writer))


async def serve_stdio(server: SessionServer, stdio: Stdio) -> None:
    """Serve one client on stdin and stdout; the end of input ends it."""
    connection = server.connect(remote=False, trusted=True)
    ended = asyncio.Event()
    stdio.lines(connection.feed, ended.set)
    tasks = Tasks()

    async def hear() -> None:
        await ended.wait()
        await connection.hang_up()

    tasks.start(hear())
    try:
        while data := await connection.outgoing():
            stdio.send(data)
            await stdio.room()
    finally:
        await tasks.close()


def _bound(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError:
        listener.close()
        raise
    finally:
        os.umask(mask)
    return listener


def _is_closed(writer: asyncio.StreamWriter) -> bool:
    """Return whether the peer has closed the socket; it may also have only ended its output."""
    descriptor = writer.get_extra_info("socket").fileno()
    if descriptor < 0:
        return True  # it is closed on this side, too
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))


def _is_own(writer: asyncio.StreamWriter) -> bool:
    """Return whether the peer is a process of this user, or of the administrator."""
    peer = writer.get_extra_info("socket")
    if peer is None or not hasattr(socket, "SO_PEERCRED"):
        return True  # the mode of the socket is the only check that this system has
    data = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    _, user, _ = _PEER.unpack(data)
    return user in (os.geteuid(), 0)
