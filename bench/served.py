"""Servers of many sessions: start one, connect clients, and drive sessions over its door."""

import asyncio
import json
import signal
from abc import ABC, abstractmethod
from asyncio.subprocess import DEVNULL, PIPE, STDOUT, Process
from pathlib import Path
from typing import Any

import msgspec

from bench.agent import Silent
from bench.process import Memory, family_cpu_seconds, memory
from bench.programs import Home

_READ = 1 << 20
PATIENCE = 60.0


class ServedClient(ABC):
    """One connection to a server."""

    @abstractmethod
    async def open(self, **options: Any) -> str:
        """Open a session and listen to it; returns its id."""

    @abstractmethod
    async def attach(self, session: str, last: int = 100) -> None:
        """Listen to a session; returns when its history is there."""

    @abstractmethod
    async def prompt(self, session: str, text: str) -> None:
        """Run a prompt until the session is idle again."""

    @abstractmethod
    async def next_idle(self, session: str) -> None:
        """Return when this client sees the end of the next run of the session."""

    @abstractmethod
    async def close(self) -> None:
        """Cut the connection."""


class RunEnds:
    """The ends of runs that a client waits for, by session."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[None]] = {}

    async def next(self, session: str) -> None:
        """Wait until the next run of a session ends.

        Raises:
            Silent: that takes too long.
        """
        if session not in self._waiting:
            self._waiting[session] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.shield(self._waiting[session])
        except TimeoutError:
            raise Silent(f"a run did not end within {PATIENCE:.0f} s") from None

    def note(self, session: str) -> None:
        """Wake the code that waits for the session."""
        end = self._waiting.pop(session, None)
        if end is not None:
            end.set_result(None)


class MeasuredServer(ABC):
    """A server process. `start` returns when clients can connect."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._process: Process | None = None
        self._clients: set[ServedClient] = set()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def cpu(self) -> float:
        return family_cpu_seconds(self.pid)

    def memory(self) -> Memory:
        return memory(self.pid)

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.pid}/fd").iterdir()))

    @abstractmethod
    async def start(self) -> None:
        """Start the program."""

    async def connect(self) -> ServedClient:
        """Connect a client."""
        client = await self._connect()
        self._clients.add(client)
        return client

    @abstractmethod
    async def _connect(self) -> ServedClient:
        """Connect a client over the protocol of the server."""

    async def disconnect(self, client: ServedClient) -> None:
        """Cut the connection of a client."""
        self._clients.discard(client)
        await client.close()

    async def close(self) -> None:
        """Disconnect all clients and end the process."""
        for client in tuple(self._clients):
            await self.disconnect(client)
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), 15)
        except TimeoutError:
            process.kill()
            await process.wait()
        assert process.stdout is not None
        await process.stdout.read()  # to its end, which closes the pipe

    async def _spawn(self, *words: str, **env: str) -> asyncio.StreamReader:
        """Start the process; returns its output."""
        self._process = await asyncio.create_subprocess_exec(
            *words,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            env={**self.home.env(), **env},
            cwd=self.home.work,
        )
        assert self._process.stdout is not None
        return self._process.stdout


class LudolfServer(MeasuredServer):
    """`ludolf serve` on a Unix socket."""

    async def start(self) -> None:
        socket = self.home.folder / "serve.sock"
        words = self.home.words("serve")
        out = await self._spawn(*words, "--socket", str(socket), "--max-loaded", "1000")
        async with asyncio.timeout(PATIENCE):
            if b'"serving"' not in await out.readline():
                raise Silent("the server did not start")
        self._socket = socket

    async def _connect(self) -> "LineClient":
        reader, writer = await asyncio.open_unix_connection(self._socket, limit=_READ)
        return LineClient(self.home, reader, writer)


class LineClient(ServedClient):
    """A client that reads frames only as far as the figures need it."""

    def __init__(
        self, home: Home, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._home = home
        self._reader = reader
        self._writer = writer
        self._number = 0
        self._replies: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._ends = RunEnds()
        self._reading = asyncio.create_task(self._read())

    async def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Send a command and return the data of its reply.

        Raises:
            Silent: no reply in time, or the command was refused.
        """
        self._number += 1
        name = f"q{self._number}"
        self._replies[name] = asyncio.get_running_loop().create_future()
        self._writer.write(json.dumps({"id": name, "type": kind, **fields}).encode() + b"\n")
        try:
            async with asyncio.timeout(PATIENCE):
                reply = await self._replies[name]
        except TimeoutError:
            raise Silent(f"no reply to {kind}") from None
        if not reply["success"]:
            raise Silent(f"{kind} was refused: {str(reply.get('error'))[:200]}")
        data: dict[str, Any] = reply.get("data") or {}
        return data

    async def open(self, **options: Any) -> str:
        return str((await self.ask("open", cwd=str(self._home.work), **options))["session"])

    async def attach(self, session: str, last: int = 100) -> None:
        await self.ask("attach", session=session, last=last)

    async def prompt(self, session: str, text: str) -> None:
        end = asyncio.ensure_future(self.next_idle(session))
        await self.ask("prompt", session=session, message=text)
        await end

    async def next_idle(self, session: str) -> None:
        await self._ends.next(session)

    async def close(self) -> None:
        self._writer.transport.abort()
        await asyncio.wait((self._reading,))
        self._writer.close()

    async def _read(self) -> None:
        rest = b""
        try:
            while data := await self._reader.read(_READ):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._line(line)
        except ConnectionError:
            pass  # the connection was cut

    def _line(self, line: bytes) -> None:
        head = line[:160]
        if b'"agent_settled"' in head:
            self._ends.note(msgspec.json.decode(line)["session"])
        elif b'"response"' in head:
            reply = msgspec.json.decode(line)
            self._replies.pop(reply["id"]).set_result(reply)
