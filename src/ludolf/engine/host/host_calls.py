"""Questions to the host that it has not answered yet.

A question waits until the host answers it, the run is aborted, what it asks for is withdrawn, its
time is up, or the host is gone. Whatever comes first settles it; what comes later is ignored.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from ludolf.agent.tool import ToolError
from ludolf.base import short_id

About = TypeVar("About")
Answer = TypeVar("Answer")


class Question(Generic[About]):
    """`what` names it in errors; `about` is for whoever asks to know it again."""

    def __init__(self, what: str, about: About, timeout_ms: float | None) -> None:
        self.what = what
        self.about = about
        self.limit = None if timeout_ms is None else timeout_ms / 1000

    @property
    def aborted(self) -> str:
        return f"{self.what} was aborted"

    @property
    def too_slow(self) -> str:
        return f"{self.what} gave no result in {self.limit:g} s"


class HostCalls(Generic[About, Answer]):
    """`cancel` tells the host which question needs no answer any more; `gone` says that it left."""

    def __init__(self, cancel: Callable[[str], None], gone: str) -> None:
        self._cancel = cancel
        self._gone = gone
        self._open: dict[str, tuple[Question[About], asyncio.Future[Answer]]] = {}
        self._is_gone = False

    async def ask(
        self, question: Question[About], send: Callable[[str], Awaitable[None]]
    ) -> Answer:
        """Send the question under an id of its own, and wait for its answer.

        Raises:
            ToolError: the host said so, is gone, withdrew what was asked for, or was too slow.
        """
        if self._is_gone:
            raise ToolError(self._gone)
        id = f"host_{short_id()}{short_id()}"
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[id] = question, answer
        try:
            await send(id)
            async with asyncio.timeout(question.limit):
                return await answer
        except asyncio.CancelledError:
            if self._is_gone:
                raise asyncio.CancelledError(self._gone) from None
            self._cancel(id)
            raise asyncio.CancelledError(question.aborted) from None
        except TimeoutError:
            self._cancel(id)
            raise ToolError(question.too_slow) from None
        finally:
            del self._open[id]
            if answer.done() and not answer.cancelled():
                answer.exception()

    def about(self, id: str) -> About | None:
        """What a question is about; None if nobody waits for its answer."""
        question, answer = self._open.get(id, (None, None))
        return None if question is None or answer is None or answer.done() else question.about

    def answer(self, id: str, value: Answer) -> None:
        if self.about(id) is not None:
            self._open[id][1].set_result(value)

    def fail(self, id: str, error: ToolError) -> None:
        if self.about(id) is not None:
            self._open[id][1].set_exception(error)

    def withdraw(self, is_meant: Callable[[About], bool]) -> None:
        """Give up the questions about what is no longer there; the host is told."""
        for id, (question, answer) in tuple(self._open.items()):
            if is_meant(question.about) and not answer.done():
                self._cancel(id)
                answer.set_exception(ToolError(question.aborted))

    def disconnect(self) -> None:
        """The host is gone: nobody will answer any more."""
        self._is_gone = True
        for id in tuple(self._open):
            self.fail(id, ToolError(self._gone))
