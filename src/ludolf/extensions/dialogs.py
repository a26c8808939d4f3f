"""The user interface over the wire: dialogs wait in a table until they are answered."""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ludolf.base import uuid4
from ludolf.extensions.host import Level, Placement, Ui
from ludolf.extensions.no_ui import Degraded
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import UiRequest

Read = Callable[[UiAnswer], Any]


class Dialogs(Degraded):
    """Sends requests and matches answers to them. Time limits are kept here, not by the host.

    An answer to a dialog that is unknown or already settled changes nothing.
    """

    def __init__(self, send: Callable[[UiRequest], bool | None]) -> None:
        self._send = send
        self._waiting: dict[str, tuple[asyncio.Future[Any], Read]] = {}
        self._closed = False

    def answer(self, response: UiAnswer) -> None:
        """What the user said, or that they dismissed the dialog."""
        future, read = self._waiting.get(response.id, (None, None))
        if future is None or read is None or future.done():
            return
        future.set_result(None if response.cancelled else read(response))

    def settle_all(self) -> None:
        """Give every open dialog its default: the session they belong to is over."""
        for future, _ in self._waiting.values():
            if not future.done():
                future.set_result(None)

    def close(self) -> None:
        """Nobody is there any more: open dialogs and all later ones get their defaults."""
        self._closed = True
        self.settle_all()

    @property
    def open(self) -> int:
        """How many dialogs wait."""
        return len(self._waiting)

    # ------------------------------------------------------------ dialogs

    async def select(
        self, title: str, options: Sequence[str], *, timeout: float | None = None
    ) -> str | None:
        request = UiRequest(
            id=uuid4(), method="select", title=title, options=tuple(options), timeout=timeout
        )
        chosen: str | None = await self._ask(request, _value, timeout)
        return chosen

    async def confirm(self, title: str, message: str, *, timeout: float | None = None) -> bool:
        request = UiRequest(
            id=uuid4(), method="confirm", title=title, message=message, timeout=timeout
        )
        return bool(await self._ask(request, _confirmed, timeout))

    async def input(
        self, title: str, placeholder: str | None = None, *, timeout: float | None = None
    ) -> str | None:
        request = UiRequest(
            id=uuid4(), method="input", title=title, placeholder=placeholder, timeout=timeout
        )
        text: str | None = await self._ask(request, _value, timeout)
        return text

    async def editor(
        self, title: str, prefill: str | None = None, *, timeout: float | None = None
    ) -> str | None:
        """The wire knows no time limit for an editor; ours is kept all the same."""
        request = UiRequest(id=uuid4(), method="editor", title=title, prefill=prefill)
        text: str | None = await self._ask(request, _value, timeout)
        return text

    # ------------------------------------------------------------ one way

    def notify(self, message: str, level: Level | None = None) -> None:
        self._tell(UiRequest(id=uuid4(), method="notify", message=message, notify_type=level))

    def set_status(self, key: str, text: str | None) -> None:
        self._tell(UiRequest(id=uuid4(), method="setStatus", status_key=key, status_text=text))

    def set_widget(
        self, key: str, lines: Sequence[str] | None, *, placement: Placement | None = None
    ) -> None:
        if lines is not None and (isinstance(lines, str) or not isinstance(lines, Sequence)):
            return  # a component for a terminal, which cannot be sent
        self._tell(
            UiRequest(
                id=uuid4(),
                method="setWidget",
                widget_key=key,
                widget_lines=None if lines is None else tuple(lines),
                widget_placement=placement,
            )
        )

    def set_title(self, title: str) -> None:
        self._tell(UiRequest(id=uuid4(), method="setTitle", title=title))

    def set_editor_text(self, text: str) -> None:
        self._tell(UiRequest(id=uuid4(), method="set_editor_text", text=text))

    def paste_to_editor(self, text: str) -> None:
        self.set_editor_text(text)

    # ------------------------------------------------------------ private

    def _tell(self, request: UiRequest) -> None:
        self._send(request)

    async def _ask(self, request: UiRequest, read: Read, timeout: float | None) -> Any:
        if self._closed:
            return None
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[request.id] = (future, read)
        try:
            self._send(request)
            seconds = None if timeout is None else timeout / 1000
            await asyncio.wait((future,), timeout=seconds)
            return future.result() if future.done() else None
        finally:
            del self._waiting[request.id]


def _value(response: UiAnswer) -> str | None:
    return response.value if isinstance(response.value, str) else None


def _confirmed(response: UiAnswer) -> bool:
    return response.confirmed is True


if TYPE_CHECKING:

    def _proof(dialogs: Dialogs) -> Ui:
        return dialogs
