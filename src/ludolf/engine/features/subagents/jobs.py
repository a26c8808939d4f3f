"""The agents that one engine has in the background, and how their results come back to it."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from ludolf.agent.events import MessageEnd, MessageStart
from ludolf.agent.scope import Aborted, Tasks
from ludolf.ai.messages import CustomMessage
from ludolf.base import now_ms
from ludolf.engine.features.subagents.registry import Board
from ludolf.protocol.events import AgentSettled, EntryAppended
from ludolf.protocol.subagent_events import AgentWaiting
from ludolf.session.entries import entry_json

if TYPE_CHECKING:
    from pathlib import Path

    from ludolf.engine.engine import Engine
    from ludolf.engine.features.subagents.job import Job
    from ludolf.engine.features.subagents.task import Plan

RESULT = "async-result"
# An agent starts when its parent has come to rest, or so much later: a parent that has nothing
# more to say shall have said it before the first frame of the agent, as hosts know it from omp.
GRACE_SECONDS = 0.12
LONGEST_RESULT = 50_000


class Jobs:
    """Each engine that may start agents has one; all of them share the board."""

    def __init__(self, engine: "Engine", board: Board, plan: "Plan | None" = None) -> None:
        self._engine = engine
        self.board = board
        # That of the agent whose own agents these are; None for the engine of the host.
        self._plan = plan
        self._tasks = Tasks()
        self._running: list[Job] = []
        self._results: list[Job] = []
        self._slots: asyncio.Semaphore | None = None
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._told_waiting = False
        self._waking = False

    # ------------------------------------------------------------ starting and stopping

    def allot(self, name: str) -> "tuple[str, Path]":
        """A name and a file for a new agent."""
        if self._plan is not None:
            return self.board.allot(self._plan.file.parent, name, self._plan.id)
        return self.board.allot(self.board.folder(self._engine.parts.session), name)

    def begin(self, plans: "Sequence[Plan]") -> None:
        """Start them; returns at once."""
        from ludolf.engine.features.subagents.job import Job

        self._quiet.clear()
        for plan in plans:
            job = Job(plan, self.board)
            self._running.append(job)
            self.board.enter(job)
            self._tasks.start(self._run(job))

    def abort(self) -> None:
        """Ask all to end, and forget what came of them."""
        self._results.clear()
        for job in self._running:
            job.abort(silent=True)
        self._calm_down()

    async def over(self) -> None:
        """Return when no agent is there any more."""
        await self._tasks.ended()

    async def close(self) -> None:
        self.abort()
        await self._tasks.close()
        if self._plan is None:
            self.board.close()

    # ------------------------------------------------------------ waking

    @property
    def will_wake(self) -> bool:
        """Whether the engine will go on by itself."""
        return bool(self._results) or any(not job.silent for job in self._running)

    async def quiet(self) -> None:
        """Return when nothing is left that could wake the engine; it may run then."""
        await self._quiet.wait()

    @property
    def due(self) -> bool:
        """Whether results wait to be told."""
        return bool(self._results)

    def take(self) -> CustomMessage:
        """All results that wait, as one message for the run that goes on or begins with it."""
        self._told_waiting = False
        message = self._gathered()
        self._calm_down()
        return message

    def wake_soon(self) -> None:
        """A running engine takes results by itself, at its next turn."""
        if self._results and not self._waking and not self._is_busy:
            self._waking = True
            self._engine.tasks.start(self._wake())

    def rested(self) -> bool:
        """A run is over; whether the engine waits for its agents, which is told then."""
        self._told_waiting = False
        if self._engine.parts.meter.reached is not None:
            self._tell_only()
            self.abort()
        self._told_waiting = self.will_wake
        if self._told_waiting:
            ids = tuple(job.plan.id for job in (*self._results, *self._running) if not job.silent)
            self._engine.parts.hub.post(AgentWaiting(jobs=ids))
            self.wake_soon()
        return self._told_waiting

    # ------------------------------------------------------------ private

    async def _run(self, job: "Job") -> None:
        try:
            slots = await job.scope.run(self._slot())
            try:
                if job.scope.aborted:  # in the very moment when it got its place
                    raise Aborted
                await job.run(self._engine, lambda engine: _offer_below(engine, self, job.plan))
            finally:
                slots.release()
        except Aborted:
            job.never_began()
        finally:
            self._ended(job)

    async def _slot(self) -> asyncio.Semaphore:
        """Wait for the parent to rest, but not long; then for a place."""
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self._engine.runner.settled()
        except TimeoutError:
            pass
        if self._slots is None:
            most = self._engine.parts.settings.task.max_concurrency
            self._slots = asyncio.Semaphore(most or 1_000_000)
        await self._slots.acquire()
        return self._slots

    def _ended(self, job: "Job") -> None:
        self._running.remove(job)
        self._note_work(job)
        self.board.leave(job)
        job.watch.ended(job.outcome.status)
        if not job.silent:
            self._results.append(job)
            self.wake_soon()
        self._calm_down()

    def _note_work(self, job: "Job") -> None:
        """What an agent took is part of what the session took."""
        parts = self._engine.parts
        for body in job.spent if parts.session.read_only is None else ():
            entry = parts.session.append(structs.replace(body, note=job.plan.id))
            parts.hub.post(EntryAppended(entry=msgspec.Raw(entry_json(entry))))

    @property
    def _is_busy(self) -> bool:
        """Whether the engine runs, or is about to leave its session; it asks again afterwards."""
        return self._engine.runner.running or self._engine.hand_over.running

    async def _wake(self) -> None:
        # Agents that end together are told together.
        await asyncio.sleep(0)
        await self._engine.compactor.over()
        self._waking = False
        if self._is_busy or not self._results:
            return
        if self._engine.parts.meter.reached is not None:
            self._tell_only()
        else:
            self._engine.runner.start((self.take(),), woken=True)

    def _tell_only(self) -> None:
        """Nothing may run any more: the results are kept in the conversation for later."""
        if self._results:
            message = self._gathered()
            self._engine.parts.hub.post(MessageStart(message=message))
            self._engine.parts.hub.post(MessageEnd(message=message))
            self._calm_down()

    def _gathered(self) -> CustomMessage:
        jobs, self._results = self._results, []
        return _message(jobs)

    def _calm_down(self) -> None:
        if self._running or self._results:
            return
        self._quiet.set()
        if self._told_waiting and not self._engine.runner.running:
            self._told_waiting = False
            self._engine.parts.hub.post(AgentSettled())
            self._engine.end_if_asked()


def _offer_below(engine: "Engine", above: Jobs, plan: "Plan") -> None:
    """An agent may have agents of its own, as deep as the settings allow."""
    from ludolf.engine.features.subagents.tool import TaskTool, is_deep_enough

    may_have = plan.agent.tools is None or TaskTool.name in plan.agent.tools
    if may_have and not is_deep_enough(engine.parts):
        engine.parts.jobs = Jobs(engine, above.board, plan)
        engine.parts.toolbox.provide(TaskTool.name, [TaskTool(engine)])


def _message(jobs: "Sequence[Job]") -> CustomMessage:
    return CustomMessage(
        custom_type=RESULT,
        content="\n\n".join(map(_report, jobs)),
        display=True,
        details={
            "jobs": [
                {
                    "jobId": job.plan.id,
                    "type": "task",
                    "label": job.plan.name,
                    "durationMs": job.watch.duration_ms,
                    **({"error": job.outcome.error} if job.outcome.error else {}),
                }
                for job in jobs
            ]
        },
        timestamp=now_ms(),
    )


def _report(job: "Job") -> str:
    plan, outcome = job.plan, job.outcome
    head = f'<task-result id="{plan.id}" agent="{plan.agent.name}" status="{outcome.status}">'
    text = outcome.text
    if len(text) > LONGEST_RESULT:
        text = f"{text[:LONGEST_RESULT]}\n[cut; the whole conversation is in {plan.file}]"
    told = [f"Error: {outcome.error}"] if outcome.error else []
    return "\n".join((head, *told, *([text] if text else ()), "</task-result>"))
