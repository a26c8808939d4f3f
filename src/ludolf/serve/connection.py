"""One connection of a client: its lines become commands of the server or of a session."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Coroutine
from typing import Any, Protocol

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base import CommandError, LudolfError
from ludolf.protocol.commands import COMMANDS, CommandSpec, UiAnswer, read_command
from ludolf.protocol.framing import BadFrame, Body, Head, Reply, render_reply, repair
from ludolf.protocol.server import SERVER_COMMANDS, Hello, Open, Welcome
from ludolf.rpc.connection import unknown_command
from ludolf.rpc.desk import read_line, refusal
from ludolf.serve.isolated import IsolatedSessions, isolated_line
from ludolf.serve.options import ClientLimits
from ludolf.serve.seat import (
    SERVER_CODES,
    Seat,
    SessionAttachment,
    SessionHead,
    SharedSession,
    joined,
    with_session,
)

# Bytes of one batch for a client.
_BATCH = 256 << 10
_SHARE = 64 << 10
# Commands that concern no session.
_OF_SERVER = ("hello", "list", "ping", "shutdown")
NO_SESSION = "Name a session, or open one first."
NO_TOKEN = "The first command must be hello with the token of the server."
NORMAL, GOING_AWAY, UNAUTHORIZED, STUCK, REPLACED = 1000, 1001, 4401, 4408, 4409


class Reception(Protocol):
    """The server, as its connections see it."""

    limits: ClientLimits
    tasks: Tasks
    isolated: IsolatedSessions

    def loaded(self, session: str) -> SharedSession | None:
        """Return a loaded session."""

    async def load_stored(self, session: str) -> SharedSession:
        """Return the session with this id, which is loaded if it is not yet.

        Raises:
            CommandError: it does not exist or cannot be opened.
        """

    def hello(self, connection: "ServedConnection", head: Head, hello: Hello) -> Welcome | None:
        """Return the welcome of a client; None if its token is wrong, which is answered later.

        Raises:
            CommandError: its protocol or its dialect is not known.
        """

    def welcome(self, connection: "ServedConnection", hello: Hello) -> Welcome:
        """Give a client its seat."""

    def left(self, connection: "ServedConnection") -> None:
        """Note that a connection has ended."""

    def do(
        self, connection: "ServedConnection", head: Head, command: Any
    ) -> Coroutine[Any, Any, dict[str, Any] | None]:
        """Return the work of a command: the fields of its reply; None if that has been sent."""


class _Named(msgspec.Struct):
    session: Any = None


_names = msgspec.json.Decoder(_Named)


class ServedConnection:
    """A door moves the bytes: it calls `feed` with lines and writes what `outgoing` returns.

    `remote`: the client came over TCP. `trusted`: it has shown the token, or came over a socket
    that only this user can open.
    """

    def __init__(self, server: Reception, *, remote: bool, trusted: bool) -> None:
        self._server = server
        self.remote = remote
        self.trusted = trusted
        self.close_code = NORMAL
        self.heard_at = asyncio.get_running_loop().time()
        self.seat: Seat | None = None
        # The session that was opened or attached last.
        self.current: str | None = None
        # The client has left all its sessions by `detach`, and not by a cut.
        self.has_detached = False
        self._direct: deque[bytes] = deque()
        self._unsent = 0
        # Attachments with frames to send, in the order of their turns.
        self._ready: dict[SessionAttachment, None] = {}
        self._in_flight = 0
        self._due = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._sent = asyncio.Event()
        self._ended = False
        # Has shown a wrong token: nothing more is read.
        self._is_refused = False
        # Lines that wait until the session that a command opens is there.
        self._opening: asyncio.Task[None] | None = None
        self._waiting: deque[bytes] = deque()

    # ------------------------------------------------------------ for the door

    def feed(self, lines: list[bytes]) -> None:
        """Handle whole lines, in order; never waits and never fails."""
        self.alive()
        for line in lines:
            if self._ended or self._is_refused or not line or line.isspace():
                continue
            if self._opening is not None:
                self._waiting.append(line)
            else:
                self._handle(line)

    def alive(self) -> None:
        """Note that the client is there."""
        self.heard_at = asyncio.get_running_loop().time()

    async def readable(self) -> None:
        """Wait while the client must not send more."""
        limits = self._server.limits
        while not self._ended and (
            self._in_flight >= limits.in_flight
            or self.unsent > limits.unsent
            or len(self._waiting) >= limits.in_flight
        ):
            self._room.clear()
            await self._room.wait()
        await self._server.isolated.drained(self)

    async def sent(self) -> None:
        """Wait until something was sent to the client."""
        self._sent.clear()
        await self._sent.wait()

    async def outgoing(self) -> bytes:
        """Return the next whole lines for the client; empty once the connection has ended."""
        while True:
            found = self._collect()
            if found:
                self._room.set()
                self._sent.set()
                return found
            if self._ended:
                return b""
            self._due.clear()
            await self._due.wait()

    async def hang_up(self, *, is_gone: bool = False) -> None:
        """End the connection after the last line: what was sent is answered first, within a time.

        `is_gone`: the client does not read the answers.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._server.limits.last_seconds):
                while self._opening is not None:
                    await asyncio.wait((self._opening,))
                while self._in_flight and not self._ended and not is_gone:
                    self._room.clear()
                    await self._room.wait()
        self.end(NORMAL)

    def lost(self) -> None:
        """End the connection: the client is gone, or has to go."""
        self.end(NORMAL)

    # ------------------------------------------------------------ output

    @property
    def unsent(self) -> int:
        return self._unsent + sum(each.unsent for each in self._ready)

    def wake(self, attachment: SessionAttachment) -> None:
        """Send what is due to an attachment."""
        self._ready[attachment] = None
        self._due.set()

    def send(self, frame: bytes) -> None:
        """Send a frame that belongs to no session that the client listens to."""
        self._direct.append(frame)
        self._unsent += len(frame)
        self._due.set()

    def check_unsent(self) -> None:
        """End the connection soon if too much waits to be read by the client.

        Not at once: an event may be on its way to all clients.
        """
        if self.unsent > self._server.limits.unsent and not self._ended:
            asyncio.get_running_loop().call_soon(self.end, STUCK)

    def begun(self) -> None:
        """Note that a command that came over this connection needs a reply."""
        self._in_flight += 1

    def finished(self) -> None:
        """Note that a command that came over this connection is done."""
        self._in_flight -= 1
        self._room.set()

    def end(self, code: int) -> None:
        """End the connection with a close code; frames that are due are still sent.

        A client that reads nothing gets no more of them.
        """
        if self._ended:
            return
        self._ended, self.close_code = True, code
        self._waiting.clear()
        self._server.left(self)
        if code == STUCK:
            self._direct.clear()
        self._due.set()
        self._room.set()
        self._sent.set()

    def _collect(self) -> bytes:
        found: list[bytes] = []
        room = _BATCH
        while self._direct:
            found.append(self._direct.popleft())
        self._unsent = 0
        while room > 0 and self._ready:
            attachment = next(iter(self._ready))
            del self._ready[attachment]
            frames = attachment.pull(_SHARE)
            found += frames
            room -= sum(map(len, frames))
            if attachment.is_due:
                self._ready[attachment] = None
        return b"".join(found)

    # ------------------------------------------------------------ commands

    def _handle(self, line: bytes) -> None:
        bare = self._bare_attachment()
        try:
            head, body = read_line(line)
        except BadFrame as error:
            if bare is not None:
                bare.desk.refuse_line(error)
            else:
                self._refuse_line(error)
            return
        if not self.trusted and head.type != "hello":
            self.refuse(head, CommandError(NO_TOKEN, code="unauthorized"))
            self.end(UNAUTHORIZED)
            return
        try:
            if bare is not None:
                self._begin_bare(bare, head, body)
            elif not self._relay(head, body, line):
                self._route(head, body)
        except BadFrame as error:
            self._refuse_line(error)
        except LudolfError as error:
            self.refuse(head, error)

    def _bare_attachment(self) -> SessionAttachment | None:
        """Return the session of a client that speaks as in RPC mode, once it has opened it."""
        if self.seat is None or not self.seat.bare or self.current is None:
            return None
        return self.seat.attachments.get(self.current)

    def _begin_bare(self, attachment: SessionAttachment, head: Head, body: Body) -> None:
        if head.type == "extension_ui_response":
            self._answer_dialog(attachment, head, body)
            return
        self._in_flight += 1
        own = SessionHead(head.type, head.id, origin=self)
        if head.type in COMMANDS:
            self._perform(attachment, own, body)
        else:
            attachment.desk.handle(own, body)

    def _refuse_line(self, error: BadFrame) -> None:
        head = Head("parse", error.id)
        self.refuse(head, error)
        if not self.trusted:
            self.end(UNAUTHORIZED)

    def _relay(self, head: Head, body: Body, line: bytes) -> bool:
        """Pass a command to the process of an isolated session; False if it is for this one."""
        if self.seat is None and head.type != "hello":
            self._server.welcome(self, Hello())
        isolated = self._server.isolated
        if head.type == "open":
            command: Open = read_command(head, body, SERVER_COMMANDS["open"])
            if not command.isolated and not isolated.has(command.session):
                return False
            if not isolated.has(command.session):
                work = isolated.open(self, head, isolated_line(body), command.env)
                self._open(self._server.tasks.start(self._refusing(head, work)))
                return True
        session = _session_of(head, body) or self.current
        if session is None or head.type in _OF_SERVER or not isolated.has(session):
            return False
        relay = isolated.ready(self, session)
        if relay is not None:
            relay.send(head, line)
        else:
            work = isolated.connect(self, session, head, line)
            self._open(self._server.tasks.start(self._refusing(head, work)))
        return True

    async def _refusing(self, head: Head, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except CommandError as error:
            self.refuse(head, error)

    def _route(self, head: Head, body: Body) -> None:
        spec = SERVER_COMMANDS.get(head.type)
        if spec is not None:
            self._begin_server_command(spec, head, body)
            return
        name = _session_of(head, body)
        wanted = name or self.current
        if head.type not in COMMANDS:
            raise unknown_command(head.type)
        if wanted is None:
            raise CommandError(NO_SESSION)
        own = SessionHead(head.type, head.id, origin=self, named=name)
        self._begin_command(own, body, wanted)

    def _begin_server_command(self, spec: CommandSpec, head: Head, body: Body) -> None:
        command = read_command(head, body, spec)
        if head.type == "hello":
            self._say_hello(head, command)
            return
        # A client that asks again to be attached has come back.
        if head.type != "attach" and self._is_repeated(head):
            return
        self._in_flight += 1
        work = self._server.do(self, head, command)
        task = self._server.tasks.start(self._finish(head, work))
        if head.type in ("open", "attach"):
            self._open(task)

    def _say_hello(self, head: Head, hello: Hello) -> None:
        """Raises:
        CommandError: the token or the protocol is refused.
        """
        welcome = self._server.hello(self, head, hello)
        if welcome is None:
            self._is_refused = True
        else:
            self._reply(head, Reply(command=head.type, id=head.id, data=welcome))

    def _open(self, task: "asyncio.Task[None]") -> None:
        """Later lines wait: they may be meant for the session that is being opened."""
        self._opening = task
        task.add_done_callback(self._opened)

    def _opened(self, task: "asyncio.Task[None]") -> None:
        self._opening = None
        while self._waiting and self._opening is None:
            self.feed([self._waiting.popleft()])
        self._room.set()

    async def _finish(self, head: Head, work: Any) -> None:
        try:
            data = await work
        except LudolfError as error:
            self.refuse(head, error)
        else:
            if data is not None:
                self._reply(head, Reply(command=head.type, id=head.id, **data))
        finally:
            self._finished(head)

    def _finished(self, head: Head) -> None:
        if self.seat is not None:
            self.seat.finished(head)
        self.finished()

    def _begin_command(self, head: SessionHead, body: Body, wanted: str) -> None:
        assert self.seat is not None
        is_answered = not COMMANDS[head.type].unanswered
        slot = self._server.loaded(wanted)
        if slot is not None and head.type == "extension_ui_response":
            self._answer_dialog(self._attachment(slot.id), head, body)
        elif is_answered and self._is_repeated(head, wanted):
            pass
        elif slot is None:
            self._in_flight += 1
            self._open(self._server.tasks.start(self._load(head, body, wanted)))
        else:
            self._in_flight += 1
            self._perform(self._attachment(slot.id), head, body)

    async def _load(self, head: SessionHead, body: Body, wanted: str) -> None:
        """Load a session for its first command."""
        try:
            slot = await self._server.load_stored(wanted)
        except LudolfError as error:
            self.refuse(head, error)
            self._finished(head)
        else:
            self._perform(self._attachment(slot.id), head, body)

    def _attachment(self, session: str) -> SessionAttachment:
        """Return the attachment to a session; without one, a role that only sends commands."""
        assert self.seat is not None
        found = self.seat.attachments.get(session)
        if found is not None:
            return found
        slot = self._server.loaded(session)
        assert slot is not None
        slot.touch()
        return SessionAttachment(self.seat, slot, "control", listens=False)

    def _perform(self, attachment: SessionAttachment, head: SessionHead, body: Body) -> None:
        spec = COMMANDS[head.type]
        try:
            if attachment.role == "view" and not spec.reads:
                raise CommandError(f"{head.type} needs the role control.", code="view_only")
            if spec.changes_session:
                attachment.slot.check_alone(attachment)
        except CommandError as error:
            attachment.refuse(head, refusal(head, error))
            return
        if head.type == "bash":
            attachment.slot.shell_began(bytes(head.id))
        attachment.desk.handle(head, body)

    def _answer_dialog(self, attachment: SessionAttachment, head: Head, body: Body) -> None:
        if attachment.role == "control":
            answer: UiAnswer = read_command(head, body)
            attachment.slot.answer_dialog(attachment.seat.client, answer)

    def _is_repeated(self, head: Head, session: str = "") -> bool:
        """Reply again to a command that this client has sent before."""
        if self.seat is None:
            return False
        kept = self.seat.begin(head)
        if kept:
            self.seat.send_in_place(session, kept)
        return kept is not None

    def refuse(self, head: Head, error: LudolfError) -> None:
        """Reply that a command was refused."""
        self._reply(head, refusal(head, error))

    def _reply(self, head: Head, reply: Reply) -> None:
        self._deliver(head, with_session(head, joined(render_reply(reply, codes=SERVER_CODES))))

    def _deliver(self, head: Head, frame: bytes) -> None:
        if self.seat is None:
            self.send(frame)
        else:
            self.seat.reply(head, frame, self)

    def answer(self, head: Head, data: list[bytes], attachment: SessionAttachment) -> None:
        """Reply to the command that attached the client, in the order of the session's frames."""
        frame = joined(render_reply(Reply(command=head.type, id=head.id, data=data)))
        if self.seat is not None:
            self.seat.keep(head, frame)
        self.current = attachment.slot.id
        attachment.send_first(frame)

    def answer_late(self, head: Head, data: list[bytes]) -> None:
        """Reply to a command that opened a session for a client that has gone meanwhile."""
        if head.type == "open":
            self._deliver(head, joined(render_reply(Reply(command="open", id=head.id, data=data))))

    def forget(self, attachment: SessionAttachment) -> None:
        """Send what is due for a session that the client does not listen to any more."""
        while attachment.is_due:
            self._direct += attachment.pull(_BATCH)
        self._ready.pop(attachment, None)
        self._due.set()
        if self.current == attachment.slot.id:
            self.current = None


def _session_of(head: Head, body: Body) -> str | None:
    """Raises:
    CommandError: the session is not a text.
    """
    if isinstance(body, bytes):
        try:
            named = _names.decode(body).session
        except (msgspec.DecodeError, UnicodeDecodeError):
            named = repair(body).get("session")
    else:
        named = body.get("session")
    if named is not None and not isinstance(named, str):
        raise CommandError(f'{head.type}: missing or invalid "session"')
    return named
