"""Calls to the host: its tools and its documents.

A call waits until the host answers, the run is aborted, the host withdraws what is called, its
time is up, or the host is gone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic

from ludolf.agent.questions import AnswerT, Questions, QuestionT
from ludolf.agent.tool import ToolFailure
from ludolf.base import short_id


class HostCall(Generic[QuestionT]):
    """`what` names the call in errors."""

    def __init__(self, what: str, about: QuestionT, timeout_ms: float | None) -> None:
        self.what = what
        self.about = about
        self.limit = None if timeout_ms is None else timeout_ms / 1000

    @property
    def aborted(self) -> str:
        return f"{self.what} was aborted"

    @property
    def too_slow(self) -> str:
        return f"{self.what} gave no result in {self.limit:g} s"


class HostCalls(Questions[HostCall[QuestionT], AnswerT]):
    """`cancel` withdraws a call at the host; `gone` is the error after the host has left."""

    def __init__(self, cancel: Callable[[str], None], gone: str) -> None:
        super().__init__()
        self._cancel = cancel
        self._gone = gone
        self._is_gone = False

    async def run(
        self, call: HostCall[QuestionT], send: Callable[[str], Awaitable[None]]
    ) -> AnswerT:
        """Send the call under an id of its own, and wait for its answer.

        Raises:
            ToolFailure: the host reported an error, is gone, withdrew the tool or was too slow.
        """
        if self._is_gone:
            raise ToolFailure(self._gone)
        id = f"host_{short_id()}{short_id()}"
        try:
            return await self.ask(id, call, lambda: send(id), call.limit)
        except asyncio.CancelledError:
            if self._is_gone:
                raise asyncio.CancelledError(self._gone) from None
            self._cancel(id)
            raise asyncio.CancelledError(call.aborted) from None
        except TimeoutError:
            self._cancel(id)
            raise ToolFailure(call.too_slow) from None

    def withdraw(self, is_withdrawn: Callable[[QuestionT], bool]) -> None:
        """Fail the calls that can no longer be answered; the host receives a cancellation."""
        for id, call in self.waiting():
            if is_withdrawn(call.about):
                self._cancel(id)
                self.fail(id, ToolFailure(call.aborted))

    def disconnect(self) -> None:
        """Fail all calls: the host is gone."""
        self._is_gone = True
        for id, _ in self.waiting():
            self.fail(id, ToolFailure(self._gone))
