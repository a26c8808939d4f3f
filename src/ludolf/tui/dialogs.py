"""Dialogs of extensions and approvals, in the place of the editor."""

from collections.abc import Sequence
from typing import Any, Protocol

from ludolf.tui.bindings import Bindings
from ludolf.tui.cells import cut, plain, wrap
from ludolf.tui.editor import LineEditor
from ludolf.tui.keys import InputEvent, KeyPress

_Frame = dict[str, Any]
DialogAnswer = dict[str, Any]
CANCELLED: DialogAnswer = {"cancelled": True}
_YES, _NO = ("Yes", "No")
# Rows of the editor in a dialog that asks for a text.
_EDITOR_ROWS = 6


class DialogWriter(Protocol):
    """Makes the rows of a dialog."""

    cells: int
    is_ascii: bool

    def styled(self, role: str, text: str) -> str: ...
    def preview(self, name: str, args: Any) -> list[str]:
        """Return what a call of a tool would do: its command, or a diff."""
        ...


class Dialog:
    """One question: keys choose the answer.

    Args:
        request: The frame `extension_ui_request`.
        bindings: The keys that move and choose.
    """

    def __init__(self, request: _Frame, bindings: Bindings) -> None:
        self.id = str(request.get("id"))
        self._request = request
        self._bindings = bindings
        self._method = str(request.get("method"))
        self._options = self._read_options()
        self._at = 0
        self._editor: LineEditor | None = None
        if not self._options:
            self._editor = LineEditor(bindings)
            self._editor.text = str(request.get("prefill") or "")

    def _read_options(self) -> list[str]:
        if self._method == "confirm":
            return list(_YES_NO)
        options = self._request.get("options")
        return list(map(str, options)) if isinstance(options, list) else []

    @property
    def is_approval(self) -> bool:
        return isinstance(self._request.get("toolName"), str)

    # ------------------------------------------------------------ keys

    def handle(self, event: InputEvent) -> DialogAnswer | None:
        """Obey a key; returns the answer once there is one."""
        if isinstance(event, KeyPress) and self._bindings.matches(event, "tui.select.cancel"):
            return {"confirmed": False} if self._method == "confirm" else CANCELLED
        if self._editor is not None:
            return self._write(event)
        return self._choose(event) if isinstance(event, KeyPress) else None

    def _write(self, event: InputEvent) -> DialogAnswer | None:
        assert self._editor is not None
        if self._editor.handle(event):
            return None
        if isinstance(event, KeyPress) and self._bindings.matches(event, "tui.input.submit"):
            return {"value": self._editor.expanded()}
        return None

    def _choose(self, key: KeyPress) -> DialogAnswer | None:
        matches, count = self._bindings.matches, len(self._options)
        if matches(key, "tui.select.up"):
            self._at = (self._at - 1) % count
        elif matches(key, "tui.select.down") or key.name == "tab":
            self._at = (self._at + 1) % count
        elif matches(key, "tui.select.confirm"):
            return self._answer(self._at)
        elif key.text.isdecimal() and 1 <= int(key.text) <= count:
            return self._answer(int(key.text) - 1)
        elif key.text in ("y", "Y") and (self.is_approval or self._method == "confirm"):
            return self._answer(0)
        elif key.text in ("n", "N") and (self.is_approval or self._method == "confirm"):
            return self._answer(count - 1)
        return None

    def _answer(self, index: int) -> DialogAnswer:
        if self._method == "confirm":
            return {"confirmed": index == 0}
        return {"value": self._options[index]}

    # ------------------------------------------------------------ rows

    def rows(self, writer: DialogWriter, most: int) -> tuple[list[str], tuple[int, int] | None]:
        """Return the rows, and row and column of the cursor if there is one."""
        below, cursor = self._below(writer)
        above = self._above(writer)
        room = max(1, most - len(below))
        if len(above) > room:
            more = f"... {len(above) - room + 1} more rows (Ctrl+O)"
            above = [*above[: room - 1], writer.styled("muted", cut(more, writer.cells))]
        place = None if cursor is None else (len(above) + cursor[0], cursor[1])
        return [*above, *below], place

    def _above(self, writer: DialogWriter) -> list[str]:
        rows = [
            writer.styled("accent", row)
            for row in wrap(plain(str(self._request.get("title") or "")), writer.cells)
        ]
        message = self._request.get("message")
        if isinstance(message, str) and message:
            rows += wrap(plain(message), writer.cells)
        if self.is_approval:
            rows += writer.preview(str(self._request.get("toolName")), self._request.get("args"))
            risk = self._request.get("risk")
            if isinstance(risk, str):
                rows.append(writer.styled("warning", f"Risk: {plain(risk)}"))
        return rows

    def _below(self, writer: DialogWriter) -> tuple[list[str], tuple[int, int] | None]:
        if self._editor is None:
            return self._option_rows(writer), None
        rows, (row, column) = self._editor.rows(writer.cells - 2, _EDITOR_ROWS)
        hint = str(self._request.get("placeholder") or "")
        if not self._editor.text and hint:
            rows = [writer.styled("muted", cut(plain(hint), writer.cells - 2))]
        shown = [("> " if number == 0 else "  ") + each for number, each in enumerate(rows)]
        return shown, (row, column + 2)

    def _option_rows(self, writer: DialogWriter) -> list[str]:
        mark = ">" if writer.is_ascii else "❯"
        rows = []
        for number, option in enumerate(self._options):
            is_chosen = number == self._at
            text = f"{mark if is_chosen else ' '} {number + 1}. {' '.join(plain(option).split())}"
            rows.append(writer.styled("accent" if is_chosen else "text", cut(text, writer.cells)))
        return rows


_YES_NO: Sequence[str] = (_YES, _NO)
