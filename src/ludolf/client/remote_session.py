"""A session of a server: the commands of RPC mode by name, and its events in order."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base import dumps
from ludolf.client.answering import HostAnswers
from ludolf.client.errors import ClientError, OddAnswer, ServerClosed, SessionGone
from ludolf.client.events import Record, SessionEventReader, SessionSnapshot
from ludolf.client.exchange import SECONDS, accepted, as_record
from ludolf.client.link import ServerLink
from ludolf.client.outbox import SentCommand
from ludolf.client.remote_options import RemoteOptions
from ludolf.client.settling import unseen_prompts, user_text
from ludolf.client.typed import TIMEOUT, TypedExchange
from ludolf.client.unread import MOST, Unread
from ludolf.protocol.commands import COMMANDS
from ludolf.protocol.server import ClientRole
from ludolf.protocol.ui import DIALOGS
from ludolf.protocol.wire.dialects import WIRE
from ludolf.protocol.wire.stored import read_open

UNREAD_BYTES = 32 << 20
# Replies and ids of dialogs and calls that are remembered; the oldest are dropped.
_KEPT = 1000


class RemoteSession(TypedExchange):
    """Attached by `RemoteClient.open` or `attach`; the session outlives the client.

    Each command of RPC mode has a method with its name. Events that are not read wait here; if
    they are too many, the reader gets `Resynced` instead.
    """

    _ends = (ServerClosed, SessionGone)

    def __init__(self, link: ServerLink, tasks: Tasks, options: RemoteOptions) -> None:
        super().__init__(WIRE["pi-delta"], is_ours=True)
        self._link = link
        self._reader = SessionEventReader(self.wire)
        self._timeout = options.get("timeout", TIMEOUT)
        self.unread = Unread(options.get("unread_bytes", UNREAD_BYTES), MOST)
        self._answers = HostAnswers(
            tasks, self.send, options.get("tools", ()), options.get("on_dialog")
        )
        self._handed: dict[str, None] = {}
        self._replies: dict[bytes, SentCommand] = {}
        self._news = asyncio.Event()
        self._error: ClientError | None = None
        self.id = ""
        self.role: ClientRole = "control"
        self._data: Record = {}
        self._epoch, self._seq = "", 0
        # The last entry of the snapshot, and the user's messages that came as events since.
        self._leaf: str | None = None
        self._seen = 0
        self.unseen: list[str] | None = None
        self._lags = False

    @property
    def snapshot(self) -> SessionSnapshot:
        """The session when the client attached, or when it last received `Resynced`.

        Raises:
            OddAnswer: the server sent something else.
        """
        try:
            return msgspec.convert(self._data, SessionSnapshot, dec_hook=read_open)
        except (msgspec.ValidationError, UnicodeEncodeError) as error:
            raise OddAnswer(f"attach: {error}") from error

    @property
    def snapshot_record(self) -> Record:
        """The snapshot as the server sent it."""
        return self._data

    @property
    def cursor(self) -> str:
        """The place of the last event that arrived; `attach` with it continues there."""
        return f"{self._epoch}-{self._seq}"

    async def detach(self) -> None:
        """Leave the session, which continues on the server; its events end."""
        if self._error is None:
            self._link.members.pop(self.id, None)
            self.lose(SessionGone(f"The client has detached from session {self.id}."))
            accepted("detach", await self._link.ask("detach", {"session": self.id}))

    # ------------------------------------------------------------ commands

    async def send(self, command: str, /, **params: Any) -> Any:
        """Send a command and return its id. An id that is given must be new to the server.

        Raises:
            SessionGone: the client is not attached any more.
            ServerClosed: the client is closed, or has given up.
        """
        if self._error is not None:
            raise self._error
        given = {"id": params.pop("id", None) or self.new_id(), "session": self.id, **params}
        sent = self._link.command(command, given)
        spec = COMMANDS.get(command)
        if spec is not None and spec.unanswered:
            sent.reply = None
        else:
            self._remember(sent)
        await self._link.send(sent)
        return given["id"]

    async def reply_to(self, command_id: Any, timeout: float | None = SECONDS) -> Record:
        """The reply to a command that was sent, whether it succeeded or not.

        Raises:
            NoAnswer: no reply came in time. The command may still be done.
            OutcomeUnknown: the server restarted before it replied.
            SessionGone: the server does not have the session any more.
            ServerClosed: the client is closed, or has given up.
        """
        sent = self._replies.get(dumps(command_id))
        if sent is None or sent.reply is None:
            raise ClientError(f"No reply is expected to {command_id!r}.")
        async with self._limit(timeout, f"reply to {command_id!r}"):
            reply = await asyncio.shield(sent.reply)
        self._replies.pop(sent.key, None)
        return reply

    def new_id(self) -> str:
        return self._link.new_id()

    def has(self, key: bytes) -> bool:
        sent = self._replies.get(key)
        return sent is not None and sent.reply is not None and sent.reply.done()

    def take_reply(self, key: bytes) -> Record | None:
        if not self.has(key):
            return None
        reply = self._replies.pop(key).reply
        return reply.result() if reply is not None else None

    async def read_until(self, is_there: Callable[[], bool]) -> None:
        """Wait for one record, unless the wanted one is there.

        Raises:
            SessionGone: the session has ended here.
            ServerClosed: the client is closed, or has given up.
        """
        if self._lags:
            await self._catch_up()
        if is_there():
            return
        if self._error is not None:
            raise self._error
        self._news.clear()
        await self._news.wait()

    # ------------------------------------------------------------ for the connection

    def position(self, *, exact: bool) -> dict[str, Any]:
        """The parameters of `attach` that continue here; `exact` asks for a snapshot."""
        cursor = {} if exact or self._lags else {"cursor": self.cursor}
        entry = {} if self._leaf is None else {"entry": self._leaf}
        return {"role": self.role, **cursor, **entry}

    def registrations(self) -> list[tuple[str, dict[str, Any]]]:
        """The commands that a server which forgot this client has to get again."""
        tools = self._answers.tools
        return [("set_host_tools", {"tools": tools})] if tools else []

    def receive(self, record: Record, size: int) -> None:
        """Take a frame of this session."""
        record.pop("session", None)
        seq = record.pop("seq", None)
        if isinstance(seq, int):
            if seq <= self._seq:
                return
            self._seq = seq
        self._last.append(record["type"])
        if record["type"] == "resync":
            self.rejoin(as_record(record.get("data")))
            return
        if record["type"] == "message_end" and user_text(record.get("message")) is not None:
            self._seen += 1
        if not self._is_answered(record):
            self._add(record, size)

    def join(self, data: Record) -> None:
        """Begin at the snapshot of the first answer."""
        self.id = str(data.get("session"))
        self.role = "view" if data.get("role") == "view" else "control"
        self._begin_at(data)
        self._offer_dialogs(data)

    def rejoin(self, data: Record) -> None:
        """Continue: the missed frames follow, or this snapshot replaces them."""
        if data.get("mode") == "replay":
            return
        self.unseen = unseen_prompts(data, self._leaf, self._seen)
        self._begin_at(data)
        self._lags = False
        unanswered = self._link.unanswered(self.id)
        self._add({"type": "resync", "data": data, "unanswered": unanswered}, 0)
        self._offer_dialogs(data)

    def lose(self, error: ClientError) -> None:
        """End: callers that wait get this error."""
        if self._error is None:
            is_end = isinstance(error, self._ends)
            self._error = error if is_end else SessionGone(f"Session {self.id} is lost: {error}")
            self._news.set()

    # ------------------------------------------------------------ private

    def _begin_at(self, data: Record) -> None:
        self._data = data
        epoch, _, seq = str(data.get("cursor")).rpartition("-")
        self._epoch, self._seq = epoch, int(seq) if seq.isdecimal() else 0
        leaf = data.get("leafId")
        self._leaf, self._seen = leaf if isinstance(leaf, str) else None, 0

    def _add(self, record: Record, size: int) -> None:
        if not self._lags:
            self.unread.add(record, size)
            if self.unread.is_full():
                self._lags = True
                self.unread.clear()
        self._news.set()

    async def _catch_up(self) -> None:
        """Ask for a snapshot, since events were dropped."""
        params = {"session": self.id, **self.position(exact=True)}
        reply = await self._link.ask(
            "attach", params, lambda record: self.rejoin(as_record(record.get("data")))
        )
        accepted("attach", reply)

    def _is_answered(self, record: Record) -> bool:
        """Hand a call or a dialog to its function, each once."""
        match record:
            case {"type": "host_tool_call", "id": str(id)}:
                pass
            case {"type": "extension_ui_request", "method": method, "id": str(id)} if (
                method in DIALOGS
            ):
                pass
            case _:
                return self._answers.take(record)
        if id in self._handed:
            return True
        is_taken = self._answers.take(record)
        if is_taken:
            self._handed[id] = None
            _trim(self._handed)
        return is_taken

    def _offer_dialogs(self, data: Record) -> None:
        dialogs = as_record(data.get("underway")).get("dialogs")
        for each in dialogs if isinstance(dialogs, list) else ():
            if isinstance(each, dict):
                self._is_answered({"type": "extension_ui_request", **each})

    def _remember(self, sent: SentCommand) -> None:
        assert sent.reply is not None
        sent.reply.add_done_callback(lambda _: self._news.set())
        self._replies[sent.key] = sent
        _trim(self._replies)

    def _context(self) -> str:
        return self._link.state


def _trim(kept: dict[Any, Any]) -> None:
    while len(kept) > _KEPT:
        del kept[next(iter(kept))]
