"""Workers on a Ray cluster. The bridge, a process of its own, speaks to Ray."""

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.ai.gate import RequestGate
from ludolf.base import ConfigError, short_id
from ludolf.fleet.folder import BatchFolder
from ludolf.fleet.gate_pipe import WorkerAtGate
from ludolf.fleet.pipes import GateMessage, MessagePipe, ToDriver, ToWorker, open_pipe_end
from ludolf.fleet.ray_actor import ItemFiles
from ludolf.fleet.ray_bridge import FAILED, TOKEN_ADVICE, WORKER
from ludolf.fleet.worker_hosts import LOG_NAME, FleetWorker

# A bridge that has been silent for this time is killed: Ray has blocked it, or does not answer.
SILENCE_SECONDS = 30.0
# A server for clients starts a process for each of them before it answers.
CONNECT_SECONDS = 60.0
# The bridge waits some seconds for workers that store their sessions.
_CLOSE_SECONDS = 10.0
_MOST_TEXT = 64 << 10
_PROGRAM = (sys.executable, "-P", "-m", "ludolf.fleet.ray_bridge")
_decoder: msgspec.json.Decoder[ToDriver | ItemFiles] = msgspec.json.Decoder(ToDriver | ItemFiles)


class RayWorker:
    """A worker in an actor of Ray."""

    def __init__(self, number: int, pipe: MessagePipe, gate: RequestGate, items: Path) -> None:
        self.pid = number
        self.is_ready = False
        # Ids of the items that run in it.
        self.running: set[str] = set()
        self._pipe = pipe
        self._at_gate = WorkerAtGate(gate, pipe)
        self._items = items
        self._end = asyncio.Event()

    def send(self, message: ToWorker) -> None:
        self._pipe.send(message)

    async def messages(self) -> AsyncIterator[ToDriver]:
        """Yield the messages of the worker; those to the gate, and files, are handled here."""
        try:
            async for message in self._pipe.messages(_decoder):
                if isinstance(message, GateMessage):
                    self._at_gate.take(message)
                elif isinstance(message, ItemFiles):
                    store_files(self._items, message)
                else:
                    yield message
        finally:
            self._end.set()
        await self._at_gate.close()

    def kill(self) -> None:
        """Close the pipe: the bridge ends the actor."""
        self._pipe.close()

    async def ended(self, seconds: float) -> None:
        """Wait for the end of the worker. One that is not ready has no sessions to store."""
        if self.is_ready:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._end.wait()
        self.kill()

    async def close(self) -> None:
        self._pipe.close()
        await self._at_gate.close()


class RayHost:
    """Starts workers on a cluster, through a bridge that is started again if it is lost."""

    def __init__(self, address: str, folder: BatchFolder, gate: RequestGate) -> None:
        self._address = address
        self._folder = folder
        self._gate = gate
        self._numbers = count(1)
        self._starting = asyncio.Lock()
        self._tasks = Tasks()
        self._process: asyncio.subprocess.Process | None = None
        self._control: socket.socket | None = None
        # Nodes that see this file reach the folder of the batch.
        self._marker = folder.path / f".ray-{short_id()}"

    async def start_worker(self) -> FleetWorker:
        """Ask the bridge for an actor.

        Raises:
            ConfigError: the cluster does not answer; the text says what to check.
        """
        async with self._starting:
            if self._control is None:
                await self._start_bridge()
            assert self._control is not None
            ours, theirs = socket.socketpair()
            with theirs, suppress(OSError):  # a bridge that has ended closes both sockets
                socket.send_fds(self._control, [WORKER], [theirs.fileno()])
        pipe = await open_pipe_end(ours)
        return RayWorker(next(self._numbers), pipe, self._gate, self._folder.items)

    async def close(self) -> None:
        """End the bridge, and with it the actors."""
        process = self._process
        await self._tasks.close()
        self._drop_control()
        if process is not None:
            try:
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        self._marker.unlink(missing_ok=True)

    # ------------------------------------------------------------ the bridge

    async def _start_bridge(self) -> None:
        if self._process is not None:
            await self._process.wait()
        self._marker.touch(0o600)
        control, theirs = socket.socketpair()
        control.setblocking(False)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        log = os.open(self._folder.path / LOG_NAME, flags, 0o600)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(*_PROGRAM, str(theirs.fileno()), str(self._folder.lock)),
                *(self._address, str(self._marker)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(), self._folder.lock),
                start_new_session=True,
            )
        except OSError as error:
            control.close()
            raise ConfigError(f"The bridge to Ray cannot start: {error.strerror}.") from error
        finally:
            theirs.close()
            os.close(log)
        problem = await self._first_answer(control)
        if problem is not None:
            control.close()
            self._process.kill()
            raise ConfigError(problem)
        self._control = control
        self._tasks.start(self._watch(control, self._process))

    async def _first_answer(self, control: socket.socket) -> str | None:
        """Wait until the bridge is connected; return why it is not."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                data = await loop.sock_recv(control, _MOST_TEXT)
        except TimeoutError:
            return (
                f"Ray ({self._address}) did not answer within {CONNECT_SECONDS:.0f} s. Check the "
                f"address. If the cluster uses tokens: {TOKEN_ADVICE}"
            )
        if data.startswith(FAILED):
            return data[1:].decode("utf-8", "replace")
        log = self._folder.path / LOG_NAME
        return None if data else f"The bridge to Ray ended. See {log}."

    async def _watch(self, control: socket.socket, process: asyncio.subprocess.Process) -> None:
        """Wait for the end of the bridge; kill one that is silent."""
        loop = asyncio.get_running_loop()
        with suppress(TimeoutError, ConnectionError):
            while True:
                async with asyncio.timeout(SILENCE_SECONDS):
                    if not await loop.sock_recv(control, _MOST_TEXT):
                        break
        if self._control is control:
            self._drop_control()
        with suppress(ProcessLookupError):
            process.kill()

    def _drop_control(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()


def store_files(items: Path, sent: ItemFiles) -> None:
    """Write the files of an item that a node sent; names that leave the folder are ignored."""
    if not _is_plain(sent.folder):
        return
    folder = items / sent.folder
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, data in sent.files.items():
        if _is_plain(name):
            file = os.open(
                folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
            )
            with open(file, "wb") as stream:
                stream.write(data)


def _is_plain(name: str) -> bool:
    return bool(name) and name not in (".", "..") and "/" not in name and "\0" not in name
