"""The server: its clients, its sessions, and the commands that concern it."""

import asyncio
import contextlib
import secrets
from collections.abc import Coroutine
from typing import Any

from ludolf import __version__
from ludolf.agent.scope import Tasks
from ludolf.base import CommandError, dumps
from ludolf.protocol.dialects import NAMES
from ludolf.protocol.framing import Head
from ludolf.protocol.server import (
    PROTOCOL_VERSION,
    Attach,
    Hello,
    ListSessionStates,
    Open,
    ServerClosing,
    ServerLimits,
    SessionOnly,
    Shutdown,
    Welcome,
)
from ludolf.serve.connection import (
    GOING_AWAY,
    NO_SESSION,
    NO_TOKEN,
    NORMAL,
    REPLACED,
    UNAUTHORIZED,
    ServedConnection,
)
from ludolf.serve.figures import ServerFigures
from ludolf.serve.guard import AccessGuard
from ludolf.serve.isolated import IsolatedSessions
from ludolf.serve.log import RingPool
from ludolf.serve.options import ClientLimits, ServeOptions
from ludolf.serve.seat import SHARED_DIALECT, Seat, SessionAttachment
from ludolf.serve.slot import Slot, SlotSettings
from ludolf.serve.slots import LoadedSessions, unknown_session

CLOSE_SECONDS = 5.0
# After a wrong token, so that guessing is slow.
REFUSAL_SECONDS = 0.2
_SWEEP_SECONDS = 10.0
# The fields of a reply, without its command and id.
ReplyFields = dict[str, Any]


class SessionServer:
    """`guard` checks the token of connections that are not trusted; without one all are refused."""

    def __init__(self, options: ServeOptions, guard: AccessGuard | None = None) -> None:
        self.options = options
        self.limits: ClientLimits = options.limits
        self.boot = secrets.token_hex(8)
        self.figures = ServerFigures()
        # Commands of clients; they are answered before the server ends.
        self.tasks = Tasks()
        self._sweeping = Tasks()
        self.closing = False
        self.guard = guard
        settings = SlotSettings(options, RingPool(options.all_rings), self.figures)
        self.slots = LoadedSessions(options, settings)
        self.isolated = IsolatedSessions(options)
        self.connections: set[ServedConnection] = set()
        self._seats: dict[str, Seat] = {}
        self._end: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    # ------------------------------------------------------------ life

    async def serve(self) -> None:
        """Serve until a client asks for the end; the runs then have some time to end."""
        self._sweeping.start(self._sweep())
        seconds = await self._end
        await self.close(seconds)

    async def close(self, drain_seconds: float) -> None:
        """End: no new connections, let runs end, store, and disconnect all clients."""
        self.closing = self.slots.is_closing = True
        closing = dumps(ServerClosing(seconds=drain_seconds)) + b"\n"
        for connection in tuple(self.connections):
            if connection.seat is None or not connection.seat.bare:
                connection.send(closing)
        await self._sweeping.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.tasks.ended()
        if drain_seconds > 0:
            settled = [each.engine.settled() for each in self.slots]
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(drain_seconds):
                    await asyncio.gather(*settled)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self.isolated.close()
                await self.slots.close()
        for connection in tuple(self.connections):
            connection.end(GOING_AWAY)

    def warn(self, text: str) -> None:
        """Send a warning to the clients of every session."""
        for slot in self.slots:
            slot.engine.conversation.hub.notify(text)

    async def _sweep(self) -> None:
        """Unload unused sessions, and forget clients that are gone."""
        interval = min(_SWEEP_SECONDS, max(0.01, self.options.unload_seconds / 4))
        while True:
            await asyncio.sleep(interval)
            await self.slots.unload_unused()
            await self.isolated.end_unused()
            self._seats = {
                name: seat for name, seat in self._seats.items() if not seat.is_forgettable
            }
            silent = asyncio.get_running_loop().time() - self.limits.silence_seconds
            for connection in tuple(self.connections):
                if connection.remote and connection.heard_at < silent:
                    connection.end(NORMAL)

    # ------------------------------------------------------------ connections

    def connect(self, *, remote: bool, trusted: bool) -> ServedConnection:
        """Take a connection of a client.

        Raises:
            CommandError: the server ends, or there are too many clients.
        """
        if self.closing:
            raise CommandError("The server is closing.", code="full")
        if len(self.connections) >= self.limits.clients:
            text = f"Too many clients: {self.limits.clients} are connected. Try later."
            raise CommandError(text, code="full")
        connection = ServedConnection(self, remote=remote, trusted=trusted)
        self.connections.add(connection)
        self.figures.connections += 1
        return connection

    def left(self, connection: ServedConnection) -> None:
        """Note that a connection has ended; its sessions continue."""
        self.connections.discard(connection)
        self.isolated.left(connection)
        self._vacate(connection)

    def _vacate(self, connection: ServedConnection) -> None:
        """Detach the client of a connection, unless it has come back over another one."""
        seat = connection.seat
        if seat is None or seat.connection is not connection:
            return
        for attachment in seat.leave():
            connection.forget(attachment)
            attachment.slot.detach(attachment)
        self._seats.pop(seat.client, None)
        if seat.is_known:
            self._seats[seat.client] = seat
            self._forget_surplus()

    def _forget_surplus(self) -> None:
        """Forget the clients that left first, if too many are away or their replies too large."""
        limits = self.limits
        away = [seat for seat in self._seats.values() if seat.is_away]
        size = sum(seat.kept_bytes for seat in away)
        for left, seat in zip(range(len(away), 0, -1), away, strict=True):
            if left <= limits.away_clients and size <= limits.away_bytes:
                break
            size -= seat.kept_bytes
            del self._seats[seat.client]

    def hello(self, connection: ServedConnection, head: Head, hello: Hello) -> Welcome | None:
        """Return the welcome of a client; None if its token is wrong, which is answered later.

        Raises:
            CommandError: its protocol or its dialect is not known.
        """
        if not connection.trusted:
            if self.guard is None or not self.guard.accepts(hello.token):
                self.figures.refused_logins += 1
                self.tasks.start(_refuse(connection, head))
                return None
            connection.trusted = True
        if hello.protocol != PROTOCOL_VERSION or isinstance(hello.protocol, bool):
            text = (
                f"Protocol {hello.protocol} is not supported; this server has {PROTOCOL_VERSION}."
            )
            raise CommandError(text, code="unsupported")
        if hello.dialect not in NAMES:
            text = f"Unknown dialect: {hello.dialect[:100]}. Known: {', '.join(NAMES)}."
            raise CommandError(text, code="unsupported")
        welcome = self.welcome(connection, hello)
        self._seats[welcome.client].is_known = True
        return welcome

    def welcome(self, connection: ServedConnection, hello: Hello) -> Welcome:
        """Give a client its seat; an older connection of the same client ends."""
        self._vacate(connection)
        name = hello.client or secrets.token_hex(8)
        known = name in self._seats
        seat = self._seats.setdefault(name, Seat(name))
        if seat.connection is not None and seat.connection is not connection:
            seat.connection.end(REPLACED)
        connection.seat = seat
        seat.take(connection, hello)
        limits = self.limits
        return Welcome(
            server=f"ludolf/{__version__}",
            protocol=PROTOCOL_VERSION,
            boot=self.boot,
            client=name,
            known=known,
            limits=ServerLimits(
                frame=limits.remote_frame if connection.remote else limits.local_frame,
                in_flight=limits.in_flight,
                clients=limits.clients,
                clients_per_session=limits.per_session,
            ),
        )

    # ------------------------------------------------------------ commands

    def loaded(self, session: str) -> Slot | None:
        return self.slots.loaded(session)

    async def load_stored(self, session: str) -> Slot:
        """Return the session with this id, which is loaded if it is not yet.

        Raises:
            CommandError: it does not exist or cannot be opened.
        """
        return await self.slots.load_stored(session)

    def do(
        self, connection: ServedConnection, head: Head, command: Any
    ) -> Coroutine[Any, Any, ReplyFields | None]:
        """Return the work of a command; None as its value: the reply has been sent."""
        match command:
            case Open():
                return self._open(connection, head, command)
            case Attach():
                return self._attach(connection, head, command)
            case ListSessionStates():
                return self._list(command)
            case Shutdown():
                return self._shutdown(command)
            case SessionOnly():
                name = command.session or connection.current
                return {"detach": self._detach, "close": self._close, "clients": self._clients}[
                    head.type
                ](connection, name)
            case _:
                return _nothing()

    async def _open(
        self, connection: ServedConnection, head: Head, command: Open
    ) -> ReplyFields | None:
        slot = await self.slots.open(command, _dialect_of(connection))
        arguments = Attach(session=slot.id, role=command.role, wait=command.wait)
        return self._let_in(connection, head, slot, arguments)

    async def _attach(
        self, connection: ServedConnection, head: Head, command: Attach
    ) -> ReplyFields | None:
        slot = await self.slots.load_stored(command.session, command.env)
        return self._let_in(connection, head, slot, command)

    def _let_in(
        self, connection: ServedConnection, head: Head, slot: Slot, wanted: Attach
    ) -> ReplyFields | None:
        """Attach a client; its reply comes before the first event after its cursor."""
        seat = connection.seat
        if seat is None or seat.connection is not connection:
            data = slot.snapshot(wanted.role, wanted.entry, wanted.last)
            connection.answer_late(head, data)
            return None
        before = seat.attachments.pop(slot.id, None)
        if before is not None:
            connection.forget(before)
            slot.detach(before)
        if len(slot.attachments) >= self.limits.per_session:
            text = f"Too many clients on this session: {self.limits.per_session}."
            raise CommandError(text, code="full")
        attachment = SessionAttachment(seat, slot, wanted.role, listens=True)
        connection.has_detached = False
        seat.attachments[slot.id] = attachment
        seat.last_entries = wanted.last
        self._mind_wait(attachment, connection, wanted.wait)
        data = self._answer(attachment, wanted)
        connection.answer(head, data, attachment)
        slot.attach(attachment)
        if not attachment.reads_log:
            attachment.greet()
        slot.report_start(attachment)
        return None

    def _mind_wait(
        self, attachment: SessionAttachment, connection: ServedConnection, wait: bool | None
    ) -> None:
        """Let the run wait for this client, if it asks for it and may."""
        others = any(each.waits for each in attachment.slot.attachments)
        wanted = not attachment.reads_log if wait is None else wait
        attachment.waits = wanted and not others and not connection.remote

    def _answer(self, attachment: SessionAttachment, wanted: Attach) -> list[bytes]:
        log = attachment.slot.log
        number = log.number_of(wanted.cursor) if attachment.reads_log else None
        if number is None:
            attachment.cursor = attachment.slot.begins_at
            return attachment.slot.snapshot(wanted.role, wanted.entry, wanted.last)
        attachment.cursor = number
        self.figures.replays += 1
        text = b'{"session":%b,"role":"%b","mode":"replay","cursor":"%b","replayed":%d}'
        cursor = log.cursor_at(number).encode()
        role = wanted.role.encode()
        return [text % (dumps(attachment.slot.id), role, cursor, log.last - number)]

    async def _detach(self, connection: ServedConnection, name: str | None) -> ReplyFields:
        seat = connection.seat
        attachment = seat.attachments.pop(name or "", None) if seat is not None else None
        if attachment is None:
            raise CommandError(NO_SESSION if name is None else f"Not attached to: {name[:200]}")
        connection.forget(attachment)
        connection.has_detached = seat is not None and not seat.attachments
        attachment.slot.detach(attachment)
        return {}

    async def _close(self, connection: ServedConnection, name: str | None) -> ReplyFields:
        slot = self._loaded(name)
        own = connection.seat.attachments.get(slot.id) if connection.seat is not None else None
        if own is not None and own.role == "view":
            raise CommandError("close needs the role control.", code="view_only")
        await self.slots.unload(slot)
        return {}

    async def _clients(self, connection: ServedConnection, name: str | None) -> ReplyFields:
        return {"data": {"clients": self._loaded(name).clients()}}

    async def _list(self, command: ListSessionStates) -> ReplyFields:
        isolated = await self.isolated.summaries()
        known = frozenset(each["session"] for each in isolated)
        own = await self.slots.list(everything=command.all)
        rest = (each for each in own if each.session not in known)
        return {"data": {"sessions": (*isolated, *rest)}}

    async def _shutdown(self, command: Shutdown) -> ReplyFields:
        seconds = self.options.drain_seconds if command.drain is None else command.drain
        asyncio.get_running_loop().call_soon(self.finish, max(0.0, seconds))
        return {}

    def finish(self, seconds: float) -> None:
        """End the server; runs have so many seconds to end."""
        if not self._end.done():
            self._end.set_result(seconds)

    def _loaded(self, name: str | None) -> Slot:
        if name is None:
            raise CommandError(NO_SESSION)
        slot = self.slots.loaded(name)
        if slot is None:
            raise unknown_session(name)
        return slot


def _dialect_of(connection: ServedConnection) -> str:
    return connection.seat.dialect if connection.seat is not None else SHARED_DIALECT


async def _nothing() -> ReplyFields:
    return {}


async def _refuse(connection: ServedConnection, head: Head) -> None:
    """Answer a wrong token after a while, and end the connection."""
    await asyncio.sleep(REFUSAL_SECONDS)
    connection.refuse(head, CommandError(NO_TOKEN, code="unauthorized"))
    connection.end(UNAUTHORIZED)
