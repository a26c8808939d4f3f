"""One prompt on its way: await it for the answer, or iterate over what happens."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing
from typing import Any

from ludolf.agent.events import MessageEnd, MessageUpdate
from ludolf.ai.draft import BlockDelta, StreamEvent
from ludolf.ai.messages import NO_USAGE, AssistantMessage, Message, Part, StopReason, Usage, text_of
from ludolf.base import LudolfError, Value
from ludolf.engine.engine import Engine
from ludolf.engine.prompting import Disposition
from ludolf.engine.summaries import add_usage
from ludolf.protocol.events import AgentSettled, Event

# What an iteration yields: pieces of answers as blocks begin, grow and end, and all other events.
SessionEvent = StreamEvent | Event
_MOST_WAITING = 256


class Answer(Value, kw_only=True):
    """What a prompt led to. `messages` are all new ones, `usage` is what they cost together."""

    text: str
    messages: tuple[Message, ...]
    usage: Usage
    stop_reason: StopReason | None
    error: str | None = None

    @property
    def aborted(self) -> bool:
        return self.stop_reason == "aborted"


class PromptFailed(LudolfError):
    """The model could not answer, also after retries; `answer` holds what there is."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.error or "The model gave no answer")
        self.answer = answer


class Run:
    """Begins when it is awaited or iterated over, and not before.

    A loop that is left early aborts the run.
    """

    def __init__(self, engine: Engine, text: str, extra: Sequence[Part]) -> None:
        self._engine = engine
        self._text, self._extra = text, extra
        self._messages: list[Message] = []
        self._used = False

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._wait().__await__()

    async def __aiter__(self) -> AsyncGenerator[SessionEvent]:
        """Raises:
        CommandError: the prompt was refused.
        """
        async with aclosing(self._listen()) as events:
            async for event in events:
                if isinstance(event, MessageEnd):
                    self._messages.append(event.message)
                yield event.event if isinstance(event, MessageUpdate) else event

    async def text(self) -> AsyncGenerator[str]:
        """Only the answer's text, piece by piece; raises as awaiting does."""
        async with aclosing(self.__aiter__()) as events:
            async for event in events:
                if isinstance(event, BlockDelta) and event.kind == "text":
                    yield event.delta
        self._check()

    @property
    def answer(self) -> Answer:
        """What there is so far; complete once the run is over."""
        said = [each for each in self._messages if isinstance(each, AssistantMessage)]
        last = said[-1] if said else None
        usage = NO_USAGE
        for each in said:
            usage = add_usage(usage, each.usage)
        return Answer(
            text=text_of(last.content) if last else "",
            messages=tuple(self._messages),
            usage=usage,
            stop_reason=last.stop_reason if last else None,
            error=last.error_message if last and last.stop_reason == "error" else None,
        )

    async def _wait(self) -> Answer:
        async for _ in self:
            pass
        return self._check()

    def _check(self) -> Answer:
        answer = self.answer
        if answer.stop_reason == "error":
            raise PromptFailed(answer)
        return answer

    async def _listen(self) -> AsyncGenerator[Event]:
        if self._used:
            raise LudolfError("This run is over; call prompt() again.")
        self._used = True
        engine, listener = self._engine, Listener()
        detach = engine.parts.hub.attach(listener)
        disposition: Disposition | None = None
        try:
            work = engine.prompting.prompt(self._text, self._extra)
            disposition = work if isinstance(work, str) else await work
            listener.bounded = True
            while disposition == "started":
                event = await listener.next()
                yield event
                if isinstance(event, AgentSettled):
                    disposition = "handled"
            for event in listener.rest():
                yield event
        finally:
            detach()
            listener.leave()
            if disposition == "started":  # left before the end; another's run is not ours to end
                await engine.abort()


class Listener:
    """A sink that keeps events until they are asked for. A slow reader slows the run down, once
    the prompt is accepted; until then nobody reads."""

    def __init__(self) -> None:
        self.bounded = False
        self._events: deque[Event] = deque()
        self._came = asyncio.Event()
        self._room = asyncio.Event()

    def take(self, event: Event) -> None:
        self._events.append(event)
        self._came.set()

    def has_room(self) -> bool:
        return not self.bounded or len(self._events) < _MOST_WAITING

    async def room(self) -> None:
        while not self.has_room():
            self._room.clear()
            await self._room.wait()

    async def next(self) -> Event:
        while not self._events:
            self._came.clear()
            await self._came.wait()
        event = self._events.popleft()
        self._room.set()
        return event

    def rest(self) -> list[Event]:
        events = list(self._events)
        self._events.clear()
        return events

    def leave(self) -> None:
        """Nobody reads any more: whoever waits for room goes on."""
        self.bounded = False
        self._events.clear()
        self._room.set()
