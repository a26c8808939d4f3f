"""A client, over all of its connections: its name, its replies, its attachments."""

import asyncio
from collections import OrderedDict
from typing import TYPE_CHECKING

import msgspec

from ludolf.base import dumps
from ludolf.protocol.framing import Head
from ludolf.protocol.server import Hello
from ludolf.serve.attachment import SHARED_DIALECT, Attachment

if TYPE_CHECKING:
    from ludolf.serve.connection import ClientConnection

KEPT_REPLIES = 256
KEPT_BYTES = 1 << 20
KEPT_SECONDS = 600.0
GONE = "The reply to this command is not kept any more. Read the state to see its effect."


class _Kept(msgspec.Struct):
    """A reply that was made at a time of the loop; too long a frame is not kept."""

    command: str
    frame: bytes | None
    made: float


class Seat:
    """`client` is the name that the client chose; it stays when the client reconnects."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.name: str | None = None
        self.dialect = SHARED_DIALECT
        self.bare = False
        self.last_entries = 100
        self.connection: ClientConnection | None = None
        self.attachments: dict[str, Attachment] = {}
        self.left_at = 0.0
        # Ids of commands without a reply, and the last replies by the id of the command.
        self._pending: set[bytes] = set()
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._kept_bytes = 0

    @property
    def is_connected(self) -> bool:
        return self.connection is not None

    @property
    def is_forgettable(self) -> bool:
        """Return whether the client has been away for so long that its replies are dropped."""
        away = asyncio.get_running_loop().time() - self.left_at
        return not self.is_connected and not self._pending and away > KEPT_SECONDS

    def take(self, connection: "ClientConnection", hello: Hello) -> None:
        """Use a new connection from now on."""
        self.connection = connection
        self.name = hello.name
        self.dialect, self.bare = hello.dialect, hello.bare

    def leave(self) -> tuple[Attachment, ...]:
        """Note that the connection is gone; returns the attachments that end with it."""
        self.connection = None
        self.left_at = asyncio.get_running_loop().time()
        ended = tuple(self.attachments.values())
        self.attachments = {}
        return ended

    def move(self, origin: str, attachment: Attachment) -> None:
        """The session of an attachment has another id from now on."""
        self.attachments.pop(origin, None)
        self.attachments[attachment.slot.id] = attachment
        if self.connection is not None and self.connection.current == origin:
            self.connection.current = attachment.slot.id

    def wake(self) -> None:
        """Let the connection send what is due."""
        if self.connection is not None:
            self.connection.wake()

    # ------------------------------------------------------------ at most once

    def begin(self, head: Head) -> bytes | None:
        """Note a command. One whose id was used before must not be done again.

        Returns None for a new command, the reply if it was made, and empty bytes if the reply
        follows when it is made.
        """
        key = bytes(head.id)
        if not key or self.bare:
            return None
        if key in self._pending:
            return b""
        self._forget_old()
        kept = self._kept.get(key)
        if kept is None:
            self._pending.add(key)
            return None
        if kept.frame is None:
            text = b'{"id":%b,"type":"response","command":%b,"success":false,"error":%b'
            return text % (key, dumps(kept.command), dumps(GONE)) + b',"repeated":true}\n'
        return kept.frame[: kept.frame.rindex(b"}")] + b',"repeated":true}\n'

    def keep(self, head: Head, frame: bytes) -> None:
        """Keep the reply to a command for a client that asks again."""
        key = bytes(head.id)
        if key not in self._pending:
            return
        self._pending.discard(key)
        fits = len(frame) <= KEPT_BYTES
        now = asyncio.get_running_loop().time()
        self._kept[key] = _Kept(head.type, frame if fits else None, now)
        self._kept_bytes += len(frame) if fits else 0
        while len(self._kept) > KEPT_REPLIES or self._kept_bytes > KEPT_BYTES:
            self._drop(next(iter(self._kept)))

    def _forget_old(self) -> None:
        oldest = asyncio.get_running_loop().time() - KEPT_SECONDS
        while self._kept and self._kept[next(iter(self._kept))].made < oldest:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: bytes) -> None:
        self._kept_bytes -= len(self._kept.pop(key).frame or b"")
