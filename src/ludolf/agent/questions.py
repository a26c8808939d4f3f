"""Send questions to the host and wait for answers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

QuestionT = TypeVar("QuestionT")
AnswerT = TypeVar("AnswerT")


class Questions(Generic[QuestionT, AnswerT]):
    """Open questions by id. The first answer counts; later ones and unknown ids are ignored."""

    def __init__(self) -> None:
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
            await asyncio.wait((answer,), timeout=seconds)
            if not answer.done():
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
