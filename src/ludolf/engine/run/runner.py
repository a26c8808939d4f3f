"""Run a prompt from acceptance to idle: turns, retries, compaction, queued messages."""

import asyncio
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress

from ludolf.agent.events import AgentEnd, MessageEnd, MessageStart, TurnEnd
from ludolf.agent.io import RunEnd
from ludolf.agent.loop import run_agent
from ludolf.agent.queue import QueueKind
from ludolf.agent.scope import Aborted, Scope, Tasks
from ludolf.ai.draft import Draft
from ludolf.ai.messages import Message
from ludolf.ai.provider import ModelAnswer
from ludolf.engine.resources import Resources
from ludolf.engine.run.retry import Retries
from ludolf.engine.run.turn import Drive, TurnIO
from ludolf.protocol.events import AgentSettled


class PromptRunner:
    """At most one prompt runs at a time. `on_idle` is called when one has ended."""

    def __init__(
        self,
        drive: Drive,
        resources: Resources,
        tasks: Tasks,
        work: Scope,
        on_idle: Callable[[], None],
    ) -> None:
        self._drive = drive
        self._resources = resources
        self._tasks = tasks
        self._work = work
        self._on_idle = on_idle
        self._idle = asyncio.Event()
        self._idle.set()
        # That of the running prompt; None when idle.
        self.scope: Scope | None = None

    @property
    def running(self) -> bool:
        return not self._idle.is_set()

    @property
    def retries(self) -> Retries:
        return self._drive.retries

    def start(self, prompts: Sequence[Message], *, woken: bool = False) -> None:
        """Begin; returns at once, so that the reply to a prompt leaves before its first event.

        `woken`: a feature starts the run, not the user; the limits continue to count.
        """
        assert not self.running
        self._idle.clear()
        self._drive.compactor.on_prompt()
        if not woken:
            for feature in self._drive.features.hooks["on_prompt"]:
                feature.on_prompt()
            self._drive.conversation.meter.start()
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
        await self._drive.conversation.hub.room()

    def _rest(self, scope: Scope) -> None:
        self.scope = None
        self._resources.override = None
        self._idle.set()
        self._on_idle()
        self._drive.conversation.session.flush()
        if not self._drive.features.on_idle():
            self._drive.conversation.hub.post(AgentSettled())
        scope.close()

    async def _runs(self, prompts: Sequence[Message], scope: Scope) -> None:
        features = self._drive.features
        with suppress(Aborted):
            for feature in features.hooks["prepare_run"]:
                await scope.run(feature.prepare_run())
        io = TurnIO(self._drive, scope)
        self._drive.toolset.report_unknown()
        line: QueueKind | None = "steering"
        while line is not None:
            end = await run_agent(prompts, io, scope, line=line)
            line = await self._next_line(end, scope)
            if line is None:
                outcome = _outcome(end, scope)
                continues = await features.before_settle(outcome)
                line = "steering" if continues and outcome == "completed" else None
            prompts = features.opening_messages() if line is not None else ()

    async def _next_line(self, end: RunEnd, scope: Scope) -> QueueKind | None:
        """Return what follows a run: another attempt, a compaction, or queued messages."""
        drive, answer = self._drive, end.answer
        if drive.features.will_rerun() and not scope.aborted:
            drive.features.rerun()
            return "steering"
        if answer is None or answer.kind == "aborted" or scope.aborted:
            await drive.retries.stopped()
            return None
        if drive.conversation.meter.reached is not None:
            if answer.message.stop_reason == "error":
                await drive.retries.gave_up(answer)
            return None
        if drive.retries.wants(answer):
            return await self._retry(answer, scope)
        if answer.message.stop_reason == "error":
            await drive.retries.gave_up(answer)
        again = await drive.compactor.after_run(end, scope)
        if scope.aborted:
            return None
        if again:
            return "steering"
        if answer.message.stop_reason == "error":
            return None
        return self._next_message(end)

    def _next_message(self, end: RunEnd) -> QueueKind | None:
        queue, features = self._drive.conversation.queue, self._drive.features
        if not len(queue):
            return "steering" if features.pending("steering") or features.continues(end) else None
        return "steering" if queue.due("steering") else "follow_up"

    async def _retry(self, answer: ModelAnswer, scope: Scope) -> QueueKind | None:
        session = self._drive.conversation.session
        # Not the leaf: a change of model may have been written after the failed answer.
        failed = session.context.entries[-1].id
        if not await self._drive.retries.before_next(answer, scope):
            return None
        session.omit(failed)
        return "steering"

    async def _close_broken(self, error: Exception) -> None:
        """Send the events of a run that broke in the form of any other failed run."""
        text = f"Internal error: {type(error).__name__}: {error}"
        message = Draft(self._drive.models.require()).finish("error", text)
        for event in (
            MessageStart(message=message),
            MessageEnd(message=message),
            TurnEnd(message=message, tool_results=()),
            AgentEnd(messages=(message,), will_retry=False),
        ):
            await self._drive.conversation.hub.emit(event)


def _outcome(end: RunEnd, scope: Scope) -> str:
    if scope.aborted or (end.last is not None and end.last.stop_reason == "aborted"):
        return "aborted"
    return "error" if end.last is not None and end.last.stop_reason == "error" else "completed"
