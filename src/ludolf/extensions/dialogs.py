"""Dialogs and notices of extensions, sent to the host."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

from ludolf.base import uuid4
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import UiRequest

Read = Callable[[UiAnswer], Any]
NoticeLevel = Literal["info", "warning", "error"]
Placement = Literal["aboveEditor", "belowEditor"]
Show = Callable[[UiRequest], None]


def _ignore(*args: Any, **options: Any) -> None: ...


class TerminalUi:
    """Methods that need a terminal; they return constants."""

    theme_error = "Theme switching not supported in RPC mode"

    async def custom(self, *args: Any, **options: Any) -> None:
        return None

    def get_editor_text(self) -> str:
        return ""

    def get_editor_component(self) -> None:
        return None

    def get_tools_expanded(self) -> bool:
        return False

    def get_all_themes(self) -> list[str]:
        return []

    def get_theme(self, name: str | None = None) -> None:
        return None

    def set_theme(self, theme: Any) -> dict[str, Any]:
        return {"success": False, "error": self.theme_error}

    def on_terminal_input(self, handler: Callable[..., Any]) -> Callable[[], None]:
        return _ignore

    set_working_message = set_working_visible = set_working_indicator = _ignore
    set_hidden_thinking_label = set_footer = set_header = set_editor_component = _ignore
    add_autocomplete_provider = set_tools_expanded = _ignore


class UiMethods:
    """Dialogs and notices. `timeout` is in milliseconds.

    After a timeout, when dismissed, or without a host, `confirm` returns False and the others
    return None. Cancelling the await closes the dialog.
    """

    async def _ask(self, request: UiRequest, read: Read, timeout: float | None) -> Any:
        """Send a dialog and return what `read` finds in the answer; None without one."""
        raise NotImplementedError

    def _send(self, request: UiRequest) -> None:
        raise NotImplementedError

    # ------------------------------------------------------------ dialogs

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None
    ) -> str | None:
        """Return the option that the user chose, or None."""
        request = UiRequest(
            id=uuid4(), method="select", title=title, options=tuple(options), timeout=timeout
        )
        option: str | None = await self._ask(request, _value, timeout)
        return option

    async def confirm(self, title: str, message: str, *, timeout: float | None = None) -> bool:
        """Return whether the user confirmed."""
        request = UiRequest(
            id=uuid4(), method="confirm", title=title, message=message, timeout=timeout
        )
        return bool(await self._ask(request, _confirmed, timeout))

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None
    ) -> str | None:
        """Return the line that the user typed, or None."""
        request = UiRequest(
            id=uuid4(), method="input", title=title, placeholder=placeholder, timeout=timeout
        )
        text: str | None = await self._ask(request, _value, timeout)
        return text

    async def editor(
        self, title: str, prefill: str | None = None, *, timeout: float | None = None
    ) -> str | None:
        """Return the text that the user edited, or None."""
        # The timeout is not sent: the wire has none for editors.
        request = UiRequest(id=uuid4(), method="editor", title=title, prefill=prefill)
        text: str | None = await self._ask(request, _value, timeout)
        return text

    # ------------------------------------------------------------ one way

    def notify(self, message: str, level: NoticeLevel | None = None) -> None:
        self._send(UiRequest(id=uuid4(), method="notify", message=message, notify_type=level))

    def set_status(self, key: str, text: str | None) -> None:
        """Show a short permanent text; None clears it."""
        self._send(UiRequest(id=uuid4(), method="setStatus", status_key=key, status_text=text))

    def set_widget(
        self, key: str, lines: Sequence[str] | Any | None, *, placement: Placement | None = None
    ) -> None:
        """Show lines next to the editor; None clears them."""
        if lines is not None and (isinstance(lines, str) or not isinstance(lines, Sequence)):
            return  # a component for a terminal, which cannot be sent
        self._send(
            UiRequest(
                id=uuid4(),
                method="setWidget",
                widget_key=key,
                widget_lines=None if lines is None else tuple(lines),
                widget_placement=placement,
            )
        )

    def set_title(self, title: str) -> None:
        self._send(UiRequest(id=uuid4(), method="setTitle", title=title))

    def set_editor_text(self, text: str) -> None:
        self._send(UiRequest(id=uuid4(), method="set_editor_text", text=text))

    def paste_to_editor(self, text: str) -> None:
        self.set_editor_text(text)


class DialogHost(Protocol):
    """The way to the user of a host."""

    def show(self, request: UiRequest) -> bool:
        """Send a request that needs no answer."""

    async def ask(self, request: UiRequest, seconds: float | None = None) -> UiAnswer | None:
        """Return the user's answer; None if the dialog is dismissed or not shown.

        Raises:
            TimeoutError: no answer came within `seconds`.
        """


class Dialogs(UiMethods, TerminalUi):
    """Sends dialogs and notices to the host, if there is one.

    `show` takes notices where no host shows them.
    """

    def __init__(self, host: DialogHost | None, show: Show | None = None) -> None:
        self._host = host
        self._show = show
        if host is None:
            self.theme_error = "UI not available"

    async def _ask(self, request: UiRequest, read: Read, timeout: float | None) -> Any:
        if self._host is None:
            return None
        try:
            answer = await self._host.ask(request, None if timeout is None else timeout / 1000)
        except TimeoutError:
            return None
        return None if answer is None else read(answer)

    def _send(self, request: UiRequest) -> None:
        if self._host is not None:
            self._host.show(request)
        if self._show is not None and request.method == "notify":
            self._show(request)


def _value(response: UiAnswer) -> str | None:
    return response.value if isinstance(response.value, str) else None


def _confirmed(response: UiAnswer) -> bool:
    return response.confirmed is True
