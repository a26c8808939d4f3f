"""Results of prompts: a frame for each accepted prompt when it has ended."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgspec

from ludolf.agent.events import AgentEnd, AgentStart, QueueUpdate
from ludolf.agent.io import QueueKind
from ludolf.ai.errors import RETRYABLE, kind_of
from ludolf.ai.messages import AssistantMessage
from ludolf.base.patterns import lazy_pattern
from ludolf.engine.engine import Engine
from ludolf.engine.hub import Sink
from ludolf.protocol.commands import Disposition
from ludolf.protocol.events import AgentSettled, Event
from ludolf.protocol.framing import NO_ID
from ludolf.protocol.host_events import PromptEnded, SessionSettled
from ludolf.protocol.subagent_events import AgentWaiting
from ludolf.rpc.connection import HostConnection
from ludolf.rpc.state import is_settled

PromptStatus = Literal["completed", "aborted", "error"]
_STATUS = lazy_pattern(r"(\d{3})\b")


class _Open(msgspec.Struct):
    """A prompt that was accepted; `place` is its number in the line where it waits."""

    id: msgspec.Raw
    line: QueueKind | None = None
    place: int = 0


class PromptResults(Sink):
    """Emits through the hub, to keep the order of events; attached when results are wanted."""

    def __init__(self, engine: Engine, connection: HostConnection) -> None:
        self._engine = engine
        self._connection = connection
        self._open: list[_Open] = []
        self._status: PromptStatus = "completed"
        self._error: dict[str, Any] | None = None
        self._detach: Callable[[], None] | None = None
        # Something ran since the last `session_settled`.
        self._has_run = False
        if connection.prompt_results:
            self._listen()

    def accepted(self, id: msgspec.Raw, disposition: Disposition, line: QueueKind) -> None:
        """Note an accepted prompt; it gets a result when it ends."""
        if not self._connection.prompt_results:
            return
        self._listen()
        if disposition == "started":
            self._open.append(_Open(id))
        elif disposition == "queued":
            self._open.append(_Open(id, line, self._engine.conversation.queue.added[line]))
        else:
            # After the reply, which is sent in this turn of the loop.
            loop = asyncio.get_running_loop()
            loop.call_soon(partial(self._tell, id, "completed", invoked=False))

    def _listen(self) -> None:
        if self._detach is None:
            self._detach = self._engine.conversation.hub.attach(self)

    def close(self) -> None:
        """Follow no prompts any more."""
        if self._detach is not None:
            self._detach()
            self._detach = None

    # ------------------------------------------------------------ as a sink

    def take(self, event: Event) -> None:
        if isinstance(event, AgentStart):
            self._has_run = True
        elif isinstance(event, AgentEnd):
            self._note(event)
        elif isinstance(event, AgentSettled | AgentWaiting):
            self._settle()
            self._tell_rest()
        elif isinstance(event, QueueUpdate):
            self._drop_cleared()
            self._tell_rest()

    # ------------------------------------------------------------ private

    def _note(self, end: AgentEnd) -> None:
        answers = [item for item in end.messages if isinstance(item, AssistantMessage)]
        last = answers[-1] if answers else None
        self._status, self._error = "completed", None
        if last is not None and last.stop_reason == "aborted":
            self._status = "aborted"
        elif last is not None and last.stop_reason == "error":
            self._status = "error"
            self._error = _failure(last)

    def _settle(self) -> None:
        queue = self._engine.conversation.queue
        over = [item for item in self._open if not item.line or item.place <= queue.left[item.line]]
        self._open = [item for item in self._open if item not in over]
        for item in over:
            self._tell(item.id, self._status, error=self._error)

    def _tell_rest(self) -> None:
        if self._has_run and self._connection.prompt_results and is_settled(self._engine):
            self._has_run = False
            self._post(SessionSettled())

    def _drop_cleared(self) -> None:
        cleared = self._engine.conversation.queue.cleared
        gone = [item for item in self._open if item.line and item.place in cleared[item.line]]
        self._open = [item for item in self._open if item not in gone]
        for item in gone:
            self._tell(item.id, "aborted", invoked=False)

    def _post(self, event: Event) -> None:
        (self._connection.own_events or self._engine.conversation.hub.post)(event)

    def _tell(
        self,
        id: msgspec.Raw,
        status: PromptStatus,
        *,
        invoked: bool = True,
        error: dict[str, Any] | None = None,
    ) -> None:
        self._post(
            PromptEnded(
                id=None if id is NO_ID or not id else id,
                agent_invoked=invoked,
                status=status,
                error=error,
                session_settled=is_settled(self._engine),
            )
        )


def _failure(answer: AssistantMessage) -> dict[str, Any]:
    """Return the error of an answer, with the data for a decision to retry."""
    text = answer.error_message or "Unknown error"
    status = _STATUS.match(text)
    about = {"message": text, "provider": answer.provider, "model": answer.model}
    http = {"httpStatus": int(status[1])} if status else {}
    return {**about, **http, "retryable": kind_of(text) in RETRYABLE}
