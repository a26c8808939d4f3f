"""Drives a prompt from acceptance to rest: runs, retries, compaction, waiting messages."""

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
from ludolf.ai.provider import Answer
from ludolf.engine.history.compact import Compactor
from ludolf.engine.parts import Parts
from ludolf.engine.run.requests import Requests
from ludolf.engine.run.retry import Retries
from ludolf.engine.run.turn import TurnIO
from ludolf.protocol.events import AgentSettled


class Runner:
    """At most one drive at a time; `idle` is set whenever none goes on."""

    def __init__(
        self, parts: Parts, requests: Requests, compactor: Compactor, tasks: Tasks
    ) -> None:
        self._parts = parts
        self._requests = requests
        self._compactor = compactor
        self._tasks = tasks
        self.retries = Retries(parts)
        self._scope: Scope | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self.at_rest: list[Callable[[], None]] = []
        self.on_abort: list[Callable[[], None]] = []
        self.after_turn: list[Message] = []

    @property
    def running(self) -> bool:
        return not self._idle.is_set()

    def start(self, prompts: Sequence[Message], *, woken: bool = False) -> None:
        """Begin; returns at once, so that the reply to a prompt leaves before its first event.

        `woken`: nobody has spoken, an agent in the background is done; the limits count on.
        """
        assert not self.running
        self._idle.clear()
        self._compactor.new_prompt()
        if not woken:
            self._parts.todos.new_prompt()
            self._parts.rules.new_prompt()
            self._parts.meter.start()
        self._scope = Scope()
        self._tasks.start(self._drive(prompts, self._scope))

    @property
    def scope(self) -> Scope | None:
        """That of the present drive; None when idle."""
        return self._scope

    def abort(self) -> None:
        if self._scope is not None:
            self._scope.abort()
            for action in self.on_abort:
                action()

    async def settled(self) -> None:
        await self._idle.wait()

    async def _drive(self, prompts: Sequence[Message], scope: Scope) -> None:
        try:
            await self._runs(prompts, scope)
        except Exception as error:  # a bug of ours ends the run, not the process
            traceback.print_exc()
            await self._close_broken(error)
        finally:
            self._rest()
        await self._parts.hub.room()

    def _rest(self) -> None:
        self._scope = None
        self.on_abort.clear()
        self._parts.forced_system = None
        self._idle.set()
        for action in self.at_rest:
            action()
        self._parts.session.flush()
        jobs = self._parts.jobs
        if jobs is None or not jobs.rested():
            self._parts.hub.post(AgentSettled())

    async def _runs(self, prompts: Sequence[Message], scope: Scope) -> None:
        if not self._parts.rules.loaded:
            with suppress(Aborted):
                await scope.run(self._parts.rules.load())
        io = TurnIO(self._parts, self._requests, self.retries, self._compactor, scope)
        io.after_turn = self.after_turn
        self._parts.toolbox.report_unknown()
        line: QueueKind | None = "steering"
        while line is not None:
            end = await run_agent(prompts, io, scope, line=line)
            line = await self._next_line(end, scope)
            if line is None and self._parts.extending.wants("agent_before_settle"):
                line = await self._asked_to_go_on(end, scope)
            prompts = self._parts.rules.take_due() if line is not None else ()

    async def _asked_to_go_on(self, end: RunEnd, scope: Scope) -> QueueKind | None:
        """Extensions may ask for one more turn before the prompt is over."""
        from ludolf.engine.extension_bridge.hook_points import Hooks

        last = end.last
        outcome = "completed"
        if scope.aborted or (last is not None and last.stop_reason == "aborted"):
            outcome = "aborted"
        elif last is not None and last.stop_reason == "error":
            outcome = "error"
        goes_on = await Hooks(self._parts).before_settle(outcome)
        return "steering" if goes_on and outcome == "completed" else None

    async def _next_line(self, end: RunEnd, scope: Scope) -> QueueKind | None:
        """What follows a run by itself: another attempt, a compaction, or waiting messages."""
        answer = end.answer
        if self._parts.rules.was_cut and not scope.aborted:
            self._parts.rules.try_again()
            return "steering"
        if answer is None or answer.kind == "aborted" or scope.aborted:
            await self.retries.stopped()
            return None
        if self._parts.meter.reached is not None:
            if answer.message.stop_reason == "error":
                await self.retries.gave_up(answer)
            return None
        if self.retries.wants(answer):
            return await self._try_again(answer, scope)
        if answer.message.stop_reason == "error":
            await self.retries.gave_up(answer)
        again = await self._compactor.after_run(end, scope)
        if scope.aborted:
            return None
        if again:
            return "steering"
        if answer.message.stop_reason == "error":
            return None
        if not len(self._parts.queue):
            goes_on = self._has_more() or self._parts.todos.remind(end)
            return "steering" if goes_on else None
        return "steering" if self._parts.queue.due("steering") else "follow_up"

    def _has_more(self) -> bool:
        jobs = self._parts.jobs
        return self._parts.rules.has_due or (jobs is not None and jobs.due)

    async def _try_again(self, answer: Answer, scope: Scope) -> QueueKind | None:
        # Not the leaf: a change of model may have been written after the failed answer.
        failed = self._parts.session.context.entries[-1].id
        if not await self.retries.before_next(answer, scope):
            return None
        self._parts.session.omit(failed)
        return "steering"

    async def _close_broken(self, error: Exception) -> None:
        """Tell hosts of a run that broke, in the form of any other failed run."""
        text = f"Internal error: {type(error).__name__}: {error}"
        message = Draft(self._parts.models.require()).finish("error", text)
        for event in (
            MessageStart(message=message),
            MessageEnd(message=message),
            TurnEnd(message=message, tool_results=()),
            AgentEnd(messages=(message,), will_retry=False),
        ):
            await self._parts.hub.emit(event)
