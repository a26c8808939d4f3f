"""The connection to a program: sends commands, matches replies, hands out events."""

import asyncio
from collections.abc import Callable
from signal import SIGKILL
from typing import Any, Self, Unpack

from ludolf.agent.scope import Tasks
from ludolf.base import dumps
from ludolf.client.answering import HostAnswers
from ludolf.client.errors import ClientError
from ludolf.client.events import Record
from ludolf.client.exchange import SECONDS, RecordExchange, read_record
from ludolf.client.options import ClientOptions, Start, plan_start
from ludolf.client.process import Process

READY_SECONDS = 30.0
# Replies without a waiting caller; the oldest are dropped.
_KEPT_REPLIES = 1000


class LineChunks:
    """Long lines that come in pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def add(self, record: Record) -> bytes | None:
        """The whole line, once its last piece is there."""
        import base64

        if record["index"] == 0:
            self._pieces.clear()
        self._pieces.append(base64.b64decode(record["data"]))
        if len(self._pieces) < record["count"]:
            return None
        whole = b"".join(self._pieces)
        self._pieces.clear()
        return whole


class ClientConnection(RecordExchange):
    """Use it with `async with`. Records are read only while a caller waits for one; with `tools` or
    `on_dialog` also in between, until too many events are unread.

    Tool calls and dialogs that the client answers are not events.
    """

    def __init__(self, *arguments: str, **options: Unpack[ClientOptions]) -> None:
        self._options = options
        self._start: Start = plan_start(arguments, options)
        super().__init__(self._start.wire, is_ours=self._start.is_ours)
        self._trace = options.get("trace")
        self._count = 0
        self._reading = asyncio.Lock()
        self._replies: dict[bytes, Record] = {}
        self._chunks = LineChunks()
        self._tasks = Tasks()
        self._answers = HostAnswers(
            self._tasks, self.send, options.get("tools", ()), options.get("on_dialog")
        )
        self._process: Process | None = None

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        await (self.close() if kind is None else self.kill())

    # ------------------------------------------------------------ life

    async def open(self) -> None:
        """Start the program, wait for its greeting if it has one, register the tools.

        Raises:
            NotStarted: the program is not there.
            ProgramEnded: it ended at once.
            Refused: it takes no tools.
        """
        self._process = await self._launch()
        try:
            if self.wire.greets:
                await self._greeted()
            if self._answers.tools:
                await self.ask("set_host_tools", READY_SECONDS, tools=self._answers.tools)
            if self._answers.wanted:
                self._tasks.start(self._pump())
        except BaseException:
            await self.kill()
            raise

    async def close(self) -> int:
        """Let the program finish, else kill it; returns its exit code."""
        try:
            await self._tasks.close()
        except BaseException:
            self.process.send_signal(SIGKILL)
            raise
        return await self.process.close()

    async def kill(self) -> int:
        """End the program at once; returns its exit code."""
        self.process.send_signal(SIGKILL)
        await self._tasks.close()
        return await self.process.kill()

    @property
    def process(self) -> Process:
        """Raises:
        ClientError: the client is not open.
        """
        if self._process is None:
            raise ClientError("The client is not open: use `async with`, or await open().")
        return self._process

    # ------------------------------------------------------------ commands

    async def send(self, command: str, /, **params: Any) -> Any:
        """Send a command and return its id, which is generated unless `id` is given.

        Raises:
            ProgramEnded: the program reads no more.
        """
        if "id" not in params:
            params = {"id": self.new_id(), **params}
        await self.process.write(dumps({**params, "type": command}) + b"\n")
        return params["id"]

    async def reply_to(self, command_id: Any, timeout: float | None = SECONDS) -> Record:
        """The reply to a command that was sent, whether it succeeded or not.

        Raises:
            NoAnswer: no reply came in time.
            ProgramEnded: the program ended before it replied.
            TooMuchUnread: before it came so many events that they cannot be kept.
        """
        key = dumps(command_id)
        async with self._limit(timeout, f"reply to {command_id!r}"):
            while key not in self._replies:
                self.unread.check()
                await self.read_until(lambda: key in self._replies)
        return self._replies.pop(key)

    # ------------------------------------------------------------ for those who read themselves

    def new_id(self) -> str:
        """An id that no command has had."""
        self._count += 1
        return f"c{self._count}"

    def has(self, key: bytes) -> bool:
        """Whether the reply to a command has come; the key is its id as JSON."""
        return key in self._replies

    def take_reply(self, key: bytes) -> Record | None:
        """The reply to a command if it has come."""
        return self._replies.pop(key, None)

    async def read_until(self, is_there: Callable[[], bool]) -> None:
        """Read one record, unless another task has meanwhile read the wanted one.

        Raises:
            ProgramEnded: the program has closed its output.
        """
        async with self._reading:
            if is_there():
                return
            line = await self.process.read_line()
            if line is None:
                raise await self.process.ended()
            if self._trace is not None:
                self._trace(line)
            self._sort(read_record(line), len(line))

    # ------------------------------------------------------------ private

    async def _launch(self) -> Process:
        cwd, env = self._options.get("cwd"), self._options.get("env")
        start = self._start
        return await Process.start(start.command, cwd=cwd, env=env, name=start.name)

    def _sort(self, record: Record, size: int) -> None:
        self._last.append(record["type"])
        if record["type"] == "rpc_chunk":
            whole = self._chunks.add(record)
            if whole is not None:
                self._sort(read_record(whole), len(whole))
        elif record["type"] == "response" and "id" in record:
            self._replies[dumps(record["id"])] = record
            if len(self._replies) > _KEPT_REPLIES:
                del self._replies[next(iter(self._replies))]
        elif not self._answers.take(record):
            self.unread.add(record, size)

    async def _pump(self) -> None:
        """Read records while no caller waits, so that calls and dialogs are answered."""
        try:
            while True:
                await self.unread.room()
                await self.read_until(self.unread.is_full)
        except ClientError:
            return  # callers that wait get the same error

    async def _greeted(self) -> None:
        async with self._limit(READY_SECONDS, "ready"):
            while "ready" not in self._last:
                await self.read_until(lambda: "ready" in self._last)

    def _context(self) -> str:
        return f"stderr: {self.process.stderr.strip() or '(empty)'}"
