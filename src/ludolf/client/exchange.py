"""Commands and events as records, the same for a program and for a session of a server."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from ludolf.base import loads
from ludolf.client.errors import ClientError, NoAnswer, ProgramEnded, Refused
from ludolf.client.events import Record
from ludolf.client.unread import Unread
from ludolf.protocol.wire.dialects import WireDialect

SECONDS = 5.0
_HEAD = re.compile(
    rb'\{("session":"[^"\\]*",)?("id":[^,{}\[\]]*,)?"type":"response","command":"\w*"'
)

Match = str | Callable[[Record], bool]


class RecordExchange:
    """Replies go to their callers; all other records are events, handed out in order and once by
    `events`, `collect` and `wait_for`. A subclass moves the records.
    """

    # The errors after which `events` ends without raising.
    _ends: ClassVar[tuple[type[ClientError], ...]] = (ProgramEnded,)

    def __init__(self, wire: WireDialect, *, is_ours: bool) -> None:
        # The dialect of the program, and whether the program is this package's own.
        self.wire = wire
        self.is_ours = is_ours
        # The events that came and were not handed out yet.
        self.unread = Unread()
        self._waiting = 0
        self._last: deque[str] = deque(maxlen=8)

    # ------------------------------------------------------------ commands

    async def send(self, command: str, /, **params: Any) -> Any:
        """Send a command and return its id, which is generated unless `id` is given."""
        raise NotImplementedError

    async def reply_to(self, command_id: Any, timeout: float | None = SECONDS) -> Record:
        """The reply to a command that was sent, whether it succeeded or not."""
        raise NotImplementedError

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
        except self._ends:
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
        raise NotImplementedError

    def has(self, key: bytes) -> bool:
        """Whether the reply to a command has come; the key is its id as JSON."""
        raise NotImplementedError

    def take_reply(self, key: bytes) -> Record | None:
        """The reply to a command if it has come."""
        raise NotImplementedError

    async def read_until(self, is_there: Callable[[], bool]) -> None:
        """Wait for one record, unless the wanted one is there."""
        raise NotImplementedError

    # ------------------------------------------------------------ private

    async def _next_event(self) -> Record:
        while not self.unread:
            self._waiting += 1
            try:
                await self.read_until(lambda: bool(self.unread))
            finally:
                self._waiting -= 1
        return self.unread.take()

    def _context(self) -> str:
        """Return what a caller should know about the other side when time is over."""
        raise NotImplementedError

    @asynccontextmanager
    async def _limit(self, seconds: float | None, what: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            if seconds is None:
                raise
            last = ", ".join(self._last) or "none"
            context = f"last records: {last}; {self._context()}"
            raise NoAnswer(f"No {what} within {seconds:g} s; {context}") from None


def accepted(command: str, reply: Record) -> Any:
    """The data of a reply.

    Raises:
        Refused: the reply is an error.
    """
    if not reply["success"]:
        raise Refused(f"{command}: {reply['error']}", reply.get("code"))
    return reply.get("data")


def as_record(value: Any) -> Record:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


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
