"""Drives a prompt from acceptance to rest: runs, retries, compaction, waiting messages."""

import asyncio
import traceback
from collections.abc import Callable, Sequence

from ludolf.agent.events import AgentEnd, MessageEnd, MessageStart, TurnEnd
from ludolf.agent.io import RunEnd
from ludolf.agent.loop import run_agent
from ludolf.agent.queue import QueueKind
from ludolf.agent.scope import Scope, Tasks
from ludolf.ai.draft import Draft
from ludolf.ai.messages import Message
from ludolf.ai.provider import Answer
from ludolf.engine.compact import Compactor
from ludolf.engine.parts import Parts
from ludolf.engine.requests import Requests
from ludolf.engine.retry import Retries
from ludolf.engine.turn import TurnIO
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

    @property
    def running(self) -> bool:
        return not self._idle.is_set()

    def start(self, prompts: Sequence[Message]) -> None:
        """Begin; returns at once, so that the reply to a prompt leaves before its first event."""
        assert not self.running
        self._idle.clear()
        self._compactor.new_prompt()
        self._parts.meter.start()
        self._scope = Scope()
        self._tasks.start(self._drive(prompts, self._scope))

    def abort(self) -> None:
        if self._scope is not None:
            self._scope.abort()

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
        self._idle.set()
        for action in self.at_rest:
            action()
        self._parts.session.flush()
        self._parts.hub.post(AgentSettled())

    async def _runs(self, prompts: Sequence[Message], scope: Scope) -> None:
        io = TurnIO(self._parts, self._requests, self.retries, self._compactor, scope)
        line: QueueKind | None = "steering"
        while line is not None:
            end = await run_agent(prompts, io, scope, line=line)
            prompts = ()
            line = await self._next_line(end, scope)

    async def _next_line(self, end: RunEnd, scope: Scope) -> QueueKind | None:
        """What follows a run by itself: another attempt, a compaction, or waiting messages."""
        answer = end.answer
        if answer is None or answer.kind == "aborted" or scope.aborted:
            return None
        if self._parts.meter.reached is not None:
            return None
        if self.retries.wants(answer):
            return await self._try_again(answer, scope)
        if answer.message.stop_reason == "error":
            await self.retries.gave_up(answer)
        if await self._compactor.after_run(end, scope):
            return "steering"
        if answer.message.stop_reason == "error" or not len(self._parts.queue):
            return None
        return "steering" if self._parts.queue.due("steering") else "follow_up"

    async def _try_again(self, answer: Answer, scope: Scope) -> QueueKind | None:
        failed = self._parts.session.leaf
        if not await self.retries.before_next(answer, scope):
            return None
        if failed is not None:
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
