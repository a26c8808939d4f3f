"""One client on one session: its position in the log, its replies, its commands."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ludolf.base import dumps
from ludolf.engine.hub import Hub, Sink
from ludolf.protocol.dialects import make_dialect
from ludolf.protocol.events import Event
from ludolf.protocol.framing import Frame, Head
from ludolf.protocol.server import ClientRole
from ludolf.protocol.ui import UiRequest
from ludolf.rpc.connection import HostConnection
from ludolf.rpc.desk import Desk
from ludolf.rpc.server import server_info

if TYPE_CHECKING:
    from ludolf.serve.seat import Seat
    from ludolf.serve.slot import Slot

# The dialect of the log, which all clients share that do not ask for another one.
SHARED_DIALECT = "pi-delta"
# Bytes that a client may be behind before a run that waits for it pauses.
_WAIT_BYTES = 1 << 20


def _do_nothing() -> None:
    """Stop nothing: the client reads the log."""


def joined(frame: Frame) -> bytes:
    """Return a frame in one piece."""
    return frame if isinstance(frame, bytes) else b"".join(frame)


class SessionHead(Head, frozen=True):
    """The head of a command; `named` is the session that it named, which the reply repeats."""

    named: str | None = None


class Attachment(Sink):
    """`listens`: the client gets the events of the session; else it has only sent a command.

    Frames for this client alone stand in `_private`, each with the number of the frame of the log
    that it follows. As a sink it renders events for a client with a dialect of its own.
    """

    def __init__(self, seat: "Seat", slot: "Slot", role: ClientRole, *, listens: bool) -> None:
        self.seat = seat
        self.slot = slot
        self.role = role
        self.listens = listens
        self.cursor = slot.log.last
        self.waits = False
        self.unsent = 0
        self._private: deque[tuple[int, bytes]] = deque()
        self._drained = asyncio.Event()
        self._must_resync = False
        self.connection = HostConnection(make_dialect(seat.dialect))
        # A client that reads the log as it is needs nothing rendered.
        self.reads_log = seat.dialect == SHARED_DIALECT and not seat.bare
        self._stop_listening: Callable[[], None] = _do_nothing
        self.desk = Desk(
            slot.engine, slot.host_of(seat.client), self.connection, slot.pacing, self._reply
        )

    # ------------------------------------------------------------ commands

    def _reply(self, frame: Frame, head: Head) -> None:
        """Keep a reply and send it; without a connection the client asks for it again."""
        whole = joined(frame)
        if isinstance(head, SessionHead) and head.named:
            whole = b'{"session":%b,%b' % (dumps(head.named), whole[1:])
        self.seat.keep(head, whole)
        connection = self.seat.connection
        if connection is not None:
            connection.answered(head)
            if self.seat.attachments.get(self.slot.id) is self:
                self.send(whole)
            else:
                connection.send(whole)

    # ------------------------------------------------------------ frames for this client

    def send(self, frame: bytes) -> None:
        """Send a frame to this client alone, after all frames of the log so far."""
        self._send_after(self.slot.log.last, frame)

    def send_first(self, frame: bytes) -> None:
        """Send a frame before all frames of the log that the client has not been sent."""
        self._send_after(self.cursor, frame)

    def _send_after(self, number: int, frame: bytes) -> None:
        self._private.append((number, frame))
        self.unsent += len(frame)
        self.seat.wake()

    def send_event(self, event: msgspec.Struct, session: str | None = None) -> None:
        """Send an event without a number, unless the client wants no frames of the server."""
        if not self.seat.bare:
            self.send(b'{"session":%b,%b\n' % (dumps(session or self.slot.id), dumps(event)[1:]))

    def start_over(self) -> None:
        """Send a snapshot before anything else: the log is another one."""
        self.cursor = 0
        self._private = deque((0, frame) for _, frame in self._private)
        self._must_resync = self.reads_log

    @property
    def behind(self) -> int:
        return self.slot.log.last - self.cursor if self.reads_log else len(self._private)

    @property
    def is_due(self) -> bool:
        """Return whether there is something to send."""
        if self._private or self._must_resync:
            return True
        return self.listens and self.reads_log and self.cursor < self.slot.log.last

    def pull(self, room: int) -> list[bytes]:
        """Take the next frames to send, in order, up to about `room` bytes."""
        if self.listens and self.reads_log:
            found = self._pull_log(room)
        else:
            found = [self._take_private() for _ in range(len(self._private))]
        if not self.is_due:
            self._drained.set()
        return found

    def _pull_log(self, room: int) -> list[bytes]:
        log = self.slot.log
        if self._must_resync or not log.has_all_after(self.cursor):
            return self._resync()
        found: list[bytes] = []
        while room > 0 and self.is_due:
            while self._private and self._private[0][0] <= self.cursor:
                found.append(self._take_private())
            until = self._private[0][0] if self._private else log.last
            frames = log.read(self.cursor, until, room)
            self.cursor += len(frames)
            room -= sum(map(len, frames))
            found += map(self._arranged, frames) if self.connection.is_arranging else frames
        return found

    def _take_private(self) -> bytes:
        _, frame = self._private.popleft()
        self.unsent -= len(frame)
        return frame

    def _resync(self) -> list[bytes]:
        """Send the replies that wait, then a snapshot in the place of the frames that are gone."""
        found = [self._take_private() for _ in range(len(self._private))]
        self._must_resync = False
        self.cursor = self.slot.log.last
        snapshot = self.slot.snapshot(self.role, None, self.seat.last_entries)
        self.slot.figures.resyncs += 1
        prefix = b'{"session":%b,"type":"resync","data":' % dumps(self.slot.id)
        return [*found, prefix, *snapshot, b"}\n"]

    def _arranged(self, frame: bytes) -> bytes:
        """Apply the filter and the limits that the client asked for."""
        plain = self.slot.log.plain(frame)
        prefix = frame[: len(frame) - len(plain) + 1]
        arranged = self.connection.arrange(plain)
        if arranged is None:
            return b""
        lines = joined(arranged).splitlines(keepends=True)
        return b"".join(prefix + line[1:] for line in lines)

    # ------------------------------------------------------------ as a sink

    def listen(self, hub: Hub) -> None:
        """Receive events directly, if they are rendered for this client or the run waits for it."""
        if not self.reads_log or self.waits:
            self._stop_listening = hub.attach(self)

    def take(self, event: Event) -> None:
        if not self.reads_log:
            self.send_rendered(event)

    def send_rendered(self, event: Event) -> None:
        """Send an event to this client alone, in its dialect."""
        self._send_rendered(self.connection.event(event))

    def show(self, request: UiRequest) -> None:
        """Show a request for the user in the dialect of this client."""
        if self.listens and not self.reads_log and request.by != self.seat.client:
            self._send_rendered(self.connection.ui(request))

    def greet(self) -> None:
        """Send the first frame of the client's dialect."""
        info = server_info(self.slot.engine, self.connection.traits)
        self._send_rendered(self.connection.greeting(info))

    def _send_rendered(self, frame: Frame | None) -> None:
        if frame is None:
            return
        whole = joined(frame)
        if not self.seat.bare:
            prefix = b'{"session":%b,' % dumps(self.slot.id)
            whole = b"".join(prefix + line[1:] for line in whole.splitlines(keepends=True))
        self.send(whole)

    def has_room(self) -> bool:
        return not self.waits or self._behind_bytes <= _WAIT_BYTES

    async def room(self) -> None:
        while not self.has_room() and self.seat.is_connected:
            self._drained.clear()
            await self._drained.wait()

    @property
    def _behind_bytes(self) -> int:
        log = self.slot.log
        behind = log.size if self.reads_log and self.cursor < log.last else 0
        return self.unsent + behind

    def close(self) -> None:
        """End the connection between client and session; the session continues."""
        self.listens = False
        self._stop_listening()
        self.desk.close()
        self._drained.set()
