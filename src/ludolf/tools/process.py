"""Run a command in a separate process session, read its output, and end all its processes."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol, Self, TypeVar

import msgspec

from ludolf.agent.tool import LeftBehind, Walls
from ludolf.base import LudolfError, expand_user, user_dir
from ludolf.base.programs import find_program
from ludolf.tools.process_tree import WARDEN, Reaper, ReaperMessage
from ludolf.tools.supervisor import DEATH_SECONDS, GRACE_SECONDS, SIGKILL

T = TypeVar("T")

READ_SIZE = 512 * 1024
PIPE_SIZE = 1024 * 1024
# After a read of at least this size, the pipe may fill for a moment: larger reads cost less.
_FLOOD_SIZE = 32 * 1024
_FLOOD_SECONDS = 0.001
QUIET_SECONDS = 0.1
DRAIN_SECONDS = 0.5
# The reaper has its own timeouts; if it has not answered after this time, it is considered dead.
_END_SECONDS = GRACE_SECONDS + DEATH_SECONDS + 1.0
_F_SETPIPE_SZ = 1031


class StartError(LudolfError):
    """A command could not be started; the text says why."""


class ProcessCommand(msgspec.Struct, frozen=True, kw_only=True):
    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]


def shell_command(
    text: str,
    *,
    cwd: Path,
    env: Mapping[str, str],
    shell_path: str | None = None,
    prefix: str | None = None,
) -> ProcessCommand:
    """Return the command that runs a text in a new shell.

    Raises:
        StartError: the working directory or the configured shell does not exist.
    """
    if not os.path.isdir(cwd):
        raise StartError(f"Working directory does not exist: {cwd}\nCannot execute bash commands.")
    script = prefixed(text, prefix)
    return ProcessCommand(argv=(_shell(shell_path, env), "-c", script), cwd=cwd, env=env)


def prefixed(text: str, prefix: str | None) -> str:
    """Return a shell script after the user's prefix, if there is one."""
    return f"{prefix}\n{text}" if prefix else text


def inside(command: ProcessCommand, walls: Walls | None) -> ProcessCommand:
    """Return the command as it runs inside the sandbox, if there is one."""
    if walls is None:
        return command
    argv, cwd, env = walls.enclose(command.argv, command.cwd, command.env)
    return ProcessCommand(argv=argv, cwd=cwd, env=env)


def _shell(shell_path: str | None, env: Mapping[str, str]) -> str:
    if shell_path:
        path = expand_user(shell_path, user_dir(env))
        if not os.path.exists(path):
            raise StartError(f"Shell not found: {path}. Correct the shellPath setting.")
        return os.path.abspath(path)
    if os.path.exists("/bin/bash"):
        return "/bin/bash"
    return find_program("bash", env.get("PATH", "")) or "/bin/sh"


class ProcessEnd(NamedTuple):
    """Exit of a command: its code, the signal that killed it, and processes that it left."""

    code: int
    signal: str | None
    left: tuple[LeftBehind, ...]


class CommandProcess(Protocol):
    """A command in an `async with` block; leaving the block early ends it."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None: ...

    async def read(self, patience: float | None = None) -> bytes | None:
        """Return the next piece of output, `b""` at its end, None after `patience` seconds."""

    async def end(self) -> ProcessEnd:
        """Wait until the command exits; return how.

        Raises:
            StartError: the command did not start.
        """
        ...


class Running:
    """A running command. Leaving the block before the command has ended kills all its processes.

    A failed start is reported when the caller asks for the exit code, so that nothing waits for the
    start.

    A command that ends normally may leave child processes (`server &`). They run until
    `WARDEN.end_all()`, or until this program ends.
    """

    def __init__(self, command: ProcessCommand) -> None:
        self._command = command
        self._at_end = False
        self._flooded = False
        self._drain_until = 0.0
        self._left: tuple[LeftBehind, ...] = ()
        self._failure: str | None = None

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[int] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._pipe, write_end = _pipe()
        try:
            self._start(write_end)
        except (OSError, ValueError) as error:
            self._leave(kill=False)
            raise self._start_error(str(error)) from error
        finally:
            os.close(write_end)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        answered = False
        try:
            answered = (kind is None and self._exit.done()) or await self._kill()
        finally:
            self._leave(kill=not answered)

    async def read(self, patience: float | None = None) -> bytes | None:
        """Return the next piece of output, `b""` at its end, None after `patience` seconds.

        The output ends with the pipe or, if a process that the command left holds the pipe open,
        with silence after the exit of the command.
        """
        if self._flooded and not self._exit.done():
            await asyncio.sleep(_FLOOD_SECONDS)
            if (chunk := self._next()) is not None:
                return chunk
        while not self._at_end:
            draining = self._exit.done()
            if draining:
                patience = min(QUIET_SECONDS, self._drain_until - self._loop.time())
            if await self._readable(patience):
                if (chunk := self._next()) is not None:
                    return chunk
            elif draining:
                # Silence, or a process that the command left keeps writing for too long. The
                # command's own output is at most one full pipe; it is still read, so that none
                # of it is lost.
                self._at_end = True
                return self._take(PIPE_SIZE) or b""
            elif not self._exit.done():
                return None
        return b""

    async def exit_code(self) -> int:
        """Wait until the command exits; return its code, or 128 + n if signal n killed it.

        Raises:
            StartError: the command did not start.
        """
        await asyncio.wait({self._exit})
        if self._failure is not None:
            raise self._start_error(self._failure)
        code = self._exit.result()
        return 128 - code if code < 0 else code

    async def end(self) -> ProcessEnd:
        """Wait until the command exits; return how, and the processes that it left.

        Raises:
            StartError: the command did not start.
        """
        code = await self.exit_code()
        raw = self._exit.result()
        return ProcessEnd(code, _signal_name(-raw) if raw < 0 else None, self._left)

    def _start(self, write_end: int) -> None:
        self._reaper: Reaper | None = None
        self._reaper = WARDEN.take(self._receive)
        self._loop.add_reader(self._reaper.fileno(), self._reaper.receive)
        command = self._command
        self._reaper.run(command.argv, str(command.cwd), command.env, write_end)

    def _start_error(self, reason: str) -> StartError:
        return StartError(f"Cannot start {self._command.argv[0]}: {reason}")

    def _receive(self, message: ReaperMessage) -> None:
        """Handle a message of the reaper."""
        match message:
            case ("failed", text):
                self._failure = str(text)
                settle_once(self._exit, 0)
            case ("exited", code, left):
                self._left = tuple(LeftBehind(pid=pid, name=name) for pid, name in left)
                self._drain_until = self._loop.time() + DRAIN_SECONDS
                settle_once(self._exit, int(code))
            case ("ended", _):
                settle_once(self._ended, None)
            case ("lost",):
                # The reaper was killed; the supervisor kills the processes below it.
                settle_once(self._exit, -SIGKILL)
                settle_once(self._ended, None)

    def _leave(self, *, kill: bool) -> None:
        os.close(self._pipe)
        if self._reaper is None:
            return
        self._loop.remove_reader(self._reaper.fileno())
        if kill:
            self._reaper.kill()
        WARDEN.give_back(self._reaper, self._loop)

    async def _readable(self, patience: float | None) -> bool:
        """Wait for the pipe, at most until the command exits or `patience` seconds have passed."""
        if patience is not None and patience <= 0:
            return False
        ready: asyncio.Future[None] = self._loop.create_future()
        # Watched only during a read, so that a slow reader pauses the command.
        self._loop.add_reader(self._pipe, settle_once, ready, None)
        waited: set[asyncio.Future[None] | asyncio.Future[int]] = {ready}
        if not self._exit.done():
            waited.add(self._exit)
        try:
            await asyncio.wait(waited, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            return ready.done()
        finally:
            self._loop.remove_reader(self._pipe)

    def _next(self) -> bytes | None:
        """Read without waiting; return None if there is no output yet."""
        chunk = self._take(READ_SIZE)
        if chunk is not None:
            self._at_end = not chunk
            self._flooded = _FLOOD_SIZE <= len(chunk) < READ_SIZE
        return chunk

    def _take(self, size: int) -> bytes | None:
        try:
            return os.read(self._pipe, size)
        except BlockingIOError:
            return None

    async def _kill(self) -> bool:
        """End all processes; return False if the reaper does not answer in time."""
        assert self._reaper is not None
        self._reaper.end()
        await asyncio.wait({self._ended}, timeout=_END_SECONDS)
        return self._ended.done()


def _pipe() -> tuple[int, int]:
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    import fcntl

    with suppress(OSError):  # a user's allowance for large pipes may be used up
        fcntl.fcntl(write_end, _F_SETPIPE_SZ, PIPE_SIZE)
    return read_end, write_end


def _signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def settle_once(future: asyncio.Future[T], value: T) -> None:
    """Set the result of a future, unless it has one."""
    if not future.done():
        future.set_result(value)
