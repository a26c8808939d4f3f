"""Send questions to the host and wait for answers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")


DAY_SECONDS = 24 * 3600.0


class AnswerClock:
    """The time that questions have for their answers; it can be stopped for all of them.

    A question whose time stood still for `most_seconds` in all gets no more time.
    """

    def __init__(self, most_seconds: float = DAY_SECONDS) -> None:
        self._most_seconds = most_seconds
        self._runs = True
        # One for each open question; done when the clock is stopped or started.
        self._changes: set[asyncio.Future[None]] = set()

    def stop(self) -> None:
        """Let no time pass for open and later questions."""
        self._set(runs=False)

    def start(self) -> None:
        """Let time pass again; open questions continue with what was left."""
        self._set(runs=True)

    async def wait(self, answer: "asyncio.Future[Any]", seconds: float | None) -> bool:
        """Wait for an answer; False if it did not come in time. None is unlimited time."""
        loop = asyncio.get_running_loop()
        left, patience = seconds, self._most_seconds
        while True:
            runs, begin = self._runs, loop.time()
            in_time = await self._wait_or_change(answer, left if runs else patience)
            if answer.done() or not in_time:
                return answer.done()
            passed = loop.time() - begin
            if not runs:
                patience -= passed
            elif left is not None:
                left -= passed

    async def _wait_or_change(self, answer: "asyncio.Future[Any]", seconds: float | None) -> bool:
        change = asyncio.get_running_loop().create_future()
        self._changes.add(change)
        try:
            done, _ = await asyncio.wait(
                (answer, change), timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            self._changes.discard(change)
        return bool(done)

    def _set(self, *, runs: bool) -> None:
        if runs != self._runs:
            self._runs = runs
            for change in self._changes:
                if not change.done():
                    change.set_result(None)


class Questions(Generic[QuestionT, AnswerT]):
    """Open questions by id. The first answer counts; later ones and unknown ids are ignored.

    `clock` measures the time for answers; without one it always runs.
    """

    def __init__(self, clock: AnswerClock | None = None) -> None:
        self._clock = clock or AnswerClock()
        self._open: dict[str, tuple[QuestionT, asyncio.Future[AnswerT]]] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def ask(
        self,
        id: str,
        about: QuestionT,
        send: Callable[[], Awaitable[None]],
        seconds: float | None = None,
    ) -> AnswerT:
        """Send a question and wait for its answer. `about` is stored for the code that answers it.

        Raises:
            TimeoutError: no answer came within `seconds`.
        """
        answer: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        self._open[id] = about, answer
        try:
            await send()
            if not await self._clock.wait(answer, seconds):
                raise TimeoutError
            return answer.result()
        finally:
            del self._open[id]
            if answer.done() and not answer.cancelled():
                answer.exception()  # retrieve the exception: the waiting code may be gone

    def about(self, id: str) -> QuestionT | None:
        """Return the `about` of a question; None if it is unknown or answered."""
        about, answer = self._open.get(id, (None, None))
        return None if answer is None or answer.done() else about

    def answer(self, id: str, value: AnswerT) -> None:
        if self.about(id) is not None:
            self._open[id][1].set_result(value)

    def fail(self, id: str, error: Exception) -> None:
        if self.about(id) is not None:
            self._open[id][1].set_exception(error)

    def waiting(self) -> tuple[tuple[str, QuestionT], ...]:
        """Return the ids of the unanswered questions with their `about`."""
        return tuple((id, about) for id, (about, answer) in self._open.items() if not answer.done())
