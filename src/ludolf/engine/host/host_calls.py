"""Calls to the host: its tools and its documents.

A call waits until the host answers, the run is aborted, the host withdraws what is called, its
time is up, or the host is gone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic

import msgspec

from ludolf.agent.questions import AnswerT, Questions, QuestionT
from ludolf.agent.tool import ToolFailure
from ludolf.base import short_id
from ludolf.engine.hub import Hub
from ludolf.protocol.host_events import HostToolCancel, HostUriCancel


class HostCall(msgspec.Struct, Generic[QuestionT], frozen=True):
    """`what` names the call in errors."""

    what: str
    about: QuestionT
    timeout_ms: float | None


class HostCalls(Questions[HostCall[QuestionT], AnswerT]):
    """`cancelled` withdraws a call at the host; `gone` is the error after the host has left."""

    def __init__(
        self, hub: Hub, cancelled: type[HostToolCancel] | type[HostUriCancel], gone: str
    ) -> None:
        super().__init__()
        self._hub = hub
        self._cancelled = cancelled
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
        limit = None if call.timeout_ms is None else call.timeout_ms / 1000
        try:
            return await self.ask(id, call, lambda: send(id), limit)
        except asyncio.CancelledError:
            if self._is_gone:
                raise asyncio.CancelledError(self._gone) from None
            self._cancel(id)
            raise asyncio.CancelledError(f"{call.what} was aborted") from None
        except TimeoutError:
            self._cancel(id)
            raise ToolFailure(f"{call.what} gave no result in {limit:g} s") from None

    def withdraw(self, is_withdrawn: Callable[[QuestionT], bool]) -> None:
        """Fail the calls that can no longer be answered; the host receives a cancellation."""
        for id, call in self.waiting():
            if is_withdrawn(call.about):
                self._cancel(id)
                self.fail(id, ToolFailure(f"{call.what} was aborted"))

    def _cancel(self, id: str) -> None:
        self._hub.post(self._cancelled(id=f"host_cancel_{short_id()}", target_id=id))

    def disconnect(self) -> None:
        """Fail all calls: the host is gone."""
        self._is_gone = True
        for id, _ in self.waiting():
            self.fail(id, ToolFailure(self._gone))
