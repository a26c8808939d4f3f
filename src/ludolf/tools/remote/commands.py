"""The bash tool for a workplace, and commands there that are read as they run."""

import asyncio
import os
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Self

from ludolf.agent.scope import Tasks
from ludolf.agent.tool import ToolContext, ToolFailure
from ludolf.agent.workplace import Workplace
from ludolf.tools.bash import BashTool, follow_command
from ludolf.tools.options import BuiltinToolOptions
from ludolf.tools.output import OutputTail
from ludolf.tools.process import ProcessEnd, StartError, prefixed
from ludolf.tools.remote.place import RemotePlace

if TYPE_CHECKING:
    from ludolf.tools.process import CommandProcess

# Bytes of complete output that are stored in the workplace: the end of longer output.
MAX_STORED_BYTES = 16 * 1024 * 1024
# Pieces of output that wait for the reader before the command is paused.
_MOST_WAITING = 64
_SHELL = """
exec </dev/null 2>&1
if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; fi
exec sh -c "$1"
"""


class RemoteBashTool(BashTool):
    """The setting `shellPath` does not apply: it names a program on this machine."""

    def __init__(self, options: BuiltinToolOptions, place: RemotePlace) -> None:
        super().__init__(options)
        self._place = place

    def _tail(self, ctx: ToolContext) -> OutputTail:
        return RemoteTail()

    async def _run(
        self, text: str, timeout: float | None, tail: OutputTail, ctx: ToolContext
    ) -> ProcessEnd:
        assert isinstance(tail, RemoteTail)
        prefix = self._options.command_prefix
        command = RemoteCommand(self._place.workplace, text, timeout, prefix=prefix)
        try:
            return await follow_command(command, tail, ctx)
        except asyncio.CancelledError:
            tail.spill_error = "the command was aborted"
            raise
        finally:
            if tail.spill_error is None:
                await tail.store(self._place)


class RemoteTail(OutputTail):
    """Output of a command; complete output that is longer than shown is stored in the workplace."""

    def __init__(self) -> None:
        super().__init__()
        self._stored_at: str | None = None

    @property
    def full_output_path(self) -> str | None:
        return self._stored_at

    async def store(self, place: RemotePlace) -> None:
        """Move the complete output to the workplace, if there is more than is shown."""
        local = super().full_output_path
        if local is None:
            return
        data = await asyncio.to_thread(_taken_end, local)
        path = Path("/tmp", os.path.basename(local))
        try:
            await place.write(path, data)
        except ToolFailure as error:
            self.spill_error = str(error)
        else:
            self._stored_at = str(path)


def _taken_end(path: str) -> bytes:
    """Return the end of a file and remove the file."""
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - MAX_STORED_BYTES))
        data = file.read(MAX_STORED_BYTES)
    os.unlink(path)
    return data


class RemoteCommand:
    """A shell command in a workplace. Leaving the block early ends it."""

    def __init__(
        self,
        workplace: Workplace,
        text: str,
        timeout: float | None = None,
        *,
        prefix: str | None = None,
    ) -> None:
        self._workplace = workplace
        self._text = prefixed(text, prefix)
        self._timeout = timeout
        self._pieces: deque[bytes] = deque()
        self._tasks = Tasks()

    async def __aenter__(self) -> Self:
        self._news, self._room = asyncio.Event(), asyncio.Event()
        argv = ("sh", "-c", _SHELL, "sh", self._text)
        self._task = self._tasks.start(self._workplace.run(argv, self._take, self._timeout))
        self._task.add_done_callback(lambda _: self._news.set())
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._tasks.close()
        if not self._task.cancelled():
            self._task.exception()  # `end` reports it, if anything asks

    async def read(self, patience: float | None = None) -> bytes | None:
        while not self._pieces and not self._task.done():
            self._news.clear()
            try:
                async with asyncio.timeout(patience):
                    await self._news.wait()
            except TimeoutError:
                return None
        self._room.set()
        return self._pieces.popleft() if self._pieces else b""

    async def end(self) -> ProcessEnd:
        """Wait until the command exits; return how.

        Raises:
            StartError: the command did not start, or the connection is lost.
            TimeoutError: it was ended after the timeout.
        """
        await asyncio.wait({self._task})
        try:
            return ProcessEnd(int(self._task.result()), None, ())
        except TimeoutError:
            raise
        except OSError as error:
            raise StartError(f"Cannot run commands in {self._workplace.cwd}: {error}") from error

    async def _take(self, data: bytes) -> None:
        if data:
            self._pieces.append(data)
            self._news.set()
        while len(self._pieces) >= _MOST_WAITING:
            self._room.clear()
            await self._room.wait()


if TYPE_CHECKING:
    _process: type[CommandProcess] = RemoteCommand
