"""Questions of extensions, answered by a function of the program."""

from collections.abc import Callable
from typing import Any

from ludolf.engine.engine import Engine
from ludolf.functions.isolation import Failed, call
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import UiRequest

_DIALOGS = ("select", "confirm", "input", "editor")


class DialogAnswers:
    """The function gets the request and returns the chosen option, the text, or yes and no; None
    dismisses the dialog. It may be async. One that fails dismisses the dialog too."""

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
