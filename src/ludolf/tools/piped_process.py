"""Run a program with pipes for stdin, stdout and stderr, below a reaper of the supervisor."""

import asyncio
import os
from collections.abc import Sequence
from typing import Protocol

from ludolf.tools.process import ProcessCommand, StartError, settle_once
from ludolf.tools.process_tree import WARDEN, Reaper, ReaperMessage
from ludolf.tools.supervisor import DEATH_SECONDS, GRACE_SECONDS, SIGKILL

# Below the size from which the C library maps memory for each read.
_READ_SIZE = 64 * 1024
_LAST_READS = 16
_START_SECONDS = 10.0
_END_SECONDS = GRACE_SECONDS + DEATH_SECONDS + 1.0
# Seconds until a program that has closed its stdout must have ended, or is ended.
CLOSED_SECONDS = 1.0


class PipeReader(Protocol):
    """Receiver of the output of a piped process."""

    def take_output(self, chunk: bytes) -> None: ...
    def take_diagnostics(self, chunk: bytes) -> None: ...

    def output_ended(self, code: int | None) -> None:
        """Called once, after the last output: exit code, -n for signal n, None if it still runs."""


class PipedProcess:
    """A running program. `end` ends it and everything that it started.

    The program inherits `extra` descriptors as 3, 4 and 5; the caller closes its own copies.
    """

    def __init__(
        self, command: ProcessCommand, reader: PipeReader, extra: Sequence[int] = ()
    ) -> None:
        self._command = command
        self._reader = reader
        self._extra = extra
        self._unsent = bytearray()
        self._stdin = self._stdout = self._stderr = -1
        self._reaper: Reaper | None = None
        self._reported = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.pid = 0

    def launch(self) -> None:
        """Start the program before there is an event loop; `start` follows, or `abandon`.

        Raises:
            StartError: the program cannot be started.
        """
        try:
            self._spawn()
        except (OSError, ValueError) as error:
            self._leave(kill=True)
            raise StartError(f"Cannot start {self._command.argv[0]}: {error}") from error

    def abandon(self) -> None:
        """Kill a program that was launched and not started."""
        self._leave(kill=True)

    async def start(self) -> None:
        """Start the program, unless it was launched, and wait until it runs.

        Raises:
            StartError: the program cannot be started.
        """
        if self._reaper is None:
            self.launch()
        try:
            self._watch(asyncio.get_running_loop())
            await asyncio.wait({self._started}, timeout=_START_SECONDS)
        except (OSError, ValueError) as error:
            self._leave(kill=True)
            raise StartError(f"Cannot start {self._command.argv[0]}: {error}") from error
        except asyncio.CancelledError:
            self._leave(kill=True)
            raise
        reason = self._started.result() if self._started.done() else "the reaper does not answer"
        if reason:
            self._leave(kill=not self._started.done())
            raise StartError(f"Cannot start {self._command.argv[0]}: {reason}")

    @property
    def unsent_bytes(self) -> int:
        return len(self._unsent)

    def write(self, data: bytes) -> None:
        """Write to stdin, without waiting; data for a program that has ended is dropped."""
        if self._stdin < 0:
            return
        if not self._unsent:
            data = data[self._write(data) :]
            if not data or self._stdin < 0 or self._loop is None:
                return
            self._loop.add_writer(self._stdin, self._write_rest)
        self._unsent += data

    async def end(self, patience: float) -> None:
        """Close stdin, wait `patience` seconds, then end all processes: SIGTERM, 1 s, SIGKILL."""
        reaper = self._reaper
        if reaper is None:
            return
        answered = False
        try:
            self._close_stdin()
            await asyncio.wait({self._exit}, timeout=patience)
            if reaper.busy:
                reaper.end()
                await asyncio.wait({self._ended}, timeout=_END_SECONDS)
            answered = not reaper.busy
        finally:
            self._leave(kill=not answered)

    # ------------------------------------------------------------ private

    def _spawn(self) -> None:
        theirs: list[int] = []
        try:
            stdin, self._stdin = os.pipe()
            theirs.append(stdin)
            self._stdout, stdout = os.pipe()
            theirs.append(stdout)
            self._stderr, stderr = os.pipe()
            theirs.append(stderr)
            for file in (self._stdin, self._stdout, self._stderr):
                os.set_blocking(file, False)
            self._reaper = WARDEN.take(self._receive)
            command = self._command
            self._reaper.run(command.argv, str(command.cwd), command.env, *theirs, *self._extra)
        finally:
            for file in theirs:
                os.close(file)

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self._reaper is not None
        self._loop = loop
        self._started: asyncio.Future[str] = loop.create_future()
        self._exit: asyncio.Future[int] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        loop.add_reader(self._reaper.fileno(), self._reaper.receive)
        loop.add_reader(self._stdout, self._read_output)
        loop.add_reader(self._stderr, self._read_diagnostics)

    def _receive(self, message: ReaperMessage) -> None:
        """Handle a message of the reaper."""
        if self._loop is None:
            return  # nothing waits for a program that is abandoned
        match message:
            case ("started", pid):
                self.pid = int(pid)
                settle_once(self._started, "")
            case ("failed", text):
                settle_once(self._started, str(text))
                settle_once(self._exit, 0)
            case ("exited", code, left):
                if left and self._reaper is not None:
                    self._reaper.end()
                self._exited(int(code))
            case ("ended", _):
                settle_once(self._ended, None)
            case ("lost",):
                # The reaper was killed; the supervisor kills the processes below it.
                settle_once(self._started, "its reaper was killed")
                self._exited(-SIGKILL)
                settle_once(self._ended, None)

    def _exited(self, code: int) -> None:
        if self._exit.done():
            return
        self._exit.set_result(code)
        # A process that the program started may hold the pipes open and write more: read only what
        # fits into a pipe.
        for _ in range(_LAST_READS):
            if not (self._stderr >= 0 and self._read_diagnostics()):
                break
        for _ in range(_LAST_READS):
            if not (self._stdout >= 0 and self._read_output()):
                break
        self._report(code)

    def _report(self, code: int | None) -> None:
        if not self._reported:
            self._reported = True
            self._reader.output_ended(code)

    def _read_output(self) -> bool:
        chunk = _read(self._stdout)
        if chunk:
            self._reader.take_output(chunk)
        elif chunk is not None:
            self._stdout = self._close_reader(self._stdout)
            assert self._loop is not None
            # The exit code usually follows at once.
            self._loop.call_later(CLOSED_SECONDS, self._report, None)
        return bool(chunk)

    def _read_diagnostics(self) -> bool:
        chunk = _read(self._stderr)
        if chunk:
            self._reader.take_diagnostics(chunk)
        elif chunk is not None:
            self._stderr = self._close_reader(self._stderr)
        return bool(chunk)

    def _write(self, data: bytes | bytearray) -> int:
        try:
            return os.write(self._stdin, data)
        except BlockingIOError:
            return 0
        except OSError:  # the program has closed its stdin
            self._close_stdin()
            return len(data)

    def _write_rest(self) -> None:
        del self._unsent[: self._write(self._unsent)]
        if not self._unsent and self._stdin >= 0 and self._loop is not None:
            self._loop.remove_writer(self._stdin)

    def _close_stdin(self) -> None:
        if self._stdin >= 0:
            if self._loop is not None:
                self._loop.remove_writer(self._stdin)
            os.close(self._stdin)
            self._stdin = -1
        self._unsent.clear()

    def _close_reader(self, file: int) -> int:
        if file >= 0:
            if self._loop is not None:
                self._loop.remove_reader(file)
            os.close(file)
        return -1

    def _leave(self, *, kill: bool) -> None:
        self._close_stdin()
        self._stdout = self._close_reader(self._stdout)
        self._stderr = self._close_reader(self._stderr)
        self._reported = True
        reaper, self._reaper = self._reaper, None
        if reaper is None:
            return
        if self._loop is not None:
            self._loop.remove_reader(reaper.fileno())
        if kill:
            reaper.kill()
        WARDEN.give_back(reaper, self._loop)


def _read(file: int) -> bytes | None:
    try:
        return os.read(file, _READ_SIZE)
    except BlockingIOError:
        return None
