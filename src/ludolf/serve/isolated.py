"""Sessions in processes of their own: each is a server with one session, behind relays.

Code of an extension that blocks or crashes then stops only its own session. The server passes
lines between its clients and the process; everything else happens there.
"""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base import CommandError, dumps
from ludolf.protocol.framing import Body, Head, Reply, render_reply, repair
from ludolf.serve.options import ServeOptions
from ludolf.serve.seat import Seat, joined

ENDED = "The process of this session has ended. The next command starts it again."
START_SECONDS = 60.0
END_SECONDS = 5.0
_LINE = 256 << 20
# Bytes that a client may leave unread before nothing more is taken from the process.
_UNREAD = 1 << 20


class _Frame(msgspec.Struct):
    """What the server has to know of a frame that it passes on."""

    type: str
    id: msgspec.Raw = msgspec.Raw(b"")
    command: str = ""
    data: Any = None
    to: str | None = None


_frames = msgspec.json.Decoder(_Frame)
# Frames that the server looks at; they begin with these bytes after `session`.
_LOOKED_AT = (b'"type":"response"', b'"type":"session_moved"')


class RelayClient(Protocol):
    """The connection of a client, as its relays see it."""

    seat: Seat | None
    current: str | None

    @property
    def unsent(self) -> int:
        """Return the number of bytes that the client has not been sent."""

    def send(self, frame: bytes) -> None:
        """Send a frame to the client."""

    def begun(self) -> None:
        """Note that a command needs a reply."""

    def finished(self) -> None:
        """Note that a command has its reply."""

    async def sent(self) -> None:
        """Wait until something was sent to the client."""


class ChildServer:
    """The process of one session. `sessions` are the ids that it had, the last one is in use."""

    def __init__(self, process: asyncio.subprocess.Process, folder: str) -> None:
        assert process.stdin and process.stdout
        self.process = process
        self.folder = folder
        self.sessions: list[str] = []
        self._input, self._output = process.stdin, process.stdout
        self._turn = asyncio.Lock()

    @property
    def socket(self) -> str:
        return os.path.join(self.folder, "child.sock")

    @property
    def is_running(self) -> bool:
        return self.process.returncode is None

    @classmethod
    async def start(cls, options: ServeOptions, env: Mapping[str, str]) -> "ChildServer":
        """Start a process and wait until it serves.

        Raises:
            CommandError: it has not started.
        """
        folder = tempfile.mkdtemp(prefix="ludolf-isolated-")
        words = ["serve", "--stdio", "--socket", os.path.join(folder, "child.sock")]
        words += ["--unload-after", f"{options.unload_seconds:g}s"]
        words += [word for root in options.roots for word in ("--root", str(root))]
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "ludolf", *words, *options.words,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
            env=dict(env), cwd=options.options.cwd, limit=_LINE,
        )  # fmt: skip
        child = cls(process, folder)
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await child._output.readline()
        except TimeoutError:
            line = b""
        if not line:
            await child.end()
            raise CommandError("The process of the session has not started. See its stderr.")
        return child

    async def command(self, **command: Any) -> Any:
        """Return the data of a reply of the process; None if it has ended or refused."""
        async with self._turn:
            try:
                self._input.write(dumps(command) + b"\n")
                await self._input.drain()
                while line := await self._output.readline():
                    frame = _frames.decode(line)
                    if frame.type == "response":
                        return frame.data
            except (OSError, msgspec.DecodeError):
                return None
        return None

    async def end(self) -> None:
        """End the process: its input ends, which it takes as the end."""
        self._input.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class SessionRelay:
    """Passes lines between one client and the process of one session."""

    def __init__(self, child: ChildServer, client: RelayClient) -> None:
        self.child = child
        self._client = client
        self._pending: dict[bytes, Head] = {}
        self.is_closed = False
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def connect(self) -> None:
        """Raises:
        CommandError: the process has ended.
        """
        try:
            streams = await asyncio.open_unix_connection(self.child.socket, limit=_LINE)
            self._reader, self._writer = streams
            seat = self._client.seat
            assert seat is not None
            hello = {"client": seat.client, "name": seat.name, "dialect": seat.dialect}
            self._writer.write(dumps({"type": "hello", **hello, "bare": seat.bare}) + b"\n")
            welcome = await self._reader.readline()
        except OSError:
            welcome = b""
        if not welcome:
            raise CommandError(ENDED)

    def send(self, head: Head, line: bytes) -> None:
        """Pass a line of the client on."""
        if head.id and bytes(head.id) not in self._pending:
            self._pending[bytes(head.id)] = head
            self._client.begun()
        self._writer.write(line + b"\n")

    async def opened(self) -> None:
        """Wait until the process has answered `open` or `attach`."""
        await self._opened

    async def drained(self) -> None:
        """Wait while the process takes nothing more."""
        with contextlib.suppress(OSError):
            await self._writer.drain()

    async def run(self, moved: Callable[[ChildServer, str], None]) -> None:
        """Pass frames to the client until the process ends; `moved` takes each new session id."""
        try:
            while line := await self._reader.readline():
                self._look_at(line, moved)
                self._client.send(line)
                while self._client.unsent > _UNREAD:
                    await self._client.sent()
        except OSError:
            pass
        finally:
            self._writer.close()
        self._fail_pending()

    def _look_at(self, line: bytes, moved: Callable[[ChildServer, str], None]) -> None:
        if not any(mark in line[:200] for mark in _LOOKED_AT):
            return
        frame = _frames.decode(line)
        if frame.to is not None:
            moved(self.child, frame.to)
            self._client.current = frame.to
            return
        head = self._pending.pop(bytes(frame.id), None)
        if head is not None:
            self._client.finished()
        if frame.command in ("open", "attach"):
            if isinstance(frame.data, dict):
                moved(self.child, frame.data["session"])
                self._client.current = frame.data["session"]
            if not self._opened.done():
                self._opened.set_result(None)

    def _fail_pending(self) -> None:
        """The process has ended: no command stays without a reply."""
        pending, self._pending = self._pending, {}
        for head in pending.values():
            self._client.finished()
            reply = Reply(command=head.type, id=head.id, error=ENDED)
            self._client.send(joined(render_reply(reply)))
        if not self._opened.done():
            self._opened.set_result(None)
        if not self.is_closed and self._client.current is not None:
            session = dumps(self._client.current)
            text = b'{"session":%b,"type":"warning","message":%b}\n'
            self._client.send(text % (session, dumps(ENDED)))

    def close(self) -> None:
        """End the relay: the client is gone."""
        self.is_closed = True
        self._writer.close()


class IsolatedSessions:
    """The processes by the ids of their sessions."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        # None: the session was in a process of its own, which has ended.
        self._children: dict[str, ChildServer | None] = {}
        self._relays: dict[RelayClient, dict[ChildServer, SessionRelay]] = {}
        self._tasks = Tasks()

    def has(self, session: str | None) -> bool:
        return session in self._children

    async def open(self, client: RelayClient, head: Head, line: bytes, env: Any) -> None:
        """Pass `open` to a new process.

        Raises:
            CommandError: it has not started.
        """
        environ = self._options.options.environ if env is None else env
        child = await ChildServer.start(self._options, environ)
        relay = await self._relay(client, child)
        relay.send(head, line)
        await relay.opened()
        if not child.sessions:
            await child.end()

    def ready(self, client: RelayClient, session: str) -> SessionRelay | None:
        """Return the relay of a client to a session, if it is connected."""
        child = self._children.get(session)
        return None if child is None else self._relays.get(client, {}).get(child)

    async def connect(self, client: RelayClient, session: str, head: Head, line: bytes) -> None:
        """Pass a line to a session to which the client has no relay yet.

        The process of the session starts if it has ended.

        Raises:
            CommandError: it has not started.
        """
        child = self._children.get(session)
        if child is None or not child.is_running:
            child = await ChildServer.start(self._options, self._options.options.environ)
            self._moved(child, session)
        relay = await self._relay(client, child)
        relay.send(head, line)

    async def _relay(self, client: RelayClient, child: ChildServer) -> SessionRelay:
        relay = SessionRelay(child, client)
        await relay.connect()
        self._relays.setdefault(client, {})[child] = relay
        self._tasks.start(self._run(client, relay))
        return relay

    async def _run(self, client: RelayClient, relay: SessionRelay) -> None:
        await relay.run(self._moved)
        relays = self._relays.get(client, {})
        relays.pop(relay.child, None)
        if not relays:
            self._relays.pop(client, None)
        if not relay.is_closed:
            await self._end(relay.child)

    def _moved(self, child: ChildServer, session: str) -> None:
        for known in child.sessions:
            self._children[known] = None
        child.sessions.append(session)
        self._children[session] = child

    def left(self, client: RelayClient) -> None:
        """End the relays of a client that is gone; its sessions continue."""
        for relay in self._of(client):
            relay.close()

    async def drained(self, client: RelayClient) -> None:
        """Wait while a process takes nothing more from this client."""
        for relay in self._of(client):
            await relay.drained()

    def _of(self, client: RelayClient) -> tuple[SessionRelay, ...]:
        return tuple(self._relays.get(client, {}).values())

    async def summaries(self) -> tuple[Any, ...]:
        """Return the loaded sessions of all processes."""
        found: list[Any] = []
        for child in self._running():
            data = await child.command(type="list")
            found += data["sessions"] if data else ()
        return tuple(found)

    async def end_unused(self) -> None:
        """End the processes that have unloaded their session."""
        for child in self._running():
            data = await child.command(type="list")
            if data is None or not data["sessions"]:
                await self._end(child)

    async def close(self) -> None:
        for child in self._running():
            self._tasks.start(self._end(child))
        await self._tasks.ended()

    def _running(self) -> tuple[ChildServer, ...]:
        return tuple({child for child in self._children.values() if child is not None})

    async def _end(self, child: ChildServer) -> None:
        for session in child.sessions:
            self._children[session] = None
        await child.end()


def isolated_line(body: Body) -> bytes:
    """Return an `open` command for the process, which must not start a further one.

    Raises:
        BadFrame: it is not a command.
    """
    return dumps({**_fields(body), "isolated": False})


def _fields(body: Body) -> dict[str, Any]:
    if not isinstance(body, bytes):
        return body
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return repair(body)
