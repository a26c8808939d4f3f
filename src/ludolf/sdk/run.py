"""One prompt: await it for the answer, or iterate over its events."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import aclosing
from typing import Any

from ludolf.agent.events import MessageEnd, MessageUpdate
from ludolf.ai.draft import BlockDelta, StreamEvent
from ludolf.ai.failure_text import failure_text
from ludolf.ai.messages import AssistantMessage, Message, Part
from ludolf.base import CommandError, LudolfError
from ludolf.engine.engine import Engine
from ludolf.engine.feature import PromptInput
from ludolf.engine.hub import Sink
from ludolf.protocol.answer import Answer, answer_of, checked
from ludolf.protocol.commands import Disposition
from ludolf.protocol.events import AgentSettled, Event, LimitReached

# Events of an iteration: starts, deltas and ends of blocks, and all other events of the run.
SessionEvent = StreamEvent | Event
_MOST_WAITING = 256
_BUSY = (
    "Agent is already processing. Queue the message with steer() or follow_up(), "
    "or wait for the end of the run."
)


class Run:
    """A prompt that starts when it is awaited or iterated over.

    Leaving the loop early aborts the run.

    >>> import asyncio
    >>> from ludolf import create_session
    >>> async def main() -> list[str]:
    ...     async with create_session(model="ludolf/offline", thinking="off") as session:
    ...         run = session.prompt("hello")
    ...         names = [type(event).__name__ async for event in run]
    ...         assert run.answer.text.startswith("Hello!")
    ...         return sorted(set(names), key=names.index)
    >>> asyncio.run(main())
    ['AgentStart', 'TurnStart', 'MessageStart', 'MessageEnd', 'BlockStart', 'BlockDelta',
     'BlockEnd', 'TurnEnd', 'AgentEnd', 'AgentSettled']
    """

    def __init__(self, engine: Engine, text: str, extra: Sequence[Part]) -> None:
        self._engine = engine
        self._text, self._extra = text, extra
        self._messages: list[Message] = []
        self._limit: LimitReached | None = None
        self._used = False

    def __await__(self) -> Generator[Any, None, Answer]:
        return self._wait().__await__()

    async def __aiter__(self) -> AsyncGenerator[SessionEvent]:
        """Start the run and yield its events.

        Raises:
            CommandError: the prompt was refused.
        """
        async with aclosing(self._listen()) as events:
            async for event in events:
                if isinstance(event, MessageEnd):
                    self._messages.append(event.message)
                elif isinstance(event, LimitReached):
                    self._limit = event
                yield event.event if isinstance(event, MessageUpdate) else event

    async def text(self) -> AsyncGenerator[str]:
        """Yield the text of the answer as it arrives; raises the same errors as awaiting.

        >>> import asyncio
        >>> from ludolf import create_session
        >>> async def counter(context):
        ...     for word in ("one ", "two ", "three"):
        ...         yield word
        >>> async def main() -> list[str]:
        ...     async with create_session(model=counter) as session:
        ...         return [piece async for piece in session.prompt("Count").text()]
        >>> asyncio.run(main())
        ['one ', 'two ', 'three']
        """
        async with aclosing(self.__aiter__()) as events:
            async for event in events:
                if isinstance(event, BlockDelta) and event.kind == "text":
                    yield event.delta
        checked(self.answer)

    @property
    def answer(self) -> Answer:
        """Return the answer so far; it is complete when the run has ended."""
        answer = answer_of(self._messages, self._limit)
        if answer.error is None:
            return answer
        answers = (each for each in reversed(answer.messages) if isinstance(each, AssistantMessage))
        return answer.replace(error=failure_text(next(answers)))

    async def _wait(self) -> Answer:
        async for _ in self:
            pass
        return checked(self.answer)

    async def _listen(self) -> AsyncGenerator[Event]:
        if self._used:
            raise LudolfError("This run was already used; call prompt() again.")
        self._used = True
        engine, listener = self._engine, EventBuffer()
        detach = engine.conversation.hub.attach(listener)
        disposition: Disposition | None = None
        try:
            prompt = PromptInput(text=self._text, extra=tuple(self._extra))
            disposition = await _accepted(engine, prompt)
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
            if disposition == "started":  # the loop was left early; abort only our own run
                await engine.abort()


async def _accepted(engine: Engine, prompt: PromptInput) -> Disposition:
    try:
        return await engine.prompting.prompt(prompt)
    except CommandError as error:
        raise CommandError(_BUSY, code="busy") if error.code == "busy" else error from None


class EventBuffer(Sink):
    """Event sink with a queue; once `bounded`, a slow reader slows the run down.

    The queue is unbounded until the prompt is accepted, because nothing is read before that.
    """

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
        """Drop all events and release a run that waits for space in the queue."""
        self.bounded = False
        self._events.clear()
        self._room.set()
