"""The engine's side of a run: answers what the agent loop asks for."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ludolf.agent.batch import tool_update
from ludolf.agent.events import AgentEvent, MessageEnd, MessageStart, MessageUpdate, TurnEnd
from ludolf.agent.io import AcceptedCall, AgentIO, Outcome
from ludolf.agent.queue import QueuedMessage, QueueKind
from ludolf.agent.scope import Scope
from ludolf.agent.tool import Allow, Deny, ToolContext, ToolFailure, ToolOutput
from ludolf.ai.messages import AssistantMessage, Message, ToolCall
from ludolf.ai.models import Model
from ludolf.ai.provider import ModelAnswer, Request
from ludolf.engine.conversation import Conversation
from ludolf.engine.feature import Features
from ludolf.engine.history.compact import Compactor
from ludolf.engine.models import Models
from ludolf.engine.run.requests import Requests
from ludolf.engine.run.retry import Retries
from ludolf.engine.toolset import Toolset
from ludolf.engine.workspace import Workspace
from ludolf.protocol.events import LimitReached

BROKEN = (
    'Tool call "{name}" was not executed: its arguments are not a complete JSON object. '
    "Re-issue the tool call with complete arguments."
)


class Drive(msgspec.Struct, frozen=True, kw_only=True):
    """The components that run a prompt."""

    workspace: Workspace
    conversation: Conversation
    models: Models
    toolset: Toolset
    features: Features
    requests: Requests
    retries: Retries
    compactor: Compactor


class TurnIO:
    """Made for one prompt, whose scope it shares."""

    def __init__(self, drive: Drive, scope: Scope) -> None:
        self._drive = drive
        self._hub = drive.conversation.hub
        self._features = drive.features
        self._scope = scope

    # ------------------------------------------------------------ events

    async def emit(self, event: AgentEvent) -> None:
        if isinstance(event, TurnEnd):
            await self._end_turn(event)
            return
        await self._hub.emit(event)
        if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self._drive.conversation.meter.count(event.message)
            await self._drive.retries.answered(event.message)

    async def emit_all(self, events: Sequence[AgentEvent]) -> None:
        await self._hub.emit_all(events)

    async def _end_turn(self, event: TurnEnd) -> None:
        """Features come first; messages that were held for the end of the turn follow it."""
        for feature in self._features.hooks["before_turn_end"]:
            await feature.before_turn_end(event)
        await self._hub.emit(event)
        held = self._drive.conversation.queue.after_turn
        while held:
            message = held.pop(0)
            await self._hub.emit(MessageStart(message=message))
            await self._hub.emit(MessageEnd(message=message))

    def post(self, event: MessageUpdate) -> None:
        self._hub.send(event)
        for feature in reversed(self._features.hooks["on_update"]):
            feature.on_update(event)

    def has_room(self) -> bool:
        return self._hub.has_room()

    async def yield_to_loop(self) -> None:
        for feature in self._features.hooks["flush_updates"]:
            await feature.flush_updates()
        await self._hub.yield_to_loop()

    # ------------------------------------------------------------ turns

    def model(self) -> Model:
        return self._drive.models.require()

    async def prepare_turn(self) -> bool:
        reached = self._drive.conversation.meter.check()
        if reached is not None:
            await self._hub.emit(
                LimitReached(limit=reached.limit, used=reached.used, maximum=reached.maximum)
            )
            return False
        await self._drive.compactor.if_near_limit(self._scope)
        return True

    async def request(self) -> Request:
        block_images = self._drive.workspace.settings.images.block_images
        return await self._drive.requests.build(block_images=block_images)

    async def finish_message(self, message: Message) -> Message:
        for feature in self._features.hooks["finish_message"]:
            message = await feature.finish_message(message)
        return message

    def due(self, kind: QueueKind) -> int:
        return self._drive.conversation.queue.due(kind) + self._features.pending(kind)

    def take(self, kind: QueueKind) -> QueuedMessage:
        return self._features.take(kind) or self._drive.conversation.queue.take(kind)

    def will_retry(self, answer: ModelAnswer) -> bool:
        return self._features.will_rerun() or self._drive.retries.wants(answer)

    # ------------------------------------------------------------ tools

    def runs_alone(self, call: ToolCall) -> bool:
        tool = self._drive.toolset.find(call.name)
        return tool is not None and tool.alone

    def interrupted(self) -> bool:
        queue = self._drive.conversation.queue
        return queue.interrupts and bool(queue.due("steering"))

    async def before_tool(self, call: ToolCall, *, whole: bool) -> AcceptedCall | Deny:
        from ludolf.tools.schema import check_arguments

        tool = self._drive.toolset.find(call.name)
        if tool is None:
            raise ToolFailure(f"Tool {call.name} not found")
        arguments = call.arguments
        prepared = tool.prepare(arguments) if isinstance(arguments, dict) else arguments
        args = check_arguments(call.name, tool.parameters, prepared)
        if not whole:
            raise ToolFailure(BROKEN.format(name=call.name))
        verdict = await self._features.before_tool(call, tool, args)
        if isinstance(verdict, Deny):
            return verdict
        return AcceptedCall(tool, Allow(verdict), self._context(call))

    def _context(self, call: ToolCall) -> ToolContext:
        async def report(partial: ToolOutput) -> None:
            await self._hub.emit(tool_update(call, partial))

        def post(partial: ToolOutput) -> None:
            self._hub.post(tool_update(call, partial))

        drive, model = self._drive, self._drive.models.current
        return ToolContext(
            call_id=call.id,
            cwd=drive.workspace.cwd,
            report=report,
            post=post,
            takes_images=model is None or model.takes_images,
            input_limits=model.input_limits if model is not None else None,
            environment=drive.toolset.environment,
            documents=drive.toolset.documents,
            walls=self._features.walls(drive.workspace.cwd),
        )

    async def after_tool(self, call: ToolCall, output: ToolOutput, is_error: bool) -> Outcome:
        return await self._features.after_tool(call, Outcome(output, is_error))


if TYPE_CHECKING:

    def _proof(turn: TurnIO) -> AgentIO:
        return turn
