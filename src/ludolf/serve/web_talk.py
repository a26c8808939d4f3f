"""Conversations over HTTP with a connection of the server, apart from HTTP itself."""

import asyncio

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base import dumps
from ludolf.serve.connection import ServedConnection
from ludolf.serve.gate import Gate
from ludolf.serve.websocket import BrokenSocket, ping_frame


class WireReply(msgspec.Struct):
    """A reply, as far as a door looks into it; other frames have another type."""

    type: str = ""
    success: bool = False
    code: str | None = None
    data: msgspec.Raw = msgspec.Raw()


_replies = msgspec.json.Decoder(WireReply)


async def talk(gate: Gate, connection: ServedConnection, ping_seconds: float) -> None:
    """Move lines between a WebSocket and a connection until one of them ends."""
    tasks = Tasks()
    tasks.start(_send(gate, connection))
    tasks.start(_ping(gate, ping_seconds))
    try:
        await _receive(gate, connection)
        connection.lost()
        await gate.ended.wait()
    finally:
        await tasks.close()


async def _receive(gate: Gate, connection: ServedConnection) -> None:
    try:
        while (found := await gate.read_socket()) is not None:
            connection.alive()
            connection.feed(found.lines)
            if connection.trusted:
                gate.trust()
            if found.close_code is not None:
                gate.end_socket()
                return
            await connection.readable()
    except BrokenSocket as error:
        gate.close_socket(error.code)


async def _send(gate: Gate, connection: ServedConnection) -> None:
    while lines := await connection.outgoing():
        if connection.trusted:
            gate.trust()
        await gate.write_socket(lines)
    gate.close_socket(connection.close_code)


async def _ping(gate: Gate, seconds: float) -> None:
    """The client answers a ping by itself, which shows that it is there."""
    while True:
        await asyncio.sleep(seconds)
        if not gate.is_paused:
            gate.write(ping_frame())


class ReplyReader:
    """Find replies among the frames that a connection sends."""

    def __init__(self, connection: ServedConnection) -> None:
        self._connection = connection
        self.unread: list[bytes] = []

    async def next(self) -> tuple[bytes, WireReply] | None:
        """Return the next reply; None if the connection ended without one."""
        while True:
            while self.unread:
                line = self.unread.pop(0)
                reply = _replies.decode(line)
                if reply.type == "response":
                    return line, reply
            if not (data := await self._connection.outgoing()):
                return None
            self.unread = data.removesuffix(b"\n").split(b"\n")


async def ask_once(
    connection: ServedConnection, frame: bytes, client: str | None
) -> tuple[bytes, WireReply] | None:
    """Send one command, as the named client, and return its reply; None if it ends before."""
    replies = ReplyReader(connection)
    if client is not None:
        connection.feed([dumps({"type": "hello", "client": client})])
        welcome = await replies.next()
        if welcome is None or not welcome[1].success:
            return welcome
    connection.feed([frame])
    return await replies.next()
