"""The host process and its three pipes: frames out of it, frames into it, answers it waits for."""

import asyncio
import math
import os
import select
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from ludolf.agent.scope import Tasks
from ludolf.base import loads
from ludolf.tools.piped_process import PipedProcess
from ludolf.tools.process import ProcessCommand

READ_BYTES = 64 << 10
MAX_FRAME_BYTES = 256 << 20
# Bytes that may wait for a host that does not read.
MAX_UNSENT_BYTES = 256 << 20
# Text of extensions that is passed to stderr; more is dropped.
MAX_PRINTED_BYTES = 4 << 20
END_SECONDS = 0.5
_PIPE_SIZE = 1 << 20
_F_SETPIPE_SZ = 1031


class FrameOwner(Protocol):
    """Receiver of what the host process says."""

    def take_frame(self, frame: Mapping[str, Any]) -> None: ...
    def has_room(self) -> bool:
        """Return whether more frames may be read now."""

    async def room(self) -> None:
        """Wait until more frames may be read."""

    def lost(self, reason: str) -> None:
        """Called once, when the process has ended without being asked to."""


class ScriptProcess:
    """One run of the host process."""

    def __init__(self, command: ProcessCommand) -> None:
        self.command = command
        self._line = bytearray()
        self._printed = 0
        self._gone = False
        self._tasks = Tasks()
        self._process: PipedProcess | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._out = -1
        self._input: _PipeWriter | None = None
        self._answers: _PipeWriter | None = None

    def launch(self) -> None:
        """Start the process before there is an event loop; `start` follows, or `abandon`.

        Raises:
            StartError: Node cannot be started.
        """
        self._out, their_out = _pipe()
        their_input, own_input = _pipe()
        their_answers, own_answers = _pipe()
        self._input, self._answers = _PipeWriter(own_input), _PipeWriter(own_answers)
        theirs = (their_out, their_input, their_answers)
        process = PipedProcess(self.command, self, theirs)
        try:
            process.launch()
        except BaseException:
            self._close_pipes()
            raise
        finally:
            for file in theirs:
                os.close(file)
        self._process = process
        os.set_blocking(self._out, False)

    def abandon(self) -> None:
        """Kill a process that was launched and not started."""
        process, self._process = self._process, None
        self._close_pipes()
        if process is not None:
            process.abandon()

    async def start(self, owner: FrameOwner) -> None:
        """Start the process, unless it was launched, and pass what it says to its owner.

        Raises:
            StartError: Node cannot be started.
        """
        if self._process is None:
            self.launch()
            assert self._process is not None
        self._owner, self._loop = owner, asyncio.get_running_loop()
        try:
            await self._process.start()
        except BaseException:
            self._close_pipes()
            raise
        self._loop.add_reader(self._out, self._read)

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def cpu_seconds(self) -> float:
        """Return the time that the process has computed; infinity if the system does not say."""
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        except (OSError, IndexError, ValueError):
            return math.inf

    def send(self, frame: bytes) -> None:
        """Send a frame without waiting."""
        if self._input is None or self._gone:
            return
        self._input.write(frame + b"\n")
        if self._input.unsent_bytes > MAX_UNSENT_BYTES:
            self._lose("does not read its input")

    def answer(self, frame: bytes) -> None:
        """Answer the question that the host waits for."""
        if self._answers is not None and not self._gone:
            self._answers.write(frame + b"\n")

    async def end(self, patience: float = END_SECONDS) -> None:
        """End the process and everything that it started."""
        self._gone = True
        process, self._process = self._process, None
        self._close_pipes()
        await self._tasks.close()
        if process is not None:
            await process.end(patience)

    # ------------------------------------------------------------ output of the process

    def take_output(self, chunk: bytes) -> None:
        self._print(chunk)

    def take_diagnostics(self, chunk: bytes) -> None:
        self._print(chunk)

    def output_ended(self, code: int | None) -> None:
        while self._out >= 0 and not self._gone and self._read_chunk():
            pass
        if code is None:
            return  # an extension closed stdout; OUT shows whether the process lives
        ending = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        self._lose(ending)

    def _print(self, chunk: bytes) -> None:
        """Pass text of extensions to stderr, unless its reader lags."""
        left = MAX_PRINTED_BYTES - self._printed
        self._printed += len(chunk)
        if left > 0:
            _write_stderr(chunk[:left])

    # ------------------------------------------------------------ private

    def _read(self) -> None:
        self._read_chunk()
        if self._out >= 0 and not self._gone and not self._owner.has_room():
            asyncio.get_running_loop().remove_reader(self._out)
            self._tasks.start(self._read_later())

    async def _read_later(self) -> None:
        await self._owner.room()
        if self._out >= 0:
            asyncio.get_running_loop().add_reader(self._out, self._read)

    def _read_chunk(self) -> bool:
        try:
            chunk = os.read(self._out, READ_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self._close_out()
            return False
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0 and not self._gone:
            self._line += chunk[start:end]
            line, self._line = self._line, bytearray()
            start = end + 1
            self._take(line)
        self._line += chunk[start:]
        if len(self._line) > MAX_FRAME_BYTES:
            self._lose(f"sent more than {MAX_FRAME_BYTES >> 20} MiB at once")
        return True

    def _take(self, line: bytearray) -> None:
        try:
            frame = loads(line)
        except ValueError:
            frame = None
        if isinstance(frame, dict):
            self._owner.take_frame(frame)

    def _lose(self, reason: str) -> None:
        if not self._gone:
            self._gone = True
            self._owner.lost(reason)

    def _close_out(self) -> None:
        if self._out >= 0:
            if self._loop is not None:
                self._loop.remove_reader(self._out)
            os.close(self._out)
            self._out = -1

    def _close_pipes(self) -> None:
        self._close_out()
        for writer in (self._input, self._answers):
            if writer is not None:
                writer.close()


class _PipeWriter:
    """The write end of a pipe that never blocks the loop."""

    def __init__(self, file: int) -> None:
        os.set_blocking(file, False)
        self._file = file
        self._loop: asyncio.AbstractEventLoop | None = None
        self._unsent = bytearray()

    @property
    def unsent_bytes(self) -> int:
        return len(self._unsent)

    def write(self, data: bytes) -> None:
        if self._file < 0:
            return
        if not self._unsent:
            data = data[self._write(data) :]
            if not data or self._file < 0:
                return
            self._loop = asyncio.get_running_loop()
            self._loop.add_writer(self._file, self._write_rest)
        self._unsent += data

    def close(self) -> None:
        if self._file >= 0:
            self._forget_writer()
            os.close(self._file)
            self._file = -1
        self._unsent.clear()

    def _write(self, data: bytes | bytearray) -> int:
        try:
            return os.write(self._file, data)
        except BlockingIOError:
            return 0
        except OSError:  # the process has ended
            self.close()
            return len(data)

    def _write_rest(self) -> None:
        del self._unsent[: self._write(self._unsent)]
        if not self._unsent and self._file >= 0:
            self._forget_writer()

    def _forget_writer(self) -> None:
        if self._loop is not None:
            self._loop.remove_writer(self._file)


def _pipe() -> tuple[int, int]:
    import fcntl

    read_end, write_end = os.pipe()
    with suppress(OSError):  # a user's allowance for large pipes may be used up
        fcntl.fcntl(write_end, _F_SETPIPE_SZ, _PIPE_SIZE)
    return read_end, write_end


def _write_stderr(data: bytes) -> None:
    """Write as much as the reader of stderr takes now; a slow one misses the rest."""
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    with suppress(OSError):
        # A pipe that is ready takes this many bytes without blocking.
        for start in range(0, len(data), select.PIPE_BUF):
            if not poll.poll(0):
                return
            os.write(2, data[start : start + select.PIPE_BUF])
