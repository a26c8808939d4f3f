"""Answer dialogs of extensions and approvals with the `on_dialog` function."""

from collections.abc import Callable
from typing import Any

from ludolf.engine.engine import Engine
from ludolf.functions.isolation import Failed, call
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import UiRequest

_DIALOGS = ("select", "confirm", "input", "editor")


class DialogAnswers:
    """Call `on_dialog` for each dialog and pass its result to the engine.

    The function takes the request and returns the chosen option, the text, or a bool; None
    dismisses the dialog, and so does an exception. It may be async.
    """

    def __init__(self, engine: Engine, answer: Callable[..., Any] | None) -> None:
        self._engine = engine
        self._answer = answer

    @property
    def wanted(self) -> bool:
        return self._answer is not None

    def send(self, request: UiRequest) -> None:
        if request.method in _DIALOGS:
            self._engine.tasks.start(self._settle(request))

    async def _settle(self, request: UiRequest) -> None:
        assert self._answer is not None
        try:
            value = await call(self._answer, request)
        except Failed as error:
            self._engine.workspace.warn(f"on_dialog failed: {error}")
            value = None
        self._engine.answer_dialog(_response(request, value))


def _response(request: UiRequest, value: Any) -> UiAnswer:
    if value is None:
        return UiAnswer(id=request.id, cancelled=True)
    if request.method == "confirm":
        return UiAnswer(id=request.id, confirmed=bool(value))
    return UiAnswer(id=request.id, value=value)
