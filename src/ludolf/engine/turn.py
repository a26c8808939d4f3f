"""The engine's side of a run: what the agent loop asks for, answered from the parts."""

from typing import TYPE_CHECKING

from ludolf.agent.batch import tool_update
from ludolf.agent.events import AgentEvent, MessageEnd, MessageUpdate
from ludolf.agent.io import Accepted, AgentIO, Outcome
from ludolf.agent.queue import Queued, QueueKind
from ludolf.agent.scope import Scope
from ludolf.agent.tool import Allow, Block, ToolContext, ToolError, ToolOutput
from ludolf.ai.messages import AssistantMessage, Message, ToolCall
from ludolf.ai.models import Model
from ludolf.ai.provider import Answer, Request
from ludolf.engine.compact import Compactor
from ludolf.engine.parts import Parts
from ludolf.engine.requests import Requests
from ludolf.engine.retry import Retries
from ludolf.engine.toolbox import tool_environment
from ludolf.protocol.events import LimitReached

BROKEN = (
    'Tool call "{name}" was not executed: its arguments are not a complete JSON object. '
    "Re-issue the tool call with complete arguments."
)


class TurnIO:
    """Made for one drive, whose scope it shares."""

    def __init__(
        self,
        parts: Parts,
        requests: Requests,
        retries: Retries,
        compactor: Compactor,
        scope: Scope,
    ) -> None:
        self._parts = parts
        self._requests = requests
        self._retries = retries
        self._compactor = compactor
        self._scope = scope

    async def emit(self, event: AgentEvent) -> None:
        await self._parts.hub.emit(event)
        if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self._parts.meter.count(event.message)
            await self._retries.answered(event.message)

    def post(self, event: MessageUpdate) -> None:
        self._parts.hub.tell(event)

    async def breathe(self) -> None:
        await self._parts.hub.breathe()

    def model(self) -> Model:
        return self._parts.models.require()

    async def prepare_turn(self) -> bool:
        reached = self._parts.meter.check()
        if reached is not None:
            await self._parts.hub.emit(
                LimitReached(limit=reached.limit, used=reached.used, maximum=reached.maximum)
            )
            return False
        await self._compactor.if_near_limit(self._scope)
        return True

    async def request(self) -> Request:
        return await self._requests.build()

    async def before_tool(self, call: ToolCall, *, whole: bool) -> Accepted | Block:
        from ludolf.tools.schema import check_arguments

        tool = self._parts.toolbox.find(call.name)
        if tool is None:
            raise ToolError(f"Tool {call.name} not found")
        given = call.arguments
        prepared = tool.prepare(given) if isinstance(given, dict) else given
        args = check_arguments(call.name, tool.parameters, prepared)
        if not whole:
            raise ToolError(BROKEN.format(name=call.name))
        return Accepted(tool, Allow(args), self._context(call))

    def _context(self, call: ToolCall) -> ToolContext:
        async def report(partial: ToolOutput) -> None:
            await self._parts.hub.emit(tool_update(call, partial))

        model = self._parts.models.current
        return ToolContext(
            call_id=call.id,
            cwd=self._parts.home.cwd,
            report=report,
            takes_images=model is None or model.takes_images,
            environment=tool_environment(self._parts, model),
        )

    async def after_tool(self, call: ToolCall, output: ToolOutput, is_error: bool) -> Outcome:
        return Outcome(output, is_error)

    async def finish_message(self, message: Message) -> Message:
        return message

    def due(self, kind: QueueKind) -> int:
        return self._parts.queue.due(kind)

    def take(self, kind: QueueKind) -> Queued:
        return self._parts.queue.take(kind)

    def will_retry(self, answer: Answer) -> bool:
        return self._retries.wants(answer)


if TYPE_CHECKING:

    def _proof(turn: TurnIO) -> AgentIO:
        return turn
