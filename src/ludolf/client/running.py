"""The events of one prompt, from its acceptance to its end."""

import asyncio
from contextlib import suppress
from typing import Any

from ludolf.base import dumps
from ludolf.client.errors import ClientError, NoAnswer, Refused, RunInterrupted
from ludolf.client.events import Record
from ludolf.client.exchange import RecordExchange, accepted, as_record

# The interval for polling a program that does not report when it is idle.
ASK_SECONDS = 0.05
# How long the next prompt waits for the end of an aborted run.
REST_SECONDS = 10.0
_BUSY = ("isStreaming", "isCompacting", "pendingMessageCount")


class PromptRun:
    """Knows when a prompt is over, in each family. It is the only reader of events meanwhile."""

    def __init__(self, connection: RecordExchange) -> None:
        self._connection = connection
        self._wire = connection.wire
        self._id = connection.new_id()
        self._key = dumps(self._id)
        self._ends_at_once = False
        self._started = False
        # Whether a reply has come, and whether it repeats one that was lost with its connection.
        self._is_accepted = self._is_repeated = False
        self._snapshot: Record | None = None
        self.is_over = False

    async def begin(self, params: dict[str, Any]) -> None:
        """Send the prompt; earlier unread events are dropped."""
        self._connection.unread.clear()
        await self._connection.send("prompt", id=self._id, **params)

    async def next(self) -> Record | None:
        """The next event; None when there is none any more.

        Raises:
            Refused: the prompt was not accepted, perhaps after it was acknowledged.
            ProgramEnded: the program died.
        """
        connection, unread = self._connection, self._connection.unread
        while not self.is_over:
            # The reply first: what came before it and is still unread counts as the prompt's own.
            reply = connection.take_reply(self._key)
            if reply is not None:
                self._take(reply)
            elif unread:
                record = unread.take()
                self.is_over = await self._ends_with(record)
                return record
            elif self._ends_at_once:
                self.is_over = True
            else:
                await connection.read_until(lambda: bool(unread) or connection.has(self._key))
        return None

    async def give_up(self) -> None:
        """Abort the run."""
        with suppress(ClientError):
            await self._connection.send("abort")

    async def drain(self) -> None:
        """Read to the end of the aborted run, so that the next prompt does not see its events."""
        with suppress(Refused, TimeoutError):
            async with asyncio.timeout(REST_SECONDS):
                while await self.next() is not None:
                    pass

    # ------------------------------------------------------------ private

    def _take(self, reply: Record) -> None:
        self.is_over = not reply["success"]
        data = accepted("prompt", reply) or {}
        handled = data.get("disposition") == "handled" or data.get("agentInvoked") is False
        self._ends_at_once = handled
        self._is_accepted = True
        self._is_repeated = bool(reply.get("repeated"))
        if self._is_repeated:
            self._settle()

    async def _ends_with(self, record: Record) -> bool:
        kind = record["type"]
        self._started = self._started or kind == "agent_start"
        if kind == "agent_start":
            self._snapshot = None
        if kind == "resync":
            self._snapshot = record["data"]
            is_newer = self._is_repeated or self._id not in record.get("unanswered", ())
            if self._is_accepted and is_newer:
                self._settle()
            return self.is_over
        if kind == "agent_end" and self._is_polled:
            return not record.get("willRetry") and await self._is_at_rest()
        if kind == self._wire.end:
            return record.get("isTerminal") is not False
        if kind == "error" and not self._wire.answers and not self._started:
            self.is_over = True
            raise Refused(f"prompt: {record.get('error')}")
        return False

    def _settle(self) -> None:
        """End the run if a snapshot that is newer than the prompt shows the agent idle.

        Raises:
            RunInterrupted: the server ended during the run.
        """
        if self._snapshot is None:
            return
        state = as_record(self._snapshot.get("state"))
        self.is_over = not any(state.get(sign) for sign in _BUSY)
        if self.is_over and self._snapshot.get("interrupted"):
            raise RunInterrupted(
                "The server ended during the run. The prompt is stored: send another one to "
                "continue."
            )

    @property
    def _is_polled(self) -> bool:
        """Whether the program never reports that it is idle, as older ones."""
        name = self._wire.name
        return name == "pi-0.79" or (name == "pi" and not self._connection.is_ours)

    async def _is_at_rest(self) -> bool:
        while not self._connection.unread:
            with suppress(NoAnswer):
                state = await self._connection.ask("get_state")
                if not any(state.get(sign) for sign in _BUSY):
                    return True
            await asyncio.sleep(ASK_SECONDS)
        return False
