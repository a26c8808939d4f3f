"""A host in a few lines: start `ludolf`, send commands, wait for replies and events."""

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from os import PathLike
from typing import Any, Self

from ludolf.base import dumps, loads
from ludolf.client.process import ClientError, Process, ProgramEnded

# -P: nothing in the folder that the program works in may pose as a module.
PROGRAM = (sys.executable, "-P", "-m", "ludolf", "--mode", "rpc")
SECONDS = 5.0

Record = dict[str, Any]
Match = str | Callable[[Record], bool]


class NoAnswer(ClientError, TimeoutError):
    """What was waited for did not come in time; the text says what came instead."""


class Refused(ClientError):
    """A command was answered with `success: false`."""


class Client:
    """Use it with `async with`. Records are read when somebody waits for one, and not before.

    Replies go to those who asked; all other records are events, handed out in order and once by
    `events`, `collect` and `wait_for`. `trace` sees every line as it is read.
    """

    def __init__(
        self,
        *arguments: str,
        program: Sequence[str] = PROGRAM,
        cwd: str | PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        trace: Callable[[bytes], None] | None = None,
    ) -> None:
        self._command = (*program, *arguments)
        self._cwd, self._env, self._trace = cwd, env, trace
        self._count = 0
        self._reading = asyncio.Lock()
        self._replies: dict[bytes, Record] = {}
        self._events: deque[Record] = deque()
        self._last: deque[str] = deque(maxlen=8)
        self.process: Process

    async def __aenter__(self) -> Self:
        self.process = await Process.start(self._command, cwd=self._cwd, env=self._env)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        await (self.process.close() if kind is None else self.process.kill())

    async def send(self, command: str, /, **params: Any) -> Any:
        """Send a command and return its id; one is made unless `id` is given.

        Raises:
            ProgramEnded: the program reads no more.
        """
        if "id" not in params:
            self._count += 1
            params = {"id": f"c{self._count}", **params}
        await self.process.write(dumps({**params, "type": command}) + b"\n")
        return params["id"]

    async def reply_to(self, command_id: Any, timeout: float = SECONDS) -> Record:
        """The reply to a command that was sent, whether it succeeded or not.

        Raises:
            NoAnswer: no reply came in time.
            ProgramEnded: the program ended before it replied.
        """
        key = dumps(command_id)
        async with self._limit(timeout, f"reply to {command_id!r}"):
            while key not in self._replies:
                await self._read(lambda: key in self._replies)
        return self._replies.pop(key)

    async def request(self, command: str, /, timeout: float = SECONDS, **params: Any) -> Record:
        """Send a command and wait for its reply; raises as `send` and `reply_to` do."""
        return await self.reply_to(await self.send(command, **params), timeout)

    async def ask(self, command: str, /, timeout: float = SECONDS, **params: Any) -> Any:
        """The `data` of a command's reply.

        Raises:
            Refused: the command failed.
        """
        reply = await self.request(command, timeout, **params)
        if not reply["success"]:
            raise Refused(f"{command}: {reply['error']}")
        return reply.get("data")

    async def prompt_and_wait(
        self, text: str, /, timeout: float = SECONDS, **params: Any
    ) -> list[Record]:
        """Prompt, and return all events until the agent has come to rest; raises as `ask` does."""
        await self.ask("prompt", timeout, message=text, **params)
        return await self.collect("agent_settled", timeout)

    async def events(self) -> AsyncIterator[Record]:
        """All events, without a time limit, until the program ends."""
        try:
            while True:
                yield await self._next_event()
        except ProgramEnded:
            return

    async def collect(self, match: Match, timeout: float = SECONDS) -> list[Record]:
        """The next events up to the first that has the type, or fits.

        Raises:
            NoAnswer: none came in time.
            ProgramEnded: the program ended before.
        """
        fits = match if callable(match) else lambda record: bool(record["type"] == match)
        found: list[Record] = []
        async with self._limit(timeout, match if isinstance(match, str) else "event that fits"):
            while not found or not fits(found[-1]):
                found.append(await self._next_event())
        return found

    async def wait_for(self, match: Match, timeout: float = SECONDS) -> Record:
        """The last of what `collect` gives; the others are dropped."""
        return (await self.collect(match, timeout))[-1]

    async def _next_event(self) -> Record:
        while not self._events:
            await self._read(lambda: bool(self._events))
        return self._events.popleft()

    async def _read(self, is_there: Callable[[], bool]) -> None:
        """Read one record, unless another waiter has meanwhile read what is wanted."""
        async with self._reading:
            if is_there():
                return
            line = await self.process.read_line()
            if line is None:
                raise ProgramEnded(await self.process.wait(), self.process.stderr)
            if self._trace is not None:
                self._trace(line)
            record: Record = loads(line)
            self._last.append(record["type"])
            if record["type"] == "response" and "id" in record:
                self._replies[dumps(record["id"])] = record
            else:
                self._events.append(record)

    @asynccontextmanager
    async def _limit(self, seconds: float, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            last = ", ".join(self._last) or "none"
            told = f"last records: {last}; stderr: {self.process.stderr.strip() or '(empty)'}"
            raise NoAnswer(f"No {what} within {seconds:g} s; {told}") from None
