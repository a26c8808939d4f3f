"""Run a prompt from acceptance to idle: turns, retries, compaction, queued messages."""

import asyncio
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from ludolf.agent.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    TurnEnd,
)
from ludolf.agent.io import AcceptedCall, AgentIO, Outcome, QueuedMessage, QueueKind, RunEnd
from ludolf.agent.scope import Aborted, Scope, Tasks
from ludolf.agent.tool import Deny, ToolContext, ToolFailure, ToolOutput
from ludolf.ai.draft import Draft
from ludolf.ai.messages import AssistantMessage, Message, ToolCall
from ludolf.ai.models import Model
from ludolf.ai.provider import ModelAnswer, Request
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.conversation import Conversation
from ludolf.engine.run.requests import Attempts, Requests
from ludolf.engine.workspace import Workspace
from ludolf.protocol.events import AgentSettled, AutoRetryEnd, AutoRetryStart

if TYPE_CHECKING:
    from ludolf.engine.history.compact import Compactor

CANCELLED = "Retry cancelled"


class Retries:
    """The retries of one run; any answer that did not fail resets the count."""

    def __init__(self, workspace: Workspace, conversation: Conversation) -> None:
        self._workspace = workspace
        self._hub = conversation.hub
        self._meter = conversation.meter
        self._attempts = Attempts(workspace)
        self._wait: Scope | None = None
        self._over = asyncio.Event()

    def wants(self, answer: ModelAnswer) -> bool:
        """Return whether another attempt follows; the host is notified once of a used-up limit."""
        if not self._attempts.wants(answer):
            return False
        was_reached = self._meter.reached is not None
        reached = self._meter.check()
        if reached is not None and not was_reached:
            self._hub.post(reached)
        return reached is None

    async def before_next(self, answer: ModelAnswer, scope: Scope) -> bool:
        """Announce the next attempt and wait for its time; False if the wait was stopped."""
        scheduled = self._attempts.schedule(answer, AutoRetryStart)
        await self._hub.emit(scheduled)
        self._wait = Scope()
        self._over.clear()
        try:
            await scope.run(self._sleep(scheduled.delay_ms / 1000, self._wait))
        except Aborted:
            await self._end(False, CANCELLED)
            self._over.set()
            await asyncio.sleep(0)  # the command that stopped it is answered before the run ends
            return False
        finally:
            self._wait = None
            self._over.set()
        return True

    async def _sleep(self, seconds: float, wait: Scope) -> None:
        await wait.run(asyncio.sleep(seconds))

    async def answered(self, message: AssistantMessage) -> None:
        """Called with every finished answer: one that did not fail ends the retrying."""
        if self._attempts.count and not message.failed:
            await self._end(True, None)

    async def stopped(self) -> None:
        """Called when a run was aborted: ends the attempts that were announced."""
        if self._attempts.count:
            await self._end(False, CANCELLED)

    async def gave_up(self, answer: ModelAnswer) -> None:
        """Called when a run ended in failure and no attempt follows."""
        if self._attempts.count:
            await self._end(False, answer.message.error_message or "Unknown error")

    async def abort_wait(self) -> None:
        """Stop a wait, if there is one, and return when its end has been sent."""
        if self._wait is not None:
            self._wait.abort()
            await self._over.wait()

    async def _end(self, success: bool, error: str | None) -> None:
        attempt, self._attempts = self._attempts.count, Attempts(self._workspace)
        await self._hub.emit(AutoRetryEnd(success=success, attempt=attempt, final_error=error))


BROKEN = (
    'Tool call "{name}" was not executed: its arguments are not a complete JSON object. '
    "Re-issue the tool call with complete arguments."
)


class TurnIO(AgentIO):
    """Made for one prompt, whose scope it shares."""

    def __init__(self, runner: "PromptRunner", scope: Scope) -> None:
        self._runner = runner
        self._hub = runner.conversation.hub
        self._features = runner.features
        self._scope = scope

    # ------------------------------------------------------------ events

    async def emit(self, event: AgentEvent) -> None:
        if isinstance(event, TurnEnd):
            await self._end_turn(event)
            return
        if isinstance(event, AgentStart):
            event = self._traced(event)
        await self._hub.emit(event)
        if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self._runner.conversation.meter.count(event.message)
            await self._runner.retries.answered(event.message)

    async def emit_all(self, events: Sequence[AgentEvent]) -> None:
        await self._hub.emit_all(events)

    def _traced(self, event: AgentStart) -> AgentStart:
        """Name the span of the run, for hosts that show its trace."""
        for feature in self._features.hooks["start_trace"]:
            event = event.replace(traceparent=feature.start_trace().get("traceparent"))
        return event

    async def _end_turn(self, event: TurnEnd) -> None:
        """Features come first; messages that were held for the end of the turn follow it."""
        for feature in self._features.hooks["before_turn_end"]:
            await feature.before_turn_end(event)
        await self._hub.emit(event)
        held = self._runner.conversation.queue.after_turn
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

    def flush(self) -> bool:
        return self._hub.flush() and not self._features.hooks["flush_updates"]

    async def yield_to_loop(self) -> None:
        for feature in self._features.hooks["flush_updates"]:
            await feature.flush_updates()
        await self._hub.yield_to_loop()

    # ------------------------------------------------------------ turns

    def model(self) -> Model:
        return self._runner.models.require()

    async def prepare_turn(self) -> bool:
        reached = self._runner.conversation.meter.check()
        if reached is not None:
            await self._hub.emit(reached)
            return False
        await self._runner.compactor.if_near_limit(self._scope)
        return True

    async def request(self) -> Request:
        return await self._runner.requests.next()

    async def finish_message(self, message: Message) -> Message:
        for feature in self._features.hooks["finish_message"]:
            message = await feature.finish_message(message)
        return message

    def due(self, kind: QueueKind) -> int:
        return self._runner.conversation.queue.due(kind) + self._features.pending(kind)

    def take(self, kind: QueueKind) -> QueuedMessage:
        return self._features.take(kind) or self._runner.conversation.queue.take(kind)

    def will_retry(self, answer: ModelAnswer) -> bool:
        return self._features.will_rerun() or self._runner.retries.wants(answer)

    # ------------------------------------------------------------ tools

    def runs_alone(self, call: ToolCall) -> bool:
        tool = self._runner.toolset.find(call.name)
        return tool is not None and tool.alone

    def interrupted(self) -> bool:
        queue = self._runner.conversation.queue
        return queue.interrupts and bool(queue.due("steering"))

    async def before_tool(self, call: ToolCall, *, whole: bool) -> AcceptedCall | Deny:
        from ludolf.tools.schema import check_arguments

        tool = self._runner.toolset.find(call.name)
        if tool is None:
            raise ToolFailure(f"Tool {call.name} not found")
        arguments = call.arguments
        prepared = await tool.prepare(arguments) if isinstance(arguments, dict) else arguments
        args = check_arguments(call.name, tool.parameters, prepared)
        if not whole:
            raise ToolFailure(BROKEN.format(name=call.name))
        verdict = await self._features.before_tool(call, tool, args)
        if isinstance(verdict, Deny):
            return verdict
        return AcceptedCall(tool, verdict, self._context(call))

    def _context(self, call: ToolCall) -> ToolContext:
        from ludolf.agent.batch import tool_update

        async def report(partial: ToolOutput) -> None:
            await self._hub.emit(tool_update(call, partial))

        def post(partial: ToolOutput) -> None:
            self._hub.post(tool_update(call, partial))

        model, cwd = self._runner.models.current, self._runner.workspace.cwd
        trace = partial(self._features.trace_fields, call.id)
        return ToolContext(
            call_id=call.id,
            cwd=cwd,
            report=report,
            post=post,
            takes_images=model is None or model.takes_images,
            input_limits=model.input_limits if model is not None else None,
            environment=partial(self._runner.toolset.environment, trace),
            documents=self._runner.toolset.documents,
            walls=self._features.walls(cwd),
            files=self._runner.toolset.files,
            terminals=self._runner.toolset.terminals,
            home=self._runner.workspace.home.user,
            agent_folder=self._runner.workspace.home.agent,
            trace=trace,
        )

    async def after_tool(self, call: ToolCall, output: ToolOutput, is_error: bool) -> Outcome:
        outcome = Outcome(output, is_error)
        for feature in reversed(self._features.hooks["after_tool"]):
            outcome = await feature.after_tool(call, outcome)
        return outcome


class PromptRunner(Component):
    """At most one prompt runs at a time. `on_idle` is called when one has ended."""

    def __init__(
        self,
        bundles: Bundles,
        requests: Requests,
        tasks: Tasks,
        work: Scope,
        on_idle: Callable[[], None],
    ) -> None:
        super().__init__(bundles)
        self.requests = requests
        self.retries = Retries(bundles.workspace, bundles.conversation)
        self._tasks = tasks
        self._work = work
        self._on_idle = on_idle
        self._idle = asyncio.Event()
        self._idle.set()
        # That of the running prompt; None when idle.
        self.scope: Scope | None = None

    @cached_property
    def compactor(self) -> "Compactor":
        """Return what compacts the history, made on first use."""
        from ludolf.engine.history.compact import Compactor
        from ludolf.engine.history.summaries import Summaries

        return Compactor(self.bundles, Summaries(self.requests), self._work)

    @property
    def running(self) -> bool:
        return not self._idle.is_set()

    def start(self, prompts: Sequence[Message], *, woken: bool = False) -> None:
        """Begin; returns at once, so that the reply to a prompt leaves before its first event.

        `woken`: a feature starts the run, not the user; the limits continue to count.
        """
        assert not self.running
        self._idle.clear()
        self.compactor.on_prompt()
        if not woken:
            for feature in self.features.hooks["on_prompt"]:
                feature.on_prompt()
            self.conversation.meter.start()
        self.scope = self._work.child()
        self._tasks.start(self._run(prompts, self.scope))

    def abort(self) -> None:
        if self.scope is not None:
            self.scope.abort()

    async def idle(self) -> None:
        """Return when no prompt runs."""
        await self._idle.wait()

    # ------------------------------------------------------------ private

    async def _run(self, prompts: Sequence[Message], scope: Scope) -> None:
        try:
            await self._runs(prompts, scope)
        except Exception as error:  # a bug of ours ends the run, not the process
            traceback.print_exc()
            await self._close_broken(error)
        finally:
            self._rest(scope)
        await self.conversation.hub.room()

    def _rest(self, scope: Scope) -> None:
        self.scope = None
        self.resources.override = None
        self._idle.set()
        self._on_idle()
        self.conversation.session.flush()
        waits = [feature.on_idle() for feature in self.features.hooks["on_idle"]]
        if not any(waits):
            self.conversation.hub.post(AgentSettled())
        scope.close()

    async def _runs(self, prompts: Sequence[Message], scope: Scope) -> None:
        from ludolf.agent.loop import run_agent

        hooks = self.features.hooks
        with suppress(Aborted):
            for feature in hooks["prepare_run"]:
                await scope.run(feature.prepare_run())
        io = TurnIO(self, scope)
        self.toolset.report_unknown()
        line: QueueKind | None = "steering"
        while line is not None:
            end = await run_agent(prompts, io, scope, line=line)
            line = await self._next_line(end, scope)
            if line is None:
                outcome = _outcome(end, scope)
                asked = [await each.before_settle(outcome) for each in hooks["before_settle"]]
                line = "steering" if any(asked) and outcome == "completed" else None
            opening = hooks["opening_messages"] if line is not None else ()
            prompts = [message for feature in opening for message in feature.opening_messages()]

    async def _next_line(self, end: RunEnd, scope: Scope) -> QueueKind | None:
        """Return what follows a run: another attempt, a compaction, or queued messages."""
        answer = end.answer
        rerunning = [each for each in self.features.hooks["rerun"] if each.will_rerun()]
        if rerunning and not scope.aborted:
            for feature in rerunning:
                feature.rerun()
            return "steering"
        if answer is None or answer.kind == "aborted" or scope.aborted:
            await self.retries.stopped()
            return None
        if self.conversation.meter.reached is not None:
            if answer.message.stop_reason == "error":
                await self.retries.gave_up(answer)
            return None
        if self.retries.wants(answer):
            return await self._retry(answer, scope)
        if answer.message.stop_reason == "error":
            await self.retries.gave_up(answer)
        again = await self.compactor.after_run(end, scope)
        if scope.aborted:
            return None
        if again:
            return "steering"
        if answer.message.stop_reason == "error":
            return None
        return self._next_message(end)

    def _next_message(self, end: RunEnd) -> QueueKind | None:
        queue, features = self.conversation.queue, self.features
        if len(queue):
            return "steering" if queue.due("steering") else "follow_up"
        if features.pending("steering"):
            return "steering"
        going_on = any(feature.continues(end) for feature in features.hooks["continues"])
        return "steering" if going_on else None

    async def _retry(self, answer: ModelAnswer, scope: Scope) -> QueueKind | None:
        session = self.conversation.session
        # Not the leaf: a change of model may have been written after the failed answer.
        failed = session.context.entries[-1].id
        if not await self.retries.before_next(answer, scope):
            return None
        session.omit(failed)
        return "steering"

    async def _close_broken(self, error: Exception) -> None:
        """Send the events of a run that broke in the form of any other failed run."""
        text = f"Internal error: {type(error).__name__}: {error}"
        message = Draft(self.models.require()).finish("error", text)
        for event in (
            MessageStart(message=message),
            MessageEnd(message=message),
            TurnEnd(message=message, tool_results=()),
            AgentEnd(messages=(message,), will_retry=False),
        ):
            await self.conversation.hub.emit(event)


def _outcome(end: RunEnd, scope: Scope) -> str:
    last = end.last
    if scope.aborted or (last is not None and last.stop_reason == "aborted"):
        return "aborted"
    return "error" if last is not None and last.stop_reason == "error" else "completed"
