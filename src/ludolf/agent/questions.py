"""Send questions to the host and wait for answers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

About = TypeVar("About")
Answer = TypeVar("Answer")


class Questions(Generic[About, Answer]):
    """Open questions by id. The first answer counts; later ones and unknown ids are ignored."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[About, asyncio.Future[Answer]]] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def ask(
        self,
        id: str,
        about: About,
        send: Callable[[], Awaitable[None]],
        seconds: float | None = None,
    ) -> Answer:
        """Send a question and wait for its answer. `about` is stored for the code that answers it.

        Raises:
            TimeoutError: no answer came within `seconds`.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
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

    def about(self, id: str) -> About | None:
        """Return the `about` of a question; None if it is unknown or answered."""
        about, answer = self._open.get(id, (None, None))
        return None if answer is None or answer.done() else about

    def answer(self, id: str, value: Answer) -> None:
        if self.about(id) is not None:
            self._open[id][1].set_result(value)

    def fail(self, id: str, error: Exception) -> None:
        if self.about(id) is not None:
            self._open[id][1].set_exception(error)

    def waiting(self) -> tuple[tuple[str, About], ...]:
        """Return the ids of the unanswered questions with their `about`."""
        return tuple((id, about) for id, (about, answer) in self._open.items() if not answer.done())
