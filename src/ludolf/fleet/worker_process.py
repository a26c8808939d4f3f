"""Start a worker process, and exchange messages with it."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import msgspec

from ludolf.ai.gate import RequestGate
from ludolf.base import ConfigError
from ludolf.fleet.gate_pipe import WorkerAtGate
from ludolf.fleet.pipes import GateMessage, MessagePipe, ToDriver, ToWorker, open_pipe_end

# -P: nothing in the folder that the batch was started in may pose as a module.
_PROGRAM = (sys.executable, "-P", "-m", "ludolf.fleet.worker")
_decoder = msgspec.json.Decoder(ToDriver)


class WorkerProcess:
    """A worker that was started; its process ends when the pipe is closed."""

    def __init__(
        self, process: asyncio.subprocess.Process, pipe: MessagePipe, gate: RequestGate
    ) -> None:
        self._process = process
        self._pipe = pipe
        self._at_gate = WorkerAtGate(gate, pipe)
        self.is_ready = False
        # Ids of the items that run in it.
        self.running: set[str] = set()

    @classmethod
    async def start(cls, lock: int, log: Path, gate: RequestGate) -> "WorkerProcess":
        """Start a worker that inherits the lock of the batch and writes errors to a file.

        Raises:
            ConfigError: the process cannot be started.
        """
        ours, theirs = socket.socketpair()
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            errors = os.open(log, flags, 0o600)
            try:
                process = await asyncio.create_subprocess_exec(
                    *(*_PROGRAM, str(theirs.fileno()), str(lock)),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=errors,
                    pass_fds=(theirs.fileno(), lock),
                    # Ctrl-C at the terminal is for the driver alone.
                    start_new_session=True,
                )
            finally:
                os.close(errors)
        except OSError as error:
            ours.close()
            raise ConfigError(f"A worker cannot be started: {error.strerror}.") from error
        finally:
            theirs.close()
        return cls(process, await open_pipe_end(ours), gate)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: ToWorker) -> None:
        self._pipe.send(message)

    async def messages(self) -> AsyncIterator[ToDriver]:
        """Yield the messages of the worker until it has ended; those to the gate are handled."""
        async for message in self._pipe.messages(_decoder):
            if isinstance(message, GateMessage):
                self._at_gate.take(message)
            else:
                yield message
        await self._at_gate.close()

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)

    async def ended(self, seconds: float) -> None:
        """Wait for the end of the process; kill it after some seconds."""
        try:
            async with asyncio.timeout(seconds):
                await self._process.wait()
        except TimeoutError:
            self.kill()
            await self._process.wait()

    async def close(self) -> None:
        """Close the pipe: a worker without a driver ends."""
        self._pipe.close()
        await self._at_gate.close()
