"""Agent loop: call the model, run its tools, deliver queued messages until none are left."""

import time
from collections.abc import Iterable, Iterator, Sequence

from ludolf.agent.batch import Batch
from ludolf.agent.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    TurnEnd,
    TurnStart,
)
from ludolf.agent.io import AgentIO, QueueKind, RunEnd, StreamCut
from ludolf.agent.scope import Aborted, Scope
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import AssistantMessage, Message
from ludolf.ai.provider import ModelAnswer, Request
from ludolf.ai.stream import respond

# Maximum number of events per step of the event loop, so that commands are answered promptly.
SLICE_EVENTS = 256
SLICE_SECONDS = 0.002
# Pieces of several small reads that are emitted without a turn of the event loop: waiting for the
# next read is one.
SMALL_READS = 16
ABORTED_BETWEEN = "Request was aborted."


async def run_agent(
    prompts: Sequence[Message], io: AgentIO, scope: Scope, *, line: QueueKind = "steering"
) -> RunEnd:
    """Run the agent once, from AgentStart to AgentEnd; without prompts, continue the session.

    The first turn also delivers the messages queued in `line`.
    """
    run = _Run(io, scope)
    await io.emit(AgentStart())
    await run.turns(prompts, line)
    messages = tuple(run.messages)
    will_retry = run.answer is not None and not scope.aborted and io.will_retry(run.answer)
    await io.emit(AgentEnd(messages=messages, will_retry=will_retry))
    return RunEnd(messages, run.answer)


class _Run:
    def __init__(self, io: AgentIO, scope: Scope) -> None:
        self.io = io
        self.scope = scope
        self.messages: list[Message] = []
        self.answer: ModelAnswer | None = None
        # Whether tool results are not answered yet.
        self._results_pending = False

    async def turns(self, prompts: Sequence[Message], first: QueueKind) -> None:
        line: QueueKind | None = first
        while line is not None:
            await self.io.emit(TurnStart())
            for prompt in prompts:
                await self._inject(prompt)
            await self._deliver(line)
            prompts = ()
            line = await self._turn()
            if line is None or not await self.io.prepare_turn():
                return
            # The host may have cleared the queue during `prepare_turn`.
            line = self._next_line()

    async def _turn(self) -> QueueKind | None:
        """Run one turn; return the queue to deliver from next, or None at the end of the run."""
        message, broken = await self._ask()
        if message.failed:
            await self.io.emit(TurnEnd(message=message, tool_results=()))
            return None
        results, ends = await Batch(self.io, self.scope).run(message, broken)
        self.messages += results
        await self.io.emit(TurnEnd(message=message, tool_results=results))
        if self.scope.aborted:
            await self._close_aborted()
            return None
        self._results_pending = bool(results) and not ends
        return self._next_line()

    def _next_line(self) -> QueueKind | None:
        if self._results_pending or self.io.due("steering"):
            return "steering"
        return "follow_up" if self.io.due("follow_up") else None

    async def _deliver(self, line: QueueKind) -> None:
        for _ in range(self.io.due(line)):
            # An abort keeps the queue, and a host may clear the queue between two messages.
            if self.scope.aborted or not self.io.due(line):
                return
            await self._inject(self.io.take(line))

    async def _inject(self, message: Message) -> None:
        await self.io.emit(MessageStart(message=message))
        await self._end(await self.io.finish_message(message))

    async def _end(self, message: Message) -> None:
        self.messages.append(message)
        await self.io.emit(MessageEnd(message=message))

    # ------------------------------------------------------------ one answer

    async def _ask(self) -> tuple[AssistantMessage, frozenset[str]]:
        draft = Draft(self.io.model())
        emitter = _AnswerEmitter(self.io, draft)
        try:
            request = await self.scope.run(self.io.request())
            draft.model = request.model
            answer = await self._respond(request, draft, emitter)
        except ProviderError as error:
            answer = ModelAnswer(draft.finish("error", str(error)), kind=error.kind)
        except Aborted:
            answer = ModelAnswer(draft.finish("aborted", ABORTED_BETWEEN), kind="aborted")
        message = await self.io.finish_message(answer.message)
        assert isinstance(message, AssistantMessage)
        self.answer = ModelAnswer(message, answer.kind, answer.retry_after)
        if not emitter.started:
            await self.io.emit(MessageStart(message=message))
        await self._end(message)
        return message, frozenset(draft.broken)

    async def _respond(
        self, request: Request, draft: Draft, emitter: "_AnswerEmitter"
    ) -> ModelAnswer:
        try:
            return await self.scope.run(respond(request, draft, emitter.take))
        except Aborted:
            return ModelAnswer(draft.finish("aborted", request.provider.abort_text), kind="aborted")
        except StreamCut as cut:
            return ModelAnswer(draft.finish("aborted", str(cut)), kind="aborted")

    async def _close_aborted(self) -> None:
        """After an abort during tools, add an empty answer that marks where the run stopped."""
        message = Draft(self.io.model()).finish("aborted", ABORTED_BETWEEN)
        self.answer = ModelAnswer(message, kind="aborted")
        await self.io.emit(TurnStart())
        await self.io.emit(MessageStart(message=message))
        await self._end(message)
        await self.io.emit(TurnEnd(message=message, tool_results=()))


class _AnswerEmitter:
    """Emits the pieces of one answer as they arrive, in bounded slices."""

    def __init__(self, io: AgentIO, draft: Draft) -> None:
        self._io = io
        self._draft = draft
        # Pieces since the loop had a turn, and whether a reader has not taken all of them.
        self._count = 0
        self._is_behind = False
        self.started = False

    async def take(self, events: Iterable[StreamEvent]) -> None:
        if not self.started:
            self.started = True
            await self._io.emit(MessageStart(message=self._draft.message_head()))
        pieces = iter(events)
        has_more = True
        while has_more:
            has_more = self._burst(pieces)
            if has_more or self._is_behind or self._count >= SMALL_READS:
                self._count = 0
                await self._io.yield_to_loop()

    def _burst(self, pieces: Iterator[StreamEvent]) -> bool:
        """Emit one slice and send it; return whether there may be more."""
        post, draft, since, count = self._io.post, self._draft, time.monotonic(), 0
        has_more = False
        try:
            for event in pieces:
                count += 1
                post(MessageUpdate(event, draft))
                if count & 15 == 0 and (
                    count >= SLICE_EVENTS
                    or not self._io.has_room()
                    or time.monotonic() - since > SLICE_SECONDS
                ):
                    has_more = True
                    break
        finally:
            if count:
                self._is_behind = not self._io.flush()
        self._count += count
        return has_more
