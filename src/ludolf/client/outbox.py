"""Commands on their way to a server: each is kept until the server has surely read it."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ludolf.base import dumps
from ludolf.client.events import Record


class SentCommand(msgspec.Struct, eq=False):
    """`key` is the id as JSON. `reply` is None if the server does not answer the command.

    `on_reply` sees the reply before any later frame is read.
    """

    key: bytes
    command: str
    params: dict[str, Any]
    reply: asyncio.Future[Record] | None
    on_reply: Callable[[Record], None] | None = None

    @property
    def line(self) -> bytes:
        return dumps({**self.params, "type": self.command}) + b"\n"

    @property
    def session(self) -> str | None:
        return self.params.get("session")

    def answer(self, record: Record) -> None:
        if self.reply is not None and not self.reply.done():
            if self.on_reply is not None and record.get("success"):
                self.on_reply(record)
            self.reply.set_result(record)

    def fail(self, error: Exception) -> None:
        if self.reply is not None and not self.reply.done():
            self.reply.set_exception(error)
            self.reply.exception()  # a caller may have left


class Outbox:
    """Commands in their order; a cut connection makes all of them unsent again.

    The server reads the lines of a connection in order, so a reply also confirms the unanswered
    commands before it.
    """

    def __init__(self) -> None:
        self._unsent: deque[SentCommand] = deque()
        self._sent: deque[SentCommand] = deque()

    def __iter__(self) -> Iterator[SentCommand]:
        yield from (*self._sent, *self._unsent)

    def add(self, command: SentCommand) -> None:
        self._unsent.append(command)

    def next(self) -> SentCommand | None:
        """The next command to send, which counts as sent from now on."""
        if not self._unsent:
            return None
        command = self._unsent.popleft()
        self._sent.append(command)
        return command

    def rewind(self) -> None:
        self._unsent.extendleft(reversed(self._sent))
        self._sent.clear()

    def take(self, key: bytes) -> SentCommand | None:
        """Remove the command that was replied to, and unanswered ones before it."""
        found = next((each for each in self._sent if each.key == key and each.reply), None)
        if found is None:
            return None
        kept: deque[SentCommand] = deque()
        while (first := self._sent.popleft()) is not found:
            if first.reply is not None:
                kept.append(first)
        self._sent.extendleft(reversed(kept))
        return found

    def drop(self, command: SentCommand) -> None:
        for line in (self._sent, self._unsent):
            if command in line:
                line.remove(command)
