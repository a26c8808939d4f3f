"""All that the loop asks of the outside."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from ludolf.agent.events import AgentEvent, MessageUpdate
from ludolf.agent.queue import Queued, QueueKind
from ludolf.agent.tool import Allow, Block, Tool, ToolContext, ToolOutput
from ludolf.ai.messages import AssistantMessage, Message, ToolCall
from ludolf.ai.models import Model
from ludolf.ai.provider import Answer, Request
from ludolf.base import LudolfError


class Accepted(msgspec.Struct, frozen=True):
    """A call that may run: its tool, its checked arguments, and what the tool may ask."""

    tool: Tool
    verdict: Allow
    context: ToolContext


class StreamCut(LudolfError):
    """The answer must not go on; the text says why. It ends as an aborted one."""


class AgentIO(Protocol):
    """The engine's side of a run. Exceptions not named here are bugs and end the run."""

    async def emit(self, event: AgentEvent) -> None:
        """Called for every event but updates; returns once it is stored, spoken and heard."""

    async def emit_all(self, events: Sequence[AgentEvent]) -> None:
        """Called for the ends and results of calls after an abort; as `emit`, in one step."""

    def post(self, event: MessageUpdate) -> None:
        """Called for every piece of an answer; must not wait. A StreamCut ends the answer."""

    def has_room(self) -> bool:
        """Called within a burst of pieces; False ends the burst: a reader has much unread."""

    async def yield_to_loop(self) -> None:
        """Called after a burst of pieces; waits while a slow reader has too much unread."""

    def model(self) -> Model:
        """The model to name in a message that no provider made."""

    async def prepare_turn(self) -> bool:
        """Called before every turn but the first of a run; False ends the run here."""

    async def request(self) -> Request:
        """Called once per turn, fresh from the session. A ProviderError becomes the answer."""

    def runs_alone(self, call: ToolCall) -> bool:
        """Called before the tools of a message: one that runs alone makes all run in order."""

    def interrupted(self) -> bool:
        """Called before a tool that waited for others: True skips it, and all behind it.

        Two states. `wait`: never, so a waiting message is delivered when the turn has ended.
        `immediate`: while a steering message waits; running tools still end with their results.
        """

    async def before_tool(self, call: ToolCall, *, whole: bool) -> Accepted | Block:
        """Called in call order before any tool of the message runs. A ToolError is the result.

        `whole` is False if the arguments were cut or no JSON: such a call must not be accepted.
        """

    async def after_tool(self, call: ToolCall, output: ToolOutput, is_error: bool) -> "Outcome":
        """Called when a tool has ended; may replace its output."""

    async def finish_message(self, message: Message) -> Message:
        """Called before a message ends; may replace it."""

    def due(self, kind: QueueKind) -> int:
        """How many waiting messages of a line are to be delivered now."""

    def take(self, kind: QueueKind) -> Queued:
        """Take one waiting message; tells of the changed queue."""

    def will_retry(self, answer: Answer) -> bool:
        """Called at the end of a run: whether another attempt follows by itself."""


class Outcome(msgspec.Struct, frozen=True):
    output: ToolOutput
    is_error: bool


class RunEnd(msgspec.Struct, frozen=True):
    """How a run ended: its messages, and its last answer if it got one."""

    messages: tuple[Message, ...]
    answer: Answer | None

    @property
    def last(self) -> AssistantMessage | None:
        return self.answer.message if self.answer else None
