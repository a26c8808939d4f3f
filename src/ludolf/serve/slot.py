"""A loaded session: its engine, its log, and the clients on it."""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path

from ludolf.base import CommandError, dumps, iso_time, now_ms
from ludolf.engine.engine import Engine
from ludolf.engine.feature import Feature, SessionMove
from ludolf.engine.host.host_link import HostLink
from ludolf.engine.host.host_side import HostSide
from ludolf.engine.hub import Sink
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.dialects import make_dialect
from ludolf.protocol.dialects.dialect import Traits, with_model
from ludolf.protocol.events import Event
from ludolf.protocol.framing import Reply
from ludolf.protocol.server import (
    AttachedClient,
    ClientJoined,
    ClientLeft,
    ClientRole,
    SessionActivity,
    SessionClosed,
    SessionMoved,
    SessionSummary,
)
from ludolf.protocol.ui import DIALOGS, UiRequest, fits
from ludolf.rpc.connection import HostConnection
from ludolf.rpc.desk import Pacing
from ludolf.rpc.manners import adopt
from ludolf.rpc.state import state
from ludolf.serve.connection import GOING_AWAY
from ludolf.serve.figures import ServerFigures
from ludolf.serve.log import RingPool, SessionLog
from ludolf.serve.options import ServeOptions
from ludolf.serve.seat import SHARED_DIALECT, SessionAttachment, joined
from ludolf.serve.underway import UnderwayWatch
from ludolf.session.entries import entry_json
from ludolf.session.views import first_prompt, is_interrupted, path_after, path_tail, short_title

MAX_ENTRIES = 1000
# A session that is closed waits so long for a command that others wait for.
_TURN_SECONDS = 2.5
# And so long for those that were stopped; processes may take a moment to end.
_COMMAND_SECONDS = 4.0


class SlotSettings:
    """What all slots of a server share."""

    def __init__(self, options: ServeOptions, pool: RingPool, figures: ServerFigures) -> None:
        self.ring = options.ring
        self.away_seconds = options.limits.away_seconds
        self.pool = pool
        self.figures = figures


class _MoveWatch(Feature):
    """Calls `moved` when the engine has opened another session."""

    def __init__(self, moved: Callable[[], None]) -> None:
        self._moved = moved

    async def enter_session(self, move: SessionMove) -> None:
        self._moved()


class Slot(Sink):
    """As a sink it puts every event of the engine into the log."""

    def __init__(
        self, engine: Engine, settings: SlotSettings, moved: Callable[["Slot", str], None]
    ) -> None:
        self.engine = engine
        self.id = engine.session.id
        self.pacing = Pacing()
        self.figures = settings.figures
        self.attachments: list[SessionAttachment] = []
        self.used_at = asyncio.get_running_loop().time()
        self._changed_at = now_ms()
        self._settings = settings
        self._moved = moved
        self._dialect = HostConnection(make_dialect(SHARED_DIALECT))
        self._underway = UnderwayWatch()
        self._hosts: dict[str, HostSide] = {}
        self.log = SessionLog(self.id, settings.ring, settings.pool)
        self._timer: asyncio.TimerHandle | None = None
        # What the start of the session reported; the first client gets it.
        self._first_reports: list[Event | UiRequest] = []
        self._is_starting = True
        self._asked = asyncio.Event()
        self._started_at = -1

    async def start(self, traits: Traits) -> None:
        """Start the engine; its events go into the log from now on.

        `traits` are those of the dialect of the client that opened the session.

        Raises:
            ConfigError: an extension does not load.
        """
        engine = self.engine
        hub = engine.conversation.hub
        hub.attach(self)
        hub.attach(self._underway)
        adopt(engine, traits)
        engine.features.add(_MoveWatch(self._follow))
        engine.conversation.answer_clock.stop()
        await engine.start("serve", self.ask)
        hub.begin()
        self._is_starting = False
        if not self.attachments:
            self._started_at = self.log.last

    async def ready(self, starting: "asyncio.Task[None]") -> None:
        """Wait until the session has started, or until its start waits for an answer of the user.

        Raises:
            ConfigError: an extension does not load.
        """
        asked = self.pacing.tasks.start(self._asked.wait())
        await asyncio.wait((starting, asked), return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        if starting.done():
            starting.result()
        else:
            self.pacing.hold(starting)

    def warm_up(self, seconds: float) -> None:
        """Prepare what the first prompt needs, after the first replies."""
        self._timer = asyncio.get_running_loop().call_later(seconds, self.engine.warm_up)

    # ------------------------------------------------------------ as a sink

    def take(self, event: Event) -> None:
        if self._is_starting:
            self._first_reports.append(event)
        frame = self._dialect.event(event)
        if frame is not None:
            self._add(joined(frame))

    def _add(self, line: bytes) -> None:
        self.log.add(line)
        self._changed_at = now_ms()
        self.touch()
        self.figures.frames += 1
        self.figures.bytes += len(line)
        for attachment in self.attachments:
            attachment.wake()

    # ------------------------------------------------------------ dialogs

    def ask(self, request: UiRequest) -> bool:
        """Show a request to the users of all clients, now and when they come back."""
        if self._is_starting:
            self._first_reports.append(request)
            if request.method in DIALOGS:
                self._asked.set()
        self._underway.show(request)
        self._add(dumps(request) + b"\n")
        for attachment in self.attachments:
            attachment.show(request)
        return True

    # ------------------------------------------------------------ tools and documents of clients

    def host_of(self, client: str) -> HostSide:
        """Return the tools and documents that a client provides; they stay if it comes back."""
        side = self._hosts.get(client)
        if side is None:
            post = partial(self._send_to, client)

            async def emit(event: Event) -> None:
                post(event)

            link = HostLink(emit, post, client)
            side = self.engine.host_side(link, self._settings.away_seconds)
            self._hosts[client] = side
            side.leave()
        return side

    def forget_host(self, client: str) -> None:
        """Forget a client that is not attached and provides nothing."""
        side = self._hosts.get(client)
        is_here = any(each.seat.client == client for each in self.attachments)
        if side is not None and not is_here and not side.is_used:
            side.close()
            del self._hosts[client]

    def _send_to(self, client: str, event: Event) -> None:
        for attachment in self.attachments:
            if attachment.seat.client == client:
                attachment.send_rendered(event)

    # ------------------------------------------------------------ shell commands of clients

    def shell_began(self, id: bytes) -> None:
        self._underway.shell_began(id)

    def shell_ended(self, id: bytes) -> None:
        self._underway.shell_ended(id)

    # ------------------------------------------------------------ dialogs of clients

    def answer_dialog(self, client: str, answer: UiAnswer) -> None:
        """Take the first answer that fits; the other clients close their dialogs."""
        asked = (each for each in self.engine.open_dialogs() if each.id == answer.id)
        request = next(asked, None)
        if request is None or not fits(request, answer):
            return
        self.engine.answer_dialog(answer)
        self.ask(
            UiRequest(id=f"{request.id}-answered", method="cancel", target_id=request.id, by=client)
        )

    # ------------------------------------------------------------ clients

    @property
    def begins_at(self) -> int:
        """Return the number after which a new client gets events: for the first one all."""
        is_new = self._started_at == self.log.last
        return 0 if is_new and self.log.has_all_after(0) else self.log.last

    def report_start(self, attachment: SessionAttachment) -> None:
        """Send what the start of the session reported to a client that does not read the log."""
        for report in self._first_reports if self.begins_at == 0 else ():
            if isinstance(report, UiRequest):
                attachment.show(report)
            else:
                attachment.take(report)
        self._first_reports, self._started_at = [], -1

    def attach(self, attachment: SessionAttachment) -> None:
        """Let a client listen."""
        self.attachments.append(attachment)
        self.touch()
        attachment.listen(self.engine.conversation.hub)
        seat = attachment.seat
        joined = ClientJoined(client=seat.client, name=seat.name, role=attachment.role)
        self._send_others(attachment, joined)
        self.host_of(seat.client).come_back()
        self._mind_clock()

    def detach(self, attachment: SessionAttachment) -> None:
        """Let a client leave; the session continues."""
        if attachment not in self.attachments:
            return
        self.attachments.remove(attachment)
        self.touch()
        attachment.close()
        self.host_of(attachment.seat.client).leave()
        self.forget_host(attachment.seat.client)
        self._send_others(attachment, ClientLeft(client=attachment.seat.client))
        self._mind_clock()

    def _send_others(self, attachment: SessionAttachment, event: ClientJoined | ClientLeft) -> None:
        for other in self.attachments:
            if other is not attachment:
                other.send_event(event)

    def _mind_clock(self) -> None:
        """The time for answers stands still while no client is there that may answer."""
        clock = self.engine.conversation.answer_clock
        if any(each.role == "control" for each in self.attachments):
            clock.start()
        else:
            clock.stop()

    def check_alone(self, attachment: SessionAttachment) -> None:
        """Raises:
        CommandError: another client controls the session, too.
        """
        others = (each for each in self.attachments if each is not attachment)
        if any(each.role == "control" for each in others):
            text = "Other clients control this session. Open another session instead."
            raise CommandError(text, code="shared")

    def touch(self) -> None:
        """Note that a client has used the session."""
        self.used_at = asyncio.get_running_loop().time()

    def clients(self) -> tuple[AttachedClient, ...]:
        return tuple(
            AttachedClient(
                client=each.seat.client, name=each.seat.name, role=each.role, behind=each.behind
            )
            for each in self.attachments
        )

    # ------------------------------------------------------------ state

    @property
    def activity(self) -> SessionActivity:
        if self.engine.open_dialogs():
            return "waiting"
        return "idle" if self.is_idle else "running"

    @property
    def is_idle(self) -> bool:
        engine = self.engine
        return (
            engine.is_settled and not engine.compactor.running and self.pacing.turn is None
        ) and not engine.shell.is_busy

    @property
    def path(self) -> Path | None:
        return self.engine.session.path

    @property
    def is_stored(self) -> bool:
        """Return whether the session can be loaded again; one without a file cannot."""
        return self.path is not None

    @property
    def is_unused(self) -> bool:
        """Return whether no client is attached and nothing runs or waits for an answer."""
        return not self.attachments and self.activity == "idle"

    def summary(self) -> SessionSummary:
        session = self.engine.session
        return SessionSummary(
            session=self.id,
            path=str(session.path) if session.path is not None else None,
            cwd=str(self.engine.workspace.cwd),
            name=session.name,
            state=self.activity,
            clients=len(self.attachments),
            dialogs=len(self.engine.open_dialogs()),
            updated=iso_time(self._changed_at),
            title=short_title(session.name, first_prompt(session)),
        )

    # ------------------------------------------------------------ snapshots

    def snapshot(self, role: ClientRole, entry: str | None, last: int) -> list[bytes]:
        """Return the session at the end of the log, as pieces of JSON."""
        session = self.engine.session
        found = path_after(session, entry) if entry is not None else None
        more = False
        if found is None or len(found) > MAX_ENTRIES:
            found, more = path_tail(session, max(0, min(last, MAX_ENTRIES)))
        current = with_model(Reply(command="get_state", data=state(self.engine))).data
        self.figures.snapshots += 1
        cursor = self.log.cursor_at(self.begins_at)
        pieces = [
            b'{"session":%b,"role":"%b",' % (dumps(self.id), role.encode()),
            b'"mode":"snapshot","cursor":"%b",' % cursor.encode(),
            b'"state":%b,"leafId":%b,"entries":[' % (dumps(current), dumps(session.leaf)),
            b",".join(map(entry_json, found)),
            b'],"more":true,' if more else b"],",
            b'"underway":',
            self._underway.json(self.engine.open_dialogs()),
        ]
        is_cut = self.is_idle and is_interrupted(session)
        return [*pieces, b',"interrupted":true}' if is_cut else b"}"]

    # ------------------------------------------------------------ life

    def _follow(self) -> None:
        """The engine has opened another session: everything that follows has its id."""
        origin, self.id = self.id, self.engine.session.id
        if origin == self.id:
            return
        moved = SessionMoved(origin=origin, to=self.id)
        for attachment in self.attachments:
            attachment.send_event(moved, session=origin)
            attachment.seat.move(origin, attachment)
        self.log.clear()
        self.log = SessionLog(self.id, self._settings.ring, self._settings.pool)
        for attachment in self.attachments:
            attachment.start_over()
        self._moved(self, origin)

    async def close(self) -> None:
        """Stop what runs, store it, and free what the session holds; commands are answered."""
        if self._timer is not None:
            self._timer.cancel()
        self.engine.disconnect()
        for side in self._hosts.values():
            side.close()
        try:
            if self.pacing.turn is not None:
                await asyncio.wait((self.pacing.turn,), timeout=_TURN_SECONDS)
            self.engine.shell.abort()
            await self.engine.abort()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_COMMAND_SECONDS):
                    await self.pacing.tasks.ended()
            await self.engine.close()
        finally:
            await self.pacing.tasks.close()
            for attachment in tuple(self.attachments):
                self._dismiss(attachment)
            self.log.clear()

    def _dismiss(self, attachment: SessionAttachment) -> None:
        """Let a client leave that did not ask for it; one that has only this session is done."""
        seat = attachment.seat
        seat.attachments.pop(self.id, None)
        connection = seat.connection
        if connection is not None:
            attachment.send_event(SessionClosed())
            connection.forget(attachment)
        self.detach(attachment)
        if connection is not None and seat.bare:
            connection.end(GOING_AWAY)
