"""Calls that the host answers: they wait for it, also while it is away for a moment.

A call waits until the host answers, the run is aborted, the host withdraws what is called, its
time is up, or the host is gone.
"""

import asyncio
from collections.abc import Callable
from typing import Generic

import msgspec

from ludolf.agent.questions import AnswerT, Questions, QuestionT
from ludolf.agent.tool import ToolFailure
from ludolf.base import short_id
from ludolf.engine.host.host_link import HostLink
from ludolf.protocol.host_events import (
    HostToolCall,
    HostToolCancel,
    HostUriCancel,
    HostUriRequest,
)


class HostCall(msgspec.Struct, Generic[QuestionT], frozen=True):
    """`what` names the call in errors."""

    what: str
    about: QuestionT
    timeout_ms: float | None
    request: HostToolCall | HostUriRequest


def new_call_id() -> str:
    """Return an id for a call of the host."""
    return f"host_{short_id()}{short_id()}"


class HostCalls(Questions[HostCall[QuestionT], AnswerT]):
    """The open calls of one host. `cancelled` withdraws a call there."""

    def __init__(
        self, link: HostLink, cancelled: type[HostToolCancel] | type[HostUriCancel]
    ) -> None:
        super().__init__()
        self._link = link
        self._cancelled = cancelled
        self._gone: str | None = None
        # Cancellations for a host that is away; None while it is there.
        self._held: list[HostToolCancel | HostUriCancel] | None = None

    async def run(self, call: HostCall[QuestionT]) -> AnswerT:
        """Send the call and wait for its answer. While the host is away, it waits to be sent.

        Raises:
            ToolFailure: the host reported an error, is gone, withdrew the tool or was too slow.
        """
        if self._gone is not None:
            raise ToolFailure(self._gone.format(what=call.what))

        async def send() -> None:
            if self._held is None:
                await self._link.emit(call.request)

        limit = None if call.timeout_ms is None else call.timeout_ms / 1000
        try:
            return await self.ask(call.request.id, call, send, limit)
        except asyncio.CancelledError:
            if self._gone is not None:
                raise asyncio.CancelledError(self._gone.format(what=call.what)) from None
            self._cancel(call.request.id)
            raise asyncio.CancelledError(f"{call.what} was aborted") from None
        except TimeoutError:
            self._cancel(call.request.id)
            raise ToolFailure(f"{call.what} gave no result in {limit:g} s") from None

    def withdraw(self, is_withdrawn: Callable[[QuestionT], bool]) -> None:
        """Fail the calls that can no longer be answered; the host receives a cancellation."""
        for id, call in self.waiting():
            if is_withdrawn(call.about):
                self._cancel(id)
                self.fail(id, ToolFailure(f"{call.what} was aborted"))

    def pause(self) -> None:
        """Send nothing from now on: the host is away."""
        if self._held is None:
            self._held = []

    def resume(self) -> None:
        """Send what the host missed: cancellations, then every open call under its old id."""
        held, self._held = self._held or (), None
        self._gone = None
        for event in held:
            self._link.post(event)
        for _, call in self.waiting():
            self._link.post(call.request)

    def end(self, gone: str) -> None:
        """Fail open and later calls with this text, in which `{what}` is the name of the call."""
        self._gone = gone
        if self._held is not None:
            self._held = []
        for id, call in self.waiting():
            self.fail(id, ToolFailure(gone.format(what=call.what)))

    def _cancel(self, id: str) -> None:
        event = self._cancelled(id=f"host_cancel_{short_id()}", target_id=id)
        if self._held is None:
            self._link.post(event)
        else:
            self._held.append(event)
