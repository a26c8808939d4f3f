"""`ctx.ui`: dialogs and notices through the host's user interface."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

from ludolf.extensions.dialogs import NoticeLevel, Placement
from ludolf.extensions.payloads import UiPromptEnd, UiPromptStart
from ludolf.extensions.runtime import Runtime
from ludolf.functions.isolation import clock_stopped

DialogKind = Literal["select", "confirm", "input", "editor", "custom"]


class ExtensionUi:
    """User interface for extensions.

    While a dialog is open, the timeout of the calling handler is paused; `ui_prompt_start` and
    `ui_prompt_end` are sent to other extensions. Methods without a result may be called from
    worker threads.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None
    ) -> str | None:
        """Return the option that the user chose, or None."""
        async with self._dialog("select", title):
            return await self._runtime.host.ui.select(title, options, timeout=timeout)

    async def confirm(self, title: str, message: str, *, timeout: float | None = None) -> bool:
        """Return whether the user confirmed."""
        async with self._dialog("confirm", title):
            return await self._runtime.host.ui.confirm(title, message, timeout=timeout)

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None
    ) -> str | None:
        """Return the line that the user typed, or None."""
        async with self._dialog("input", title):
            return await self._runtime.host.ui.input(title, placeholder, timeout=timeout)

    async def editor(
        self, title: str, prefill: str | None = None, *, timeout: float | None = None
    ) -> str | None:
        """Return the text that the user edited, or None."""
        async with self._dialog("editor", title):
            return await self._runtime.host.ui.editor(title, prefill, timeout=timeout)

    def notify(self, message: str, level: NoticeLevel | None = None) -> None:
        self._runtime.do(lambda host: host.ui.notify(message, level))

    def set_status(self, key: str, text: str | None) -> None:
        """Show a short permanent text; None clears it."""
        self._runtime.do(lambda host: host.ui.set_status(key, text))

    def set_widget(
        self, key: str, lines: Sequence[str] | Any | None, *, placement: Placement | None = None
    ) -> None:
        """Show lines next to the editor; None clears them."""
        self._runtime.do(lambda host: host.ui.set_widget(key, lines, placement=placement))

    def set_title(self, title: str) -> None:
        self._runtime.do(lambda host: host.ui.set_title(title))

    def set_editor_text(self, text: str) -> None:
        self._runtime.do(lambda host: host.ui.set_editor_text(text))

    def paste_to_editor(self, text: str) -> None:
        self._runtime.do(lambda host: host.ui.paste_to_editor(text))

    def __getattr__(self, name: str) -> Any:
        """Return a method that needs a terminal; without one it returns a constant."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._runtime.host.ui, name)

    @asynccontextmanager
    async def _dialog(self, kind: DialogKind, title: str) -> AsyncIterator[None]:
        runtime, runner = self._runtime, self._runtime.runner
        outermost = runtime.open_dialogs == 0
        runtime.open_dialogs += 1
        try:
            with clock_stopped():
                if outermost and runner.wants("ui_prompt_start"):
                    await runner.emit(UiPromptStart(kind=kind, title=title))
                yield
        finally:
            runtime.open_dialogs -= 1
            if outermost and runner.wants("ui_prompt_end"):
                await runner.emit(UiPromptEnd(kind=kind, title=title))
