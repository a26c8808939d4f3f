"""The engine's side of a run: what the agent loop asks for, answered from the parts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ludolf.agent.batch import tool_update
from ludolf.agent.events import AgentEvent, MessageEnd, MessageStart, MessageUpdate, TurnEnd
from ludolf.agent.io import Accepted, AgentIO, Outcome
from ludolf.agent.queue import Queued, QueueKind
from ludolf.agent.scope import Scope
from ludolf.agent.tool import Allow, Block, ToolContext, ToolError, ToolOutput
from ludolf.ai.messages import AssistantMessage, Message, ToolCall
from ludolf.ai.models import Model
from ludolf.ai.provider import Answer, Request
from ludolf.engine.extension_bridge.hook_points import Hooks
from ludolf.engine.history.compact import Compactor
from ludolf.engine.parts import Parts
from ludolf.engine.run.requests import Requests
from ludolf.engine.run.retry import Retries
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
        self._hooks = Hooks(parts)
        self._scope = scope
        self._rules = parts.rules if parts.rules.active else None
        self.after_turn: list[Message] = []

    async def emit(self, event: AgentEvent) -> None:
        if isinstance(event, TurnEnd):
            await self._end_turn(event)
            return
        await self._parts.hub.emit(event)
        if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self._parts.meter.count(event.message)
            await self._retries.answered(event.message)

    async def emit_all(self, events: Sequence[AgentEvent]) -> None:
        await self._parts.hub.emit_all(events)

    async def _end_turn(self, event: TurnEnd) -> None:
        """Handlers of `turn_end` come first; messages held back for the end of a turn after it."""
        if self._parts.extending.wants("turn_end"):
            await self._hooks.turn_end(event)
        await self._parts.hub.emit(event)
        while self.after_turn:
            message = self.after_turn.pop(0)
            await self._parts.hub.emit(MessageStart(message=message))
            await self._parts.hub.emit(MessageEnd(message=message))

    def post(self, event: MessageUpdate) -> None:
        self._parts.hub.tell(event)
        if self._rules is not None:
            self._rules.see(event)
        if self._parts.extending.wants("message_update"):
            self._parts.extending.collect(event)

    def has_room(self) -> bool:
        return self._parts.hub.has_room()

    async def breathe(self) -> None:
        if self._parts.extending.current is not None:
            await self._parts.extending.flush()
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

    def runs_alone(self, call: ToolCall) -> bool:
        tool = self._parts.toolbox.find(call.name)
        return tool is not None and tool.alone

    def interrupted(self) -> bool:
        return self._parts.queue.interrupts and bool(self._parts.queue.due("steering"))

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
        if self._parts.extending.wants("tool_call"):
            verdict = await self._hooks.tool_call(call, args)
            if isinstance(verdict, Block):
                return verdict
            args = dict(verdict.args)
        safety = self._parts.safety
        if safety is not None:
            reviewed = await safety.review(call, tool, args, self._parts)
            if isinstance(reviewed, Block):
                return reviewed
            args = reviewed
        return Accepted(tool, Allow(args), self._context(call))

    def _context(self, call: ToolCall) -> ToolContext:
        async def report(partial: ToolOutput) -> None:
            await self._parts.hub.emit(tool_update(call, partial))

        def post(partial: ToolOutput) -> None:
            self._parts.hub.post(tool_update(call, partial))

        model, safety = self._parts.models.current, self._parts.safety
        return ToolContext(
            call_id=call.id,
            cwd=self._parts.home.cwd,
            report=report,
            post=post,
            takes_images=model is None or model.takes_images,
            input_limits=model.input_limits if model is not None else None,
            environment=tool_environment(self._parts, model),
            documents=self._parts.documents,
            walls=safety.walls(self._parts.home.cwd) if safety is not None else None,
        )

    async def after_tool(self, call: ToolCall, output: ToolOutput, is_error: bool) -> Outcome:
        if self._parts.safety is not None:
            self._parts.safety.after_command(self._parts)
        if self._rules is not None:
            output = self._rules.remark(call, output)
        if self._parts.extending.wants("tool_result"):
            return await self._hooks.tool_result(call, output, is_error)
        return Outcome(output, is_error)

    async def finish_message(self, message: Message) -> Message:
        if self._parts.extending.wants("message_end"):
            return await self._hooks.message_end(message)
        return message

    def due(self, kind: QueueKind) -> int:
        return self._parts.queue.due(kind) + self._has_rules(kind) + self._has_results(kind)

    def take(self, kind: QueueKind) -> Queued:
        if self._has_rules(kind):
            return self._parts.rules.take_due()[0]
        if self._has_results(kind) and self._parts.jobs is not None:
            return self._parts.jobs.take()
        return self._parts.queue.take(kind)

    def _has_rules(self, kind: QueueKind) -> bool:
        """Rules that were broken without a cut are told like a steering message, before any."""
        return kind == "steering" and self._parts.rules.has_due

    def _has_results(self, kind: QueueKind) -> bool:
        """Agents in the background that are done are told of at the next turn."""
        jobs = self._parts.jobs
        return kind == "steering" and jobs is not None and jobs.due

    def will_retry(self, answer: Answer) -> bool:
        return self._parts.rules.was_cut or self._retries.wants(answer)


if TYPE_CHECKING:

    def _proof(turn: TurnIO) -> AgentIO:
        return turn
