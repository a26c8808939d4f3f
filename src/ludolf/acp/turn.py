"""Prompts of a session; the only module that knows that a prompt is a request until its turn ends.

One prompt runs at a time. Further ones wait for their turn, or steer the running one if the client
asks for that.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from ludolf.acp.requests import IncomingRequest, RequestFault
from ludolf.acp.slash_commands import find_command, perform_command
from ludolf.agent.events import AgentEnd
from ludolf.agent.scope import Aborted, Tasks
from ludolf.ai.errors import kind_of
from ludolf.ai.messages import AssistantMessage, Part
from ludolf.base import CommandError
from ludolf.base.trace_context import TraceContext, trace_context_in
from ludolf.engine.engine import Engine
from ludolf.engine.feature import PromptInput
from ludolf.engine.hub import Sink
from ludolf.protocol.acp.content import prompt_input
from ludolf.protocol.acp.structs import (
    AUTH_REQUIRED,
    INTERNAL_ERROR,
    InvalidParams,
    PromptParams,
    StopCause,
    TurnResult,
)
from ludolf.protocol.events import AgentSettled, Event, LimitReached

STEER = "ludolf/steer"
# Stop reasons of providers by which a model declines to answer, in lower case.
_REFUSALS = frozenset(
    (
        *("refusal", "content_filter", "content_filtered", "guardrail_intervened", "safety"),
        *("recitation", "blocklist", "prohibited_content", "spii", "image_safety", "language"),
    )
)


class Turn:
    """One prompt: it waits until `go` is done, runs, and ends with a stop reason."""

    def __init__(
        self, text: str, parts: tuple[Part, ...], trace: TraceContext | None = None
    ) -> None:
        loop = asyncio.get_running_loop()
        self.text = text
        self.parts = parts
        self.trace = trace
        self.cancelled = False
        self.go: asyncio.Future[None] = loop.create_future()
        self.settled: asyncio.Future[None] = loop.create_future()
        self.last: AssistantMessage | None = None
        self.limit: LimitReached | None = None

    def start(self) -> None:
        if not self.go.done():
            self.go.set_result(None)

    def settle(self) -> None:
        if not self.settled.done():
            self.settled.set_result(None)

    def outcome(self) -> TurnResult:
        """Return how the turn ended.

        Raises:
            RequestFault: the model could not answer.
        """
        return TurnResult(stop_reason=self._stop_reason())

    def _stop_reason(self) -> StopCause:
        last = self.last
        if self.cancelled or (last is not None and last.stop_reason == "aborted"):
            return "cancelled"
        if self.limit is not None:
            return "max_turn_requests" if self.limit.limit == "turns" else "max_tokens"
        if last is not None and last.stop_reason == "error":
            if (last.raw_stop_reason or "").lower() in _REFUSALS:
                return "refusal"
            raise _failure(last)
        return "max_tokens" if last is not None and last.stop_reason == "length" else "end_turn"


def _failure(answer: AssistantMessage) -> RequestFault:
    text = answer.error_message or "The model gave no answer"
    return RequestFault(AUTH_REQUIRED if kind_of(text) == "auth" else INTERNAL_ERROR, text)


class TurnHost(Protocol):
    """The session that prompts belong to."""

    @property
    def shows_forms(self) -> bool:
        """Return whether the client can ask its user for a text."""

    def say(self, text: str) -> None:
        """Send a text of the program as a message of the agent."""

    def rest(self) -> None:
        """Called when no prompt is left."""


class Turns(Sink):
    """The prompts of one session."""

    def __init__(self, engine: Engine, tasks: Tasks, host: TurnHost) -> None:
        self._engine = engine
        self._tasks = tasks
        self._host = host
        # The first one runs.
        self._line: list[Turn] = []

    # ------------------------------------------------------------ requests

    async def prompt(self, request: IncomingRequest, params: PromptParams) -> TurnResult:
        """Run a prompt to its end.

        Raises:
            InvalidParams: a block is not valid.
            RequestFault: the model could not answer.
            CommandError: the prompt was refused.
        """
        model = self._engine.models.current
        takes_images = model is None or model.takes_images
        text, parts = prompt_input(params.prompt, takes_images=takes_images)
        if not text.strip() and not parts:
            raise InvalidParams("session/prompt: prompt: it has no content")
        turn = Turn(text, parts, trace_context_in(params.meta or {}))
        turn.cancelled = request.cancelled
        request.on_cancel = lambda: self.cancel(turn)
        if params.has_flag(STEER) and self._line:
            work: Awaitable[TurnResult] = self._steer(turn)
        else:
            self._line.append(turn)
            work = self._take_turn(turn)
        request.begin()
        return await work

    def cancel(self, turn: Turn) -> None:
        """Stop a turn: a waiting one ends at once, a running one with all that it started."""
        turn.cancelled = True
        if turn in self._line[1:]:
            turn.start()
        else:
            self._tasks.start(self._abort(turn))

    async def close(self) -> None:
        """Stop all turns, and wait until nothing runs."""
        for turn in reversed(self._line):
            self.cancel(turn)
        await self._engine.abort()
        for turn in self._line:
            turn.settle()

    @property
    def busy(self) -> bool:
        return bool(self._line)

    # ------------------------------------------------------------ as a sink

    def take(self, event: Event) -> None:
        if not self._line:
            return
        turn = self._line[0]
        if isinstance(event, AgentEnd):
            turn.last = _last_answer(event.messages)
        elif isinstance(event, LimitReached):
            turn.limit = event
        elif isinstance(event, AgentSettled):
            turn.settle()

    # ------------------------------------------------------------ private

    async def _take_turn(self, turn: Turn) -> TurnResult:
        if self._line[0] is turn:
            turn.start()
        try:
            await turn.go
            if not turn.cancelled:
                await self._run(turn)
            return turn.outcome()
        finally:
            turn.settle()
            self._line.remove(turn)
            if self._line:
                self._line[0].start()
            else:
                self._host.rest()

    async def _run(self, turn: Turn) -> None:
        try:
            command = find_command(self._engine, turn.text)
            if command is not None:
                self._host.say(await self._perform(*command))
            elif self._engine.prompting.is_command(turn.text):
                await self._run_extension(turn)
            elif await self._submit(turn) != "handled":
                if turn.cancelled:  # before there was a run to stop
                    await self._engine.abort()
                await turn.settled
        except CommandError:
            if not turn.cancelled:
                raise

    async def _perform(self, name: str, words: str) -> str:
        if name == "login" and words and not self._host.shows_forms:
            provider = words.split()[0]
            return f"This client shows no forms. In a terminal: ludolf auth login {provider}"
        return await perform_command(self._engine, name, words)

    async def _submit(self, turn: Turn) -> str:
        # A run that an extension has started may be under way.
        prompt = PromptInput(
            text=turn.text, extra=turn.parts, when_busy="followUp", trace=turn.trace
        )
        return await self._engine.prompting.prompt(prompt)

    async def _run_extension(self, turn: Turn) -> None:
        """Run the command of an extension, which may wait for anything, until it is aborted."""
        with self._engine.work.open() as scope:
            try:
                await scope.run(self._submit(turn))
            except Aborted:
                turn.cancelled = True
        await self._engine.settled()

    async def _steer(self, turn: Turn) -> TurnResult:
        """Give a prompt to the running turn; it ends with that one."""
        running = self._line[0]
        prompt = PromptInput(text=turn.text, extra=turn.parts, trace=turn.trace)
        if self._engine.runner.running:
            await self._engine.prompting.queue("steering", prompt)
            await asyncio.wait((running.settled,))
            turn.last, turn.limit = running.last, running.limit
            turn.cancelled = turn.cancelled or running.cancelled
            return turn.outcome()
        self._line.append(turn)
        return await self._take_turn(turn)

    async def _abort(self, turn: Turn) -> None:
        await self._engine.abort()
        turn.settle()


def _last_answer(messages: Sequence[Any]) -> AssistantMessage | None:
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    return answers[-1] if answers else None
