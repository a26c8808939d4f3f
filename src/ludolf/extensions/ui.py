"""`ctx.ui`: dialogs and notices through the host's user interface."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from ludolf.extensions.dialogs import Read, UiMethods
from ludolf.extensions.payloads import UiPromptEnd, UiPromptStart
from ludolf.extensions.runtime import Runtime
from ludolf.functions.isolation import clock_stopped
from ludolf.protocol.ui import UiRequest


class ExtensionUi(UiMethods):
    """User interface for extensions.

    While a dialog is open, the timeout of the calling handler is paused; `ui_prompt_start` and
    `ui_prompt_end` are sent to other extensions. Methods without a result may be called from
    worker threads.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def _ask(self, request: UiRequest, read: Read, timeout: float | None) -> Any:
        async with self._dialog(request):
            return await self._runtime.host.ui._ask(request, read, timeout)

    def _send(self, request: UiRequest) -> None:
        self._runtime.do(lambda host: host.ui._send(request))

    def __getattr__(self, name: str) -> Any:
        """Return a method that needs a terminal; without one it returns a constant."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._runtime.host.ui, name)

    @asynccontextmanager
    async def _dialog(self, request: UiRequest) -> AsyncIterator[None]:
        runtime, runner = self._runtime, self._runtime.runner
        outermost = runtime.open_dialogs == 0
        runtime.open_dialogs += 1
        kind: Any = request.method
        try:
            with clock_stopped():
                if outermost and runner.wants("ui_prompt_start"):
                    await runner.emit(UiPromptStart(kind=kind, title=request.title))
                yield
        finally:
            runtime.open_dialogs -= 1
            if outermost and runner.wants("ui_prompt_end"):
                await runner.emit(UiPromptEnd(kind=kind, title=request.title))
