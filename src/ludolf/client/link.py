"""The connection of a client to a server: it is opened again when it is cut."""

import asyncio
import os
import random
import secrets
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base import dumps
from ludolf.base.addresses import Address
from ludolf.client.errors import (
    ClientError,
    NotAdmitted,
    OutcomeUnknown,
    Refused,
    ServerClosed,
    ServerUnreachable,
)
from ludolf.client.events import Record
from ludolf.client.exchange import accepted, as_record, read_record
from ludolf.client.lines import Socket
from ludolf.client.outbox import Outbox, SentCommand
from ludolf.client.settling import fate_of
from ludolf.config.settings.server_places import token_for

_NOT_ADMITTED, _REPLACED = 4401, 4409


class LinkOptions(msgspec.Struct, kw_only=True):
    """`client` names this client to the server, also after a new connection.

    After a cut, the first attempt to connect waits `first_delay` seconds, each further one twice
    as long, up to `longest_delay`. After `patience` seconds without a connection the client gives
    up; None: never.
    """

    client: str
    name: str | None = None
    token: str | None = None
    ca: str | None = None
    first_delay: float = 0.1
    longest_delay: float = 10.0
    patience: float | None = None
    ping_seconds: float = 20.0
    trace: Callable[[bytes], None] | None = None


class Member(Protocol):
    """A session that the client is attached to."""

    id: str
    # The user's messages that a snapshot has shown and events have not; None: not known.
    unseen: list[str] | None

    def position(self, *, exact: bool) -> dict[str, Any]:
        """The parameters of `attach` that continue this session; `exact` asks for a snapshot."""
        ...

    def receive(self, record: Record, size: int) -> None: ...
    def rejoin(self, data: Record) -> None: ...
    def registrations(self) -> list[tuple[str, dict[str, Any]]]:
        """The commands that a server which forgot this client has to get again."""
        ...

    def lose(self, error: ClientError) -> None: ...


class ServerLink:
    """Delivers commands at most once and frames in order, across any number of connections."""

    def __init__(self, address: Address, options: LinkOptions) -> None:
        self.address = address
        self.options = options
        self.members: dict[str, Member] = {}
        self.boot = ""
        self._outbox = Outbox()
        self._tasks = Tasks()
        # Ids differ from those that an earlier client with the same name has used.
        self._prefix, self._count = secrets.token_hex(4), 0
        self._shakes: dict[bytes, tuple[asyncio.Future[Record], Member | None]] = {}
        self._socket: Socket | None = None
        self._greeted: asyncio.Future[None] | None = None
        self._heard_at = 0.0
        self._attempts = 0
        self._ends_soon = False
        self._refusal: ClientError | None = None
        self.error: ClientError | None = None

    # ------------------------------------------------------------ life

    async def open(self) -> None:
        """Connect and say hello.

        Raises:
            ServerUnreachable: no server answers.
            NotAdmitted: the server does not accept the token.
        """
        socket = await Socket.connect(self.address, self.options.ca)
        self._greeted = asyncio.get_running_loop().create_future()
        self._tasks.start(self._live(socket))
        self._tasks.start(self._ping())
        try:
            await self._greeted
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Close the connection; the sessions continue on the server."""
        await self._tasks.close()
        self._fail(ServerClosed("The client is closed."))

    @property
    def state(self) -> str:
        """The connection in words, for errors."""
        return f"{'connected' if self._socket else 'not connected'} to {self.address}"

    # ------------------------------------------------------------ commands

    def new_id(self) -> str:
        self._count += 1
        return f"{self._prefix}-{self._count}"

    async def send(self, command: SentCommand) -> None:
        """Send a command, now or when there is a connection.

        Raises:
            ClientError: the client is closed, or has given up.
        """
        if self.error is not None:
            raise self.error
        self._outbox.add(command)
        if self._socket is not None:
            await self._flush(self._socket)

    async def ask(
        self, name: str, params: dict[str, Any], on_reply: Callable[[Record], None] | None = None
    ) -> Record:
        """Send a command and wait for its reply."""
        command = self.command(name, {"id": self.new_id(), **params}, on_reply)
        await self.send(command)
        assert command.reply is not None
        return await command.reply

    def command(
        self, name: str, params: dict[str, Any], on_reply: Callable[[Record], None] | None = None
    ) -> SentCommand:
        future: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        return SentCommand(dumps(params["id"]), name, params, future, on_reply)

    def unanswered(self, session: str) -> list[Any]:
        """The ids of the commands to a session that have no reply yet."""
        return [each.params["id"] for each in self._outbox if each.session == session]

    def expect_end(self) -> None:
        """Do not connect again after the server has closed the connection."""
        self._ends_soon = True

    # ------------------------------------------------------------ connections

    async def _live(self, socket: Socket) -> None:
        try:
            while True:
                await self._use(socket)
                socket = await self._dial()
        except ClientError as error:
            self._fail(error)

    async def _use(self, socket: Socket) -> None:
        """Say hello and take what the server sends, until the connection is cut."""
        greeting = self._tasks.start(self._greet(socket))
        self._heard_at = asyncio.get_running_loop().time()
        try:
            while (line := await socket.read_line()) is not None:
                self._hear(line)
            self._drop_shakes()
            await socket.close()
            await asyncio.wait((greeting,))  # it may hold a refusal
        finally:
            greeting.cancel()
            await asyncio.wait((greeting,))
            self._socket = None
            self._outbox.rewind()
            await socket.close()
        self._check_end(socket.close_code)

    def _drop_shakes(self) -> None:
        for future, _ in self._shakes.values():
            if not future.done():
                future.set_exception(ServerClosed("The connection was cut."))
                future.exception()
        self._shakes.clear()

    def _check_end(self, code: int) -> None:
        if self._refusal is not None:
            raise self._refusal
        if code == _NOT_ADMITTED:
            raise NotAdmitted(f"The server at {self.address} does not accept the token.")
        if code == _REPLACED:
            raise ServerClosed(f"Another connection uses the client name {self.options.client}.")
        if not self.boot:
            reason = "it closed the connection before it answered hello"
            raise ServerUnreachable(f"No server answers at {self.address}: {reason}.")
        if self._ends_soon:
            raise ServerClosed(f"The server at {self.address} has ended.")

    async def _dial(self) -> Socket:
        loop = asyncio.get_running_loop()
        begin, options = loop.time(), self.options
        while True:
            delay = min(options.longest_delay, options.first_delay * 2 ** min(self._attempts, 30))
            self._attempts += 1
            await asyncio.sleep(delay * random.uniform(0.5, 1))
            try:
                return await Socket.connect(self.address, options.ca)
            except ServerUnreachable:
                if options.patience is not None and loop.time() - begin > options.patience:
                    raise

    async def _ping(self) -> None:
        loop, seconds = asyncio.get_running_loop(), self.options.ping_seconds
        while True:
            await asyncio.sleep(seconds)
            socket = self._socket
            if socket is None:
                continue
            if loop.time() - self._heard_at > 3 * seconds:
                await socket.close()  # the reader then connects again
            elif self.error is None:
                await self.send(self.command("ping", {"id": self.new_id()}))

    # ------------------------------------------------------------ hello

    async def _greet(self, socket: Socket) -> None:
        """Introduce the client, attach its sessions again, send what has no reply."""
        try:
            welcome = accepted("hello", await (await self._shake(socket, "hello", self._hello())))
            welcome = as_record(welcome)
            known = bool(welcome.get("known")) or not self.boot
            self.boot = str(welcome.get("boot"))
            await self._rejoin(socket, known=known)
        except ServerClosed:
            return  # the reader sees the same end
        except Refused as error:
            if error.code == "unauthorized":
                self._refusal = NotAdmitted(f"The server at {self.address} refused hello: {error}")
            elif error.code != "full" or not self.boot:
                self._refusal = error
            await socket.close()  # which ends the reader
            return
        self._attempts = 0
        self._socket = socket
        if self._greeted is not None and not self._greeted.done():
            self._greeted.set_result(None)
        await self._flush(socket)

    def _hello(self) -> dict[str, Any]:
        token = self.options.token or token_for(self.address, os.environ)
        given = {"client": self.options.client, "name": self.options.name, "token": token}
        return {name: value for name, value in given.items() if value is not None}

    async def _rejoin(self, socket: Socket, *, known: bool) -> None:
        members = list(self.members.values())
        waiting = []
        for each in members:
            exact = not known and bool(self.unanswered(each.id))
            params = {"session": each.id, **each.position(exact=exact)}
            waiting.append(await self._shake(socket, "attach", params, each))
        for each, future in zip(members, waiting, strict=True):
            reply = await future
            if not reply["success"]:
                self._lose(each, Refused(f"attach: {reply['error']}", reply.get("code")))
        if not known:
            self._settle()

    async def _shake(
        self, socket: Socket, name: str, params: dict[str, Any], member: Member | None = None
    ) -> asyncio.Future[Record]:
        id = self.new_id()
        future: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
        self._shakes[dumps(id)] = future, member
        await socket.write(dumps({"id": id, "type": name, **params}) + b"\n")
        return future

    def _settle(self) -> None:
        """Decide on each command without a reply: the server does not know whether it did it."""
        for each in list(self._outbox):
            member = self.members.get(each.session or "")
            fate = fate_of(each, member.unseen if member else None)
            if fate == "again":
                continue
            self._outbox.drop(each)
            if fate == "done":
                data = {"disposition": "started"}
                each.answer({"type": "response", "success": True, "data": data, "repeated": True})
            else:
                each.fail(
                    OutcomeUnknown(
                        f"{each.command}: the server restarted before it replied, so the command "
                        "may have been done. Look at the session before you send it again."
                    )
                )
        for member in self.members.values():
            for name, params in member.registrations():
                given = {"id": self.new_id(), "session": member.id, **params}
                self._outbox.add(self.command(name, given))

    # ------------------------------------------------------------ frames

    async def _flush(self, socket: Socket) -> None:
        try:
            while socket is self._socket and (command := self._outbox.next()) is not None:
                await socket.write(command.line)
        except ServerClosed:
            return  # it is sent again on the next connection

    def _hear(self, line: bytes) -> None:
        if self.options.trace is not None:
            self.options.trace(line)
        self._heard_at = asyncio.get_running_loop().time()
        record = read_record(line)
        session = record.get("session")
        if record["type"] == "response":
            self._take_reply(record)
        elif record["type"] == "session_moved":
            self._move(record)
        elif isinstance(session, str):
            member = self.members.get(session)
            if member is not None:
                member.receive(record, len(line))
        elif record["type"] == "server_closing":
            for member in self.members.values():
                member.receive(dict(record), len(line))

    def _take_reply(self, record: Record) -> None:
        if not isinstance(record.get("success"), bool):
            return
        record.setdefault("error", "the server gave no reason")
        key = dumps(record.get("id"))
        future, member = self._shakes.pop(key, (None, None))
        if future is not None:
            if member is not None and record["success"]:
                member.rejoin(as_record(record.get("data")))
            if not future.done():
                future.set_result(record)
            return
        command = self._outbox.take(key)
        if command is not None:
            command.answer(record)

    def _move(self, record: Record) -> None:
        member = self.members.pop(str(record.get("from")), None)
        if member is not None:
            member.id = str(record.get("to"))
            self.members[member.id] = member
            member.receive(record, 0)

    # ------------------------------------------------------------ ends

    def _lose(self, member: Member, error: ClientError) -> None:
        self.members.pop(member.id, None)
        member.lose(error)
        for each in list(self._outbox):
            if each.session == member.id:
                self._outbox.drop(each)
                each.fail(error)

    def _fail(self, error: ClientError) -> None:
        """End all waiting with this error."""
        if self.error is not None:
            return
        self.error = error
        for member in list(self.members.values()):
            self._lose(member, error)
        for each in list(self._outbox):
            self._outbox.drop(each)
            if each.command == "shutdown" and self._ends_soon:
                each.answer({"type": "response", "success": True})
            each.fail(error)
        if self._greeted is not None and not self._greeted.done():
            self._greeted.set_exception(error)
            self._greeted.exception()
