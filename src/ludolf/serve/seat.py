"""A client, over all of its connections, and its attachments to sessions.

An attachment is a position in the log of a session, with the replies for this client alone.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Protocol, get_args

import msgspec

from ludolf.base import ErrorCode, dumps
from ludolf.engine.engine import Engine
from ludolf.engine.host.host_side import HostSide
from ludolf.engine.hub import Hub, Sink
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.dialects import make_dialect
from ludolf.protocol.events import Event
from ludolf.protocol.framing import Frame, Head, Reply, render_reply
from ludolf.protocol.server import ClientRole, Hello
from ludolf.protocol.ui import UiRequest
from ludolf.rpc.connection import HostConnection
from ludolf.rpc.desk import Desk, Pacing
from ludolf.rpc.server import server_info
from ludolf.serve.figures import ServerFigures
from ludolf.serve.log import SessionLog

SERVER_CODES: frozenset[ErrorCode] = frozenset(get_args(ErrorCode))
# The dialect of the log, which all clients share that do not ask for another one.
SHARED_DIALECT = "pi-delta"
# Bytes that a client may be behind before a run that waits for it pauses.
_WAIT_BYTES = 1 << 20


def _do_nothing() -> None:
    """Stop nothing: the client reads the log."""


def joined(frame: Frame) -> bytes:
    """Return a frame in one piece."""
    return frame if isinstance(frame, bytes) else b"".join(frame)


def with_session(head: Head, reply: bytes) -> bytes:
    """Return a reply with the session that its command named, if it named one."""
    if not isinstance(head, SessionHead) or not head.named:
        return reply
    return b'{"session":%b,%b' % (dumps(head.named), reply[1:])


class SeatConnection(Protocol):
    """The present connection of a client. `current` is the session of commands that name none."""

    current: str | None

    def wake(self, attachment: "SessionAttachment") -> None:
        """Send what is due to an attachment."""

    def send(self, frame: bytes) -> None:
        """Send a frame that belongs to no session that the client listens to."""

    def check_unsent(self) -> None:
        """End the connection soon if too much waits to be read by the client."""

    def finished(self) -> None:
        """Note that a command that came over this connection is done."""

    def forget(self, attachment: "SessionAttachment") -> None:
        """Send what is due for a session that the client does not listen to any more."""

    def end(self, code: int) -> None:
        """End the connection."""


class SessionHead(Head, frozen=True, kw_only=True):
    """The head of a command; `named` is the session that it named, which the reply repeats.

    `origin` is the connection over which it came.
    """

    origin: SeatConnection
    named: str | None = None


class SharedSession(Protocol):
    """A loaded session, as the clients on it see it."""

    id: str
    engine: Engine
    log: SessionLog
    pacing: Pacing
    attachments: "list[SessionAttachment]"
    figures: ServerFigures

    @property
    def begins_at(self) -> int:
        """Return the number after which a new client gets events."""

    def host_of(self, client: str) -> HostSide:
        """Return the tools and documents that a client provides."""

    def forget_host(self, client: str) -> None:
        """Forget a client that is not attached and provides nothing."""

    def snapshot(self, role: ClientRole, entry: str | None, last: int) -> list[bytes]:
        """Return the session at the end of the log, as pieces of JSON."""

    def detach(self, attachment: "SessionAttachment") -> None:
        """Let a client leave."""

    def touch(self) -> None:
        """Note that a client has used the session."""

    def check_alone(self, attachment: "SessionAttachment") -> None:
        """Raises:
        CommandError: another client controls the session, too.
        """

    def answer_dialog(self, client: str, answer: UiAnswer) -> None:
        """Take the answer of a client's user to a dialog."""

    def shell_began(self, id: bytes) -> None:
        """Note that a shell command of a client runs."""

    def shell_ended(self, id: bytes) -> None:
        """Note that it has ended."""


class SessionAttachment(Sink):
    """`listens`: the client gets the events of the session; else it has only sent a command.

    Frames for this client alone stand in `_private`, each with the number of the frame of the log
    that it follows. As a sink it renders events for a client with a dialect of its own.
    """

    def __init__(
        self, seat: "Seat", slot: SharedSession, role: ClientRole, *, listens: bool
    ) -> None:
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
        if listens and not self.reads_log:
            self._stop_listening = slot.engine.conversation.hub.attach(self)
        # After the attachment itself, so that results of prompts follow what they are about.
        self.connection.own_events = self.send_rendered
        self.desk = Desk(
            slot.engine,
            slot.host_of(seat.client),
            self.connection,
            slot.pacing,
            self._reply,
            self._finished,
        )

    # ------------------------------------------------------------ commands

    def _reply(self, frame: Frame, head: Head) -> None:
        """Keep a reply and send it; without a connection the client asks for it again."""
        whole = with_session(head, joined(frame))
        origin = head.origin if isinstance(head, SessionHead) else self.seat.connection
        self.seat.reply(head, whole, origin, self.slot.id)

    def _finished(self, head: Head) -> None:
        self.seat.finished(head)
        if head.type == "bash":
            self.slot.shell_ended(bytes(head.id))
        if isinstance(head, SessionHead):
            head.origin.finished()
        if not self.listens:
            self.desk.close()
            self.slot.forget_host(self.seat.client)

    def refuse(self, head: SessionHead, reply: Reply) -> None:
        """Refuse a command that does not reach the session."""
        if self.seat.bare:
            frame = self.connection.reply(reply)
        else:
            frame = render_reply(reply, codes=SERVER_CODES)
        if frame is not None:
            self._reply(frame, head)
        self._finished(head)

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
        self.wake()

    def send_event(self, event: msgspec.Struct, session: str | None = None) -> None:
        """Send an event without a number, unless the client wants no frames of the server."""
        if not self.seat.bare:
            self.send(b'{"session":%b,%b\n' % (dumps(session or self.slot.id), dumps(event)[1:]))

    def start_over(self) -> None:
        """Send a snapshot before anything else: the log is another one."""
        self.cursor = 0
        self._private = deque((0, frame) for _, frame in self._private)
        self._must_resync = self.reads_log
        self.wake()

    def wake(self) -> None:
        """Let the connection of the client send what is due."""
        if self.seat.connection is not None:
            self.seat.connection.wake(self)

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
        """Let a run wait for this client; one with its own dialect receives events already."""
        if self.reads_log and self.waits:
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
        """Send the first frame of the client's dialect.

        A client that speaks as in RPC mode reads no snapshot: it is shown the open dialogs.
        """
        info = server_info(self.slot.engine, self.connection.traits)
        self._send_rendered(self.connection.greeting(info))
        for request in self.slot.engine.open_dialogs() if self.seat.bare else ():
            self.show(request)

    def _send_rendered(self, frame: Frame | None) -> None:
        if frame is None:
            return
        whole = joined(frame)
        if not self.seat.bare:
            prefix = b'{"session":%b,' % dumps(self.slot.id)
            whole = b"".join(prefix + line[1:] for line in whole.splitlines(keepends=True))
        self.send(whole)
        if not self.waits and self.seat.connection is not None:
            self.seat.connection.check_unsent()

    def has_room(self) -> bool:
        return not self.waits or self._behind_bytes <= _WAIT_BYTES

    async def room(self) -> None:
        while not self.has_room():
            self._drained.clear()
            await self._drained.wait()

    @property
    def _behind_bytes(self) -> int:
        log = self.slot.log
        behind = log.size if self.reads_log and self.cursor < log.last else 0
        return self.unsent + behind

    def close(self) -> None:
        """End the connection between client and session; the session continues."""
        self.listens = self.waits = False
        self._stop_listening()
        self.desk.close()
        self._drained.set()


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
        # Whether the client knows this name, and may come back with it.
        self.is_known = False
        self.name: str | None = None
        self.dialect = SHARED_DIALECT
        self.bare = False
        self.last_entries = 100
        self.connection: SeatConnection | None = None
        self.attachments: dict[str, SessionAttachment] = {}
        self.left_at = 0.0
        # Commands without a reply, by id, with the connection over which each came last; and the
        # last replies.
        self._pending: dict[bytes, SeatConnection | None] = {}
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self.kept_bytes = 0

    @property
    def is_connected(self) -> bool:
        return self.connection is not None

    @property
    def is_away(self) -> bool:
        """Return whether the client has left, and none of its commands is without a reply."""
        return not self.is_connected and not self._pending

    @property
    def is_forgettable(self) -> bool:
        """Return whether the client does not come back, or has been away for too long."""
        if not self.is_known:
            return not self.is_connected
        away = asyncio.get_running_loop().time() - self.left_at
        return self.is_away and away > KEPT_SECONDS

    def take(self, connection: SeatConnection, hello: Hello) -> None:
        """Use a new connection from now on."""
        self.connection = connection
        self.name = hello.name
        self.dialect, self.bare = hello.dialect, hello.bare

    def leave(self) -> tuple[SessionAttachment, ...]:
        """Note that the connection is gone; returns the attachments that end with it."""
        self.connection = None
        self.left_at = asyncio.get_running_loop().time()
        ended = tuple(self.attachments.values())
        self.attachments = {}
        return ended

    def move(self, origin: str, attachment: SessionAttachment) -> None:
        """The session of an attachment has another id from now on."""
        self.attachments.pop(origin, None)
        self.attachments[attachment.slot.id] = attachment
        if self.connection is not None and self.connection.current == origin:
            self.connection.current = attachment.slot.id

    def send_in_place(self, session: str, frame: bytes) -> None:
        """Send a frame after the frames of its session; without a connection it is dropped."""
        attachment = self.attachments.get(session)
        if attachment is not None:
            attachment.send(frame)
        elif self.connection is not None:
            self.connection.send(frame)

    # ------------------------------------------------------------ at most once

    def begin(self, head: Head) -> bytes | None:
        """Note a command. One whose id was used before must not be done again.

        Returns None for a new command, the reply if it was made, and empty bytes if the reply
        follows when it is made.
        """
        key = bytes(head.id)
        if key in (b"", b"null") or self.bare:
            return None
        if key in self._pending:
            self._pending[key] = self.connection
            return b""
        self._forget_old()
        kept = self._kept.get(key)
        if kept is None:
            self._pending[key] = self.connection
            return None
        if kept.frame is None:
            text = b'{"id":%b,"type":"response","command":%b,"success":false,"error":%b'
            return text % (key, dumps(kept.command), dumps(GONE)) + b',"repeated":true}\n'
        return kept.frame[: kept.frame.rindex(b"}")] + b',"repeated":true}\n'

    def reply(
        self, head: Head, frame: bytes, origin: SeatConnection | None, session: str = ""
    ) -> None:
        """Keep a reply; it is sent if the command came, or came again, over this connection."""
        asker = self._pending.get(bytes(head.id), origin)
        self.keep(head, frame)
        if asker is self.connection:
            self.send_in_place(session, frame)

    def keep(self, head: Head, frame: bytes) -> None:
        """Keep the reply to a command for a client that asks again."""
        key = bytes(head.id)
        if key not in self._pending:
            return
        del self._pending[key]
        fits = len(frame) <= KEPT_BYTES
        now = asyncio.get_running_loop().time()
        self._kept[key] = _Kept(head.type, frame if fits else None, now)
        self.kept_bytes += len(frame) if fits else 0
        while len(self._kept) > KEPT_REPLIES or self.kept_bytes > KEPT_BYTES:
            self._drop(next(iter(self._kept)))

    def finished(self, head: Head) -> None:
        """Note that a command is done; one that got no reply may be sent again."""
        self._pending.pop(bytes(head.id), None)

    def _forget_old(self) -> None:
        oldest = asyncio.get_running_loop().time() - KEPT_SECONDS
        while self._kept and self._kept[next(iter(self._kept))].made < oldest:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: bytes) -> None:
        self.kept_bytes -= len(self._kept.pop(key).frame or b"")
