"""A server in process: real sessions and a scripted model, clients on pipes of memory."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

from ludolf.agent.scope import Tasks
from ludolf.ai.builtin.scripted import Scripted, ScriptedReply
from ludolf.base import dumps, loads
from ludolf.config.settings.options import Options
from ludolf.protocol import server as wire
from ludolf.serve.connection import ServedConnection
from ludolf.serve.options import ServeOptions
from ludolf.serve.seat import SHARED_DIALECT
from ludolf.serve.server import SessionServer
from ludolf.serve.slot import Slot
from tests.frames import frames_out, server_frames_out
from tests.loop.tools import Gates, stage_tools

Record = dict[str, Any]
Test = Callable[[Record], bool]
WAIT_SECONDS = 30.0
# Frames of the server itself, in every dialect.
_OWN_FRAMES = (
    "client_joined",
    "client_left",
    "session_moved",
    "session_closed",
    "server_closing",
    "resync",
)


def check_frame(record: Record, dialect: str, *, bare: bool) -> None:
    """Hold a frame against the schema of the server, or that of a dialect of its own."""
    is_reply = record["type"] == "response" and record.get("command") in wire.SERVER_COMMANDS
    if (dialect == SHARED_DIALECT and not bare) or is_reply or record["type"] in _OWN_FRAMES:
        server_frames_out().check(record)
        return
    hidden = ("session", "seq", "repeated", "code", "by")
    plain = {key: value for key, value in record.items() if key not in hidden}
    frames_out(dialect).check(plain)


class Client:
    """One client. `frames` is what it has read; a cut drops what it has not read."""

    def __init__(
        self,
        service: "Service | None",
        name: str | None,
        *,
        dialect: str = "pi-delta",
        bare: bool = False,
    ) -> None:
        self._own_service = service
        self.name = name
        self.dialect = dialect
        self.bare = bare
        self.frames: list[Record] = []
        self.connection: ServedConnection | None = None
        # Lines on the way. `pauses`: they are read only by `read`.
        self.wire: list[bytes] = []
        self.pauses = False
        # The schema is the costliest part of a long play: there, not every frame is checked.
        self.checked_one_in = 1
        self.ended = asyncio.Event()
        self._changed = asyncio.Event()
        self._numbers = count(1)
        self._reading: asyncio.Task[None] | None = None

    @property
    def _service(self) -> "Service":
        assert self._own_service is not None
        return self._own_service

    # ------------------------------------------------------------ connection

    @property
    def is_connected(self) -> bool:
        return self.connection is not None

    def connect(self, *, remote: bool = False, trusted: bool = True) -> "Client":
        connection = self._service.server.connect(remote=remote, trusted=trusted)
        self.connection = connection
        self.ended = asyncio.Event()
        self._reading = self._service.tasks.start(self._read_all(connection))
        return self

    async def hello(self, **fields: Any) -> Record:
        about = {"client": self.name, "dialect": self.dialect, "bare": self.bare, **fields}
        return await self.ask("hello", **about)

    def cut(self) -> None:
        """Lose the connection without notice, and everything that was on its way."""
        assert self.connection is not None
        assert self._reading is not None
        self._reading.cancel()
        self.connection.lost()
        self.connection = None
        self.wire.clear()

    @property
    def close_code(self) -> int:
        assert self.connection is not None
        return self.connection.close_code

    async def closed(self) -> int:
        """Wait for the end of the connection; returns its close code."""
        async with asyncio.timeout(WAIT_SECONDS):
            await self.ended.wait()
        return self.close_code

    async def _read_all(self, connection: ServedConnection) -> None:
        while data := await connection.outgoing():
            assert data.endswith(b"\n")
            self.wire += data.splitlines()
            if not self.pauses:
                self.read(len(self.wire))
        self.ended.set()
        self._changed.set()

    def read(self, lines: int) -> list[Record]:
        """Read so many of the lines that have arrived."""
        taken, self.wire = self.wire[:lines], self.wire[lines:]
        records = [loads(line) for line in taken]
        for record in records[:: self.checked_one_in]:
            check_frame(record, self.dialect, bare=self.bare)
        self.frames += records
        self._changed.set()
        return records

    # ------------------------------------------------------------ commands

    def feed(self, *lines: bytes) -> None:
        assert self.connection is not None
        self.connection.feed(list(lines))

    def send(self, name: str, /, **fields: Any) -> str:
        """Send a command; returns its id."""
        fields = {"id": f"{name}-{next(self._numbers)}", **fields}
        self.feed(dumps({"type": name, **fields}))
        return str(fields["id"])

    async def ask(self, name: str, /, **fields: Any) -> Record:
        """Send a command and wait for its reply."""
        since = len(self.frames)
        number = self.send(name, **fields)
        return await self.until(
            lambda each: each["type"] == "response" and each.get("id") == number, since
        )

    async def data(self, name: str, /, **fields: Any) -> Any:
        """Send a command that must succeed; returns its data."""
        reply = await self.ask(name, **fields)
        assert reply["success"], reply
        return reply.get("data")

    async def refusal(self, name: str, /, **fields: Any) -> tuple[str, str | None]:
        """Send a command that must fail; returns the text and the code of its error."""
        reply = await self.ask(name, **fields)
        assert not reply["success"], reply
        return reply["error"], reply.get("code")

    async def open(self, **fields: Any) -> Any:
        """Open a session; returns the answer."""
        data = await self.data("open", **{"cwd": str(self._service.work), **fields})
        self._service.equip(data["session"])
        return data

    async def run(self, text: str, **fields: Any) -> list[Record]:
        """Prompt and wait for the end of the run; returns the frames from the reply on."""
        since = len(self.frames)
        await self.data("prompt", message=text, **fields)
        await self.until("agent_settled", since)
        return self.frames[since:]

    # ------------------------------------------------------------ frames

    async def until(self, test: Test | str, since: int = 0) -> Record:
        """Return the first frame from `since` on that passes the test or has this type."""

        def passes(record: Record) -> bool:
            return test(record) if callable(test) else record["type"] == test

        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    found = next(filter(passes, self.frames[since:]), None)
                    if found is not None:
                        return found
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            seen = [str(each)[:200] for each in self.frames[since:][-20:]]
            raise AssertionError("not among these frames:\n" + "\n".join(seen)) from None

    def of_type(self, kind: str, since: int = 0) -> list[Record]:
        return [each for each in self.frames[since:] if each["type"] == kind]


class SocketClient(Client):
    """A client on a Unix socket, as abrupt as a process that is killed."""

    def __init__(self, path: Path, name: str | None, **about: Any) -> None:
        super().__init__(None, name, **about)
        self.path = path
        self._socket: socket.socket | None = None
        self._rest = b""

    @property
    def is_connected(self) -> bool:
        return self._socket is not None

    def connect(self, *, remote: bool = False, trusted: bool = True) -> "SocketClient":
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(self.path))
        self._socket.setblocking(False)
        self._rest = b""
        self.ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._socket, self._arrive, self._socket)
        return self

    def cut(self) -> None:
        assert self._socket is not None
        asyncio.get_running_loop().remove_reader(self._socket)
        self._socket.close()
        self._socket = None
        self.wire.clear()

    def feed(self, *lines: bytes) -> None:
        assert self._socket is not None
        try:
            self._socket.sendall(b"".join(line + b"\n" for line in lines))
        except BrokenPipeError:
            self._arrive(self._socket)

    def half_close(self) -> None:
        assert self._socket is not None
        self._socket.shutdown(socket.SHUT_WR)

    async def closed(self) -> int:
        """Wait for the end of the connection."""
        async with asyncio.timeout(WAIT_SECONDS):
            await self.ended.wait()
        return 0

    def _arrive(self, source: socket.socket) -> None:
        try:
            data = source.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self.wire += lines
        if not self.pauses:
            self.read(len(self.wire))
        if not data:
            asyncio.get_running_loop().remove_reader(source)
            self.ended.set()
            self._changed.set()


class Asking:
    """An extension with dialogs: `/ask`, `/choose`, and `/show` with things that last."""

    def __init__(self) -> None:
        self.answers: list[Any] = []

    def __call__(self, api: Any) -> None:
        api.command("ask")(self._ask)
        api.command("choose")(self._choose)
        api.command("show")(self._show)

    async def _ask(self, args: str, ctx: Any) -> None:
        self.answers.append(await ctx.ui.input(args or "Name?"))

    async def _choose(self, args: str, ctx: Any) -> None:
        limit = int(args) if args else None
        self.answers.append(await ctx.ui.select("Which?", ["red", "blue"], timeout=limit))

    async def _show(self, args: str, ctx: Any) -> None:
        ctx.ui.set_status("state", args or None)
        ctx.ui.set_widget("list", [args] if args else None)
        ctx.ui.set_title(args)


class Service:
    """One server with a home of its own. `script` is what the model says in all sessions."""

    def __init__(self, root: Path, server: SessionServer, asking: Asking) -> None:
        self.root = root
        self.work = root / "work"
        self.server = server
        self.asking = asking
        self.tasks = Tasks()
        self.gates = Gates()
        self.script = Scripted(())
        self._clients: list[Client] = []

    def client(self, name: str | None = None, **about: Any) -> Client:
        """Return a client that has not connected."""
        client = Client(self, name, **about)
        self._clients.append(client)
        return client

    async def join(self, name: str, **about: Any) -> Client:
        """Return a client that has said hello."""
        client = self.client(name, **about).connect()
        reply = await client.hello()
        assert reply["success"], reply
        return client

    def slot(self, session: str) -> Slot:
        slot = self.server.loaded(session)
        assert slot is not None, session
        return slot

    def equip(self, session: str) -> None:
        """Give a loaded session the model and the tools of this test."""
        engine = self.slot(session).engine
        engine.models.providers.register(self.script)
        engine.toolset.provide("stage", stage_tools(self.gates))

    async def unloaded(self, session: str) -> None:
        await self.holds(lambda: self.server.loaded(session) is None)

    async def holds(self, test: Callable[[], bool]) -> None:
        await holds(test)


async def holds(test: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not test():  # noqa: ASYNC110  # no event says when
            await asyncio.sleep(0.001)


@asynccontextmanager
async def service(
    root: Path,
    *replies: ScriptedReply,
    settings: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    guard: Any = None,
    **serve: Any,
) -> AsyncIterator[Service]:
    """A server; `options` are those of its sessions, `serve` its own."""
    failures: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    asking = Asking()
    chosen = {
        "cwd": make_home(root, settings or {}),
        "environ": environment(root),
        "model": "ludolf/scripted",
        "no_context_files": True,
        "factories": (asking,),
        **(options or {}),
    }
    made_of = ServeOptions(options=Options(**chosen), agent_dir=root / "agent", **serve)
    server = SessionServer(made_of, guard)
    made = Service(root, server, asking)
    made.script.add(*replies)
    serving = made.tasks.start(server.serve())
    try:
        yield made
    finally:
        made.gates.open_all()
        serving.cancel()
        await asyncio.wait((serving,))
        async with asyncio.timeout(WAIT_SECONDS):
            await server.close(0)
            await server.tasks.close()
        await made.tasks.close()
    assert failures == [], failures
    check_nothing_left(server)


def check_nothing_left(server: SessionServer) -> None:
    assert len(server.slots) == 0
    assert server.connections == set()


def environment(root: Path) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(root / "home"),
        "LUDOLF_DIR": str(root / "agent"),
        "LUDOLF_LOCAL_SERVERS": "0",
    }


def make_home(root: Path, settings: dict[str, Any]) -> Path:
    """Make the folders of a test; returns the one that sessions work in."""
    for name in ("agent", "home", "work"):
        (root / name).mkdir(parents=True, exist_ok=True)
    retry = {"baseDelayMs": 1, "jitter": 0, **settings.pop("retry", {})}
    (root / "agent" / "settings.json").write_bytes(dumps({**settings, "retry": retry}))
    return root / "work"


def numbers(frames: Sequence[Record]) -> list[int]:
    return [each["seq"] for each in frames if "seq" in each]
