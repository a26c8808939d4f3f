"""Choose one of many on the whole screen: models, levels, sessions, entries of the tree."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ludolf.tui.bindings import Bindings
from ludolf.tui.cells import cut, plain, width
from ludolf.tui.keys import InputEvent, KeyPress, Paste
from ludolf.tui.screen import Cursor

StyleRow = Callable[[str, str], str]


class PickerItem(msgspec.Struct, frozen=True):
    """One row: its value is handed back, its text is searched."""

    value: Any
    text: str
    detail: str = ""
    is_current: bool = False


class PickerChoice(msgspec.Struct, frozen=True):
    """What the user chose; `action` is empty, or one of the picker's other actions."""

    item: PickerItem | None
    action: str = ""


class Picker:
    """A list with a search.

    Args:
        title: The first row.
        items: The rows.
        bindings: The keys that move and choose.
        styled: Puts a role's style around a text.
        actions: Further actions by the name of their key, such as `ctrl+d`: delete.
    """

    def __init__(
        self,
        title: str,
        items: Sequence[PickerItem],
        bindings: Bindings,
        styled: StyleRow,
        actions: dict[str, str] | None = None,
    ) -> None:
        self._title = title
        self._items = list(items)
        self._bindings = bindings
        self._styled = styled
        self._actions = actions or {}
        self._query = ""
        self._shown = self._items
        current = [n for n, item in enumerate(self._items) if item.is_current]
        self._at = current[0] if current else 0
        self._page = 10

    def handle(self, event: InputEvent) -> PickerChoice | None:
        """Obey a key; returns the choice once there is one."""
        if isinstance(event, Paste):
            self._search(self._query + " ".join(event.text.split()))
            return None
        if not isinstance(event, KeyPress):
            return None
        matches = self._bindings.matches
        if event.name in self._actions and self._shown:
            return PickerChoice(self._shown[self._at], self._actions[event.name])
        if matches(event, "tui.select.cancel"):
            return PickerChoice(None)
        if matches(event, "tui.select.confirm"):
            return PickerChoice(self._shown[self._at]) if self._shown else None
        self._move_or_search(event)
        return None

    def _move_or_search(self, key: KeyPress) -> None:
        matches = self._bindings.matches
        moves = {"up": -1, "down": 1, "pageUp": -self._page, "pageDown": self._page}
        for name, rows in moves.items():
            if matches(key, f"tui.select.{name}"):
                self._at = max(0, min(len(self._shown) - 1, self._at + rows))
                return
        if key.name == "home":
            self._at = 0
        elif key.name == "end":
            self._at = max(0, len(self._shown) - 1)
        elif matches(key, "tui.editor.deleteCharBackward"):
            self._search(self._query[:-1])
        elif matches(key, "tui.editor.deleteToLineStart"):
            self._search("")
        elif key.text:
            self._search(self._query + key.text)

    def _search(self, query: str) -> None:
        self._query = query
        words = query.lower().split()
        self._shown = [
            item
            for item in self._items
            if all(word in f"{item.text} {item.detail}".lower() for word in words)
        ]
        self._at = 0

    def rows(self, cells: int, lines: int) -> tuple[list[str], Cursor]:
        """Return all rows of the screen and the place of the cursor."""
        hints = [f"{key} {action}" for key, action in self._actions.items()]
        bottom = ", ".join(("Enter choose", *hints, "Esc back"))
        self._page = room = max(1, lines - 4)
        top = max(0, min(self._at - room // 2, len(self._shown) - room))
        body = [
            self._row(item, cells, is_chosen=top + number == self._at)
            for number, item in enumerate(self._shown[top : top + room])
        ]
        if not body:
            body = [self._styled("muted", "Nothing fits.")]
        body += [""] * (room - len(body))
        count = f"{len(self._shown)} of {len(self._items)}"
        head = self._styled("accent", cut(f"{self._title}  {count}", cells))
        search = cut(f"> {self._query}", cells)
        foot = self._styled("muted", cut(bottom, cells))
        return [head, search, *body, "", foot], (1, min(cells, 2 + width(self._query)))

    def _row(self, item: PickerItem, cells: int, *, is_chosen: bool) -> str:
        mark = ">" if is_chosen else "*" if item.is_current else " "
        text, detail = (" ".join(plain(each).split()) for each in (item.text, item.detail))
        room = cells - width(detail) - 4
        if detail and room >= cells // 3:
            text = cut(text, room)
            text += " " * (room - width(text)) + "  " + detail
        return self._styled("accent" if is_chosen else "text", cut(f"{mark} {text}", cells))
