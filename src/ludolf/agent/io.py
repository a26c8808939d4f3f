"""Interface between the agent loop and the engine, and the queue of messages between them."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from ludolf.agent.events import AgentEvent, MessageUpdate, QueueUpdate
from ludolf.agent.tool import Deny, Tool, ToolContext, ToolOutput
from ludolf.ai.messages import (
    AssistantMessage,
    CustomMessage,
    Message,
    ToolCall,
    UserMessage,
    text_of,
)
from ludolf.ai.models import Model
from ludolf.ai.provider import ModelAnswer, Request
from ludolf.base import LudolfError

QueueKind = Literal["steering", "follow_up"]
QueuedMessage = UserMessage | CustomMessage
QueueMode = Literal["all", "one-at-a-time"]


class Queue:
    """Two queues of messages, each delivered completely or one message at a time."""

    def __init__(self, steering: QueueMode, follow_up: QueueMode) -> None:
        self._lines: dict[QueueKind, deque[QueuedMessage]] = {
            "steering": deque(),
            "follow_up": deque(),
        }
        self.modes: dict[QueueKind, QueueMode] = {"steering": steering, "follow_up": follow_up}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def add(self, kind: QueueKind, message: QueuedMessage) -> None:
        self._lines[kind].append(message)

    def due(self, kind: QueueKind) -> int:
        """Return the number of messages that the queue's mode delivers now."""
        count = len(self._lines[kind])
        return count if self.modes[kind] == "all" else min(count, 1)

    def take(self, kind: QueueKind) -> QueuedMessage:
        return self._lines[kind].popleft()

    def clear(self) -> QueueUpdate:
        """Remove the users' messages from both queues and return them."""
        removed = self.update()
        for line in self._lines.values():
            others = [item for item in line if not isinstance(item, UserMessage)]
            line.clear()
            line.extend(others)
        return removed

    def said(self) -> int:
        """Return the number of queued user messages, without those of extensions."""
        return sum(isinstance(item, UserMessage) for line in self._lines.values() for item in line)

    def update(self) -> QueueUpdate:
        return QueueUpdate(steering=self._texts("steering"), follow_up=self._texts("follow_up"))

    def _texts(self, kind: QueueKind) -> tuple[str, ...]:
        line = self._lines[kind]
        return tuple(text_of(item.content) for item in line if isinstance(item, UserMessage))


class AcceptedCall(msgspec.Struct, frozen=True):
    """A call that may run: its tool, validated arguments and tool context."""

    tool: Tool
    args: Mapping[str, Any]
    context: ToolContext


class StreamCut(LudolfError):
    """The answer must stop here; the text is the reason. The message ends as an aborted one."""


class AgentIO(Protocol):
    """The engine's side of a run. Exceptions that are not listed here are bugs and end the run."""

    async def emit(self, event: AgentEvent) -> None:
        """Called for every event except updates; returns when it is stored, sent and handled."""

    async def emit_all(self, events: Sequence[AgentEvent]) -> None:
        """Called for the ends and results of calls after an abort; like `emit`, in one step."""

    def post(self, event: MessageUpdate) -> None:
        """Called for every piece of an answer; `flush` follows. Must not block.

        A StreamCut ends the answer.
        """

    def has_room(self) -> bool:
        """Called within a burst of pieces; False ends the burst because a reader is slow."""

    def flush(self) -> bool:
        """Called after a burst; sends it. False means that `yield_to_loop` has to follow."""

    async def yield_to_loop(self) -> None:
        """Called after many pieces; waits while a slow reader has too much unread data."""

    def model(self) -> Model:
        """Return the model to name in a message that no provider created."""

    async def prepare_turn(self) -> bool:
        """Called before every turn of a run except the first; False ends the run."""

    async def request(self) -> Request:
        """Called once per turn; computed from the session. A ProviderError becomes the answer."""

    def runs_alone(self, call: ToolCall) -> bool:
        """Called before the tools of a message; True for one call makes all run sequentially."""

    def interrupted(self) -> bool:
        """Called before each sequential call except the first; True skips this and all later calls.

        With `wait` it is always False: a queued message is delivered at the end of the turn. With
        `immediate` it is True while a steering message is queued; running tools still complete.
        """

    async def before_tool(self, call: ToolCall, *, whole: bool) -> AcceptedCall | Deny:
        """Called in call order before any tool of the message runs. A ToolError is the result.

        `whole` is False if the arguments are truncated or not JSON; such a call must be refused.
        """

    async def after_tool(self, call: ToolCall, output: ToolOutput, is_error: bool) -> "Outcome":
        """Called when a tool has ended; may replace its output."""

    async def finish_message(self, message: Message) -> Message:
        """Called before a message ends; may replace it."""

    def due(self, kind: QueueKind) -> int:
        """Return the number of queued messages of a kind to deliver now."""

    def take(self, kind: QueueKind) -> QueuedMessage:
        """Remove one queued message and emit the changed queue."""

    def will_retry(self, answer: ModelAnswer) -> bool:
        """Called at the end of a run; returns whether an automatic retry follows."""


class Outcome(msgspec.Struct, frozen=True):
    output: ToolOutput
    is_error: bool


class RunEnd(msgspec.Struct, frozen=True):
    """How a run ended: its messages, and the last answer if there is one."""

    messages: tuple[Message, ...]
    answer: ModelAnswer | None

    @property
    def last(self) -> AssistantMessage | None:
        return self.answer.message if self.answer else None
