"""A child process with pipes: lines are read on demand, and the child never outlives the client."""

import asyncio
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress

from ludolf.agent.scope import Tasks
from ludolf.client.errors import NotStarted, ProgramEnded
from ludolf.client.lines import LineBuffer

END_SECONDS = 5.0
KEPT_STDERR = 64 * 1024
_READ = 256 * 1024


class Process:
    """Reads at most the content of the pipe ahead, so that the program waits for a slow host."""

    def __init__(self, child: asyncio.subprocess.Process, name: str) -> None:
        assert child.stdin and child.stdout and child.stderr
        self._child = child
        self._name = name
        self._input, self._output, self._errors = child.stdin, child.stdout, child.stderr
        self._lines = LineBuffer()
        self._reading = asyncio.Lock()
        self._stderr = bytearray()
        self._tasks = Tasks()
        self._draining = self._tasks.start(self._drain_stderr())

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> "Process":
        """Start a command.

        Raises:
            NotStarted: it is not there, or may not be run.
        """
        pipe = asyncio.subprocess.PIPE
        try:
            child = await asyncio.create_subprocess_exec(
                *command, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe
            )
        except OSError as error:
            raise NotStarted(f"Cannot start {command[0]}: {error}") from error
        return cls(child, name or command[0])

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def stderr(self) -> str:
        """The end of its output on stderr so far."""
        return bytes(self._stderr).decode("utf-8", "replace")

    async def write(self, data: bytes) -> None:
        """Send bytes as they are; waits while the program does not read.

        Raises:
            ProgramEnded: it reads no more.
        """
        self._input.write(data)
        try:
            await self._input.drain()
        except ConnectionError:
            raise await self.ended() from None

    async def read_line(self) -> bytes | None:
        """The next line without its LF, or None at the end; half a line there is dropped."""
        async with self._reading:
            while not self._lines:
                chunk = await self._output.read(_READ)
                if not chunk:
                    return None
                self._lines.add(chunk)
            return self._lines.take()

    def end_input(self) -> None:
        """Close stdin: the polite way to ask the program to finish."""
        self._input.close()

    def send_signal(self, number: signal.Signals) -> None:
        # The library's own looks first whether the child has ended: it would take the exit code
        # away from the loop, which then knows none.
        if self._child.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self._child.pid, number)

    async def wait(self) -> int:
        """Read on to the end; returns the exit code, or minus the signal that killed it."""
        while await self.read_line() is not None:
            pass
        code = await self._child.wait()
        # Something left behind may hold stderr open: it is not waited for.
        await asyncio.wait((self._draining,), timeout=1.0)
        return code

    async def ended(self) -> ProgramEnded:
        """Return the error with the exit status of the program."""
        code = await self.wait()
        return ProgramEnded(code, self.stderr, self._name)

    async def close(self, seconds: float = END_SECONDS) -> int:
        """End the input, let the program finish within the time, else kill it."""
        self.end_input()
        try:
            async with asyncio.timeout(seconds):
                return await self.wait()
        except TimeoutError:
            return await self.kill()
        except BaseException:
            self.send_signal(signal.SIGKILL)
            raise
        finally:
            await self._tasks.close()

    async def kill(self) -> int:
        """Kill the process, also if a child of it holds its output open."""
        self.send_signal(signal.SIGKILL)
        try:
            async with asyncio.timeout(1):
                code = await self.wait()
        except TimeoutError:
            self._child._transport.close()  # type: ignore[attr-defined]  # the only way to our ends
            code = await self._child.wait()
        await self._tasks.close()
        return code

    async def _drain_stderr(self) -> None:
        while chunk := await self._errors.read(_READ):
            self._stderr += chunk
            del self._stderr[:-KEPT_STDERR]
