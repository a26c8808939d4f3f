"""Ask the user of the host: send a dialog, wait for its answer, withdraw it."""

import asyncio

from ludolf.agent.questions import AnswerClock, Questions
from ludolf.base import uuid4
from ludolf.engine.feature import Send
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import UiRequest


class HostDialogs:
    """Dialogs of one part of an engine; `send` shows them, None if no host does.

    `clock` measures the time for answers.

    If the task that asks is cancelled, or its time is up, the host closes the dialog. Dialogs of
    extensions stay open there, as hosts of pi expect: those are made with `withdraws=False`.
    """

    def __init__(
        self, clock: AnswerClock, send: Send | None = None, *, withdraws: bool = True
    ) -> None:
        self.send = send
        self._withdraws = withdraws
        self._questions: Questions[UiRequest, UiAnswer | None] = Questions(clock)
        self._closed = False

    @property
    def can_ask(self) -> bool:
        """Return whether a host shows dialogs."""
        return self.send is not None and not self._closed

    def show(self, request: UiRequest) -> bool:
        """Send a request that needs no answer; False if the host cannot show it."""
        return self.send is not None and self.send(request) is not False

    async def ask(self, request: UiRequest, seconds: float | None = None) -> UiAnswer | None:
        """Return the user's answer; None if the dialog is dismissed or no host shows it.

        Raises:
            TimeoutError: no answer came within `seconds`, or the clock stood still for too long.
        """
        if not self.can_ask:
            return None

        async def send() -> None:
            if not self.show(request):
                self.close()  # such a host shows no dialogs, now and later

        try:
            return await self._questions.ask(request.id, request, send, seconds)
        except (TimeoutError, asyncio.CancelledError):
            if self._withdraws:
                self.show(UiRequest(id=uuid4(), method="cancel", target_id=request.id))
            raise

    def answer(self, answer: UiAnswer) -> None:
        """Pass on the user's answer, if it is to one of these dialogs."""
        if isinstance(answer.id, str):
            self._questions.answer(answer.id, None if answer.cancelled else answer)

    def waiting(self) -> tuple[UiRequest, ...]:
        """Return the dialogs that have no answer yet."""
        return tuple(request for _, request in self._questions.waiting())

    def dismiss_all(self) -> None:
        """Dismiss every open dialog."""
        for id, _ in self._questions.waiting():
            self._questions.answer(id, None)

    def close(self) -> None:
        """Dismiss open and later dialogs, because the host is gone."""
        self._closed = True
        self.dismiss_all()
