"""The connection to a program: sends commands, matches replies, hands out events."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from signal import SIGKILL
from typing import Any, Self, Unpack

from ludolf.agent.scope import Tasks
from ludolf.base import dumps, loads
from ludolf.client.answering import HostAnswers
from ludolf.client.errors import ClientError, NoAnswer, ProgramEnded, Refused, TooMuchUnread
from ludolf.client.events import Record
from ludolf.client.options import ClientOptions, Start, plan_start
from ludolf.client.process import Process

# Bytes of events that are read ahead.
FULL = 8 << 20
# Bytes of events that may arrive before a reply.
MOST = 512 << 20


class Unread:
    """A line of events, and how many bytes they were."""

    def __init__(self, full: int = FULL, most: int = MOST) -> None:
        self._events: deque[tuple[Record, int]] = deque()
        self._full, self._most = full, most
        self._size = 0
        self._room = asyncio.Event()
        self._room.set()

    def __len__(self) -> int:
        return len(self._events)

    def add(self, record: Record, size: int) -> None:
        self._events.append((record, size))
        self._resize(size)

    def take(self) -> Record:
        record, size = self._events.popleft()
        self._resize(-size)
        return record

    def clear(self) -> None:
        self._events.clear()
        self._resize(-self._size)

    def is_full(self) -> bool:
        return self._size >= self._full

    async def room(self) -> None:
        """Wait until it is not full."""
        await self._room.wait()

    def check(self) -> None:
        """Raises:
        TooMuchUnread: no more of them are kept.
        """
        if self._size >= self._most:
            raise TooMuchUnread(f"{self._size >> 20} MiB of events wait to be read")

    def _resize(self, change: int) -> None:
        self._size += change
        if self.is_full():
            self._room.clear()
        else:
            self._room.set()


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


SECONDS = 5.0
READY_SECONDS = 30.0
# Replies without a waiting caller; the oldest are dropped.
_KEPT_REPLIES = 1000

_HEAD = re.compile(rb'\{("id":[^,{}\[\]]*,)?"type":"response","command":"\w*"')

Match = str | Callable[[Record], bool]


class ClientConnection:
    """Use it with `async with`. Records are read only while a caller waits for one; with `tools` or
    `on_dialog` also in between, until too many events are unread.

    Replies go to their callers; all other records are events, handed out in order and once by
    `events`, `collect` and `wait_for`. Tool calls and dialogs that the client answers are not
    events.
    """

    def __init__(self, *arguments: str, **options: Unpack[ClientOptions]) -> None:
        self._options = options
        self._start: Start = plan_start(arguments, options)
        # The dialect of the program, and whether the program is this package's own.
        self.wire = self._start.wire
        self.is_ours = self._start.is_ours
        self._trace = options.get("trace")
        self._count = 0
        self._reading = asyncio.Lock()
        self._replies: dict[bytes, Record] = {}
        # The events that came and were not handed out yet.
        self.unread = Unread()
        self._chunks = LineChunks()
        self._waiting = 0
        self._last: deque[str] = deque(maxlen=8)
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

    async def request(
        self, command: str, /, timeout: float | None = SECONDS, **params: Any
    ) -> Record:
        """Send a command and wait for its reply; raises as `send` and `reply_to` do."""
        return await self.reply_to(await self.send(command, **params), timeout)

    async def ask(self, command: str, /, timeout: float | None = SECONDS, **params: Any) -> Any:
        """The `data` of a command's reply.

        Raises:
            Refused: the command failed.
        """
        return accepted(command, await self.request(command, timeout, **params))

    # ------------------------------------------------------------ events

    async def events(self) -> AsyncGenerator[Record, None]:
        """All events, without a time limit, until the program ends."""
        try:
            while True:
                yield await self._next_event()
        except ProgramEnded:
            return

    async def collect(self, match: Match, timeout: float | None = SECONDS) -> list[Record]:
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

    async def wait_for(self, match: Match, timeout: float | None = SECONDS) -> Record:
        """The last of what `collect` gives; the others are dropped."""
        return (await self.collect(match, timeout))[-1]

    async def prompt_and_collect(
        self, text: str, /, timeout: float | None = SECONDS, **params: Any
    ) -> list[Record]:
        """Prompt, and return all events until the agent has come to rest; raises as `ask` does."""
        await self.ask("prompt", timeout, message=text, **params)
        return await self.collect("agent_settled", timeout)

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

    async def _next_event(self) -> Record:
        while not self.unread:
            self._waiting += 1
            try:
                await self.read_until(lambda: bool(self.unread))
            finally:
                self._waiting -= 1
        return self.unread.take()

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

    @asynccontextmanager
    async def _limit(self, seconds: float | None, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            if seconds is None:
                raise
            last = ", ".join(self._last) or "none"
            context = f"last records: {last}; stderr: {self.process.stderr.strip() or '(empty)'}"
            raise NoAnswer(f"No {what} within {seconds:g} s; {context}") from None


def accepted(command: str, reply: Record) -> Any:
    """The data of a reply.

    Raises:
        Refused: the reply is an error.
    """
    if not reply["success"]:
        raise Refused(f"{command}: {reply['error']}", reply.get("code"))
    return reply.get("data")


def read_record(line: bytes) -> Record:
    """The record in a line. A reply that is nested too deeply to be read is a failed one; what is
    no frame at all is an event of the type `unreadable`."""
    try:
        record = loads(line)
    except (ValueError, RecursionError) as error:
        head = _HEAD.match(line)
        if head is not None:
            known: Record = loads(head[0] + b"}")
            return {**known, "success": False, "error": f"the answer cannot be read: {error}"}
        record = None
    if isinstance(record, dict) and isinstance(record.get("type"), str):
        return record
    return {"type": "unreadable", "line": line.decode("utf-8", "replace")}
