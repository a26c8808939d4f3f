"""Look back on the whole screen: entries of the session with folds, search and branches."""

import base64
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ludolf.tui.cells import cut, plain, unstyled
from ludolf.tui.keys import InputEvent, KeyPress

_Entry = dict[str, Any]
# Entries whose rows are made at once; more of them when the reader reaches the first.
_STEP = 200
_FOLDED_ROWS = 12
_MOST_COPIED = 75_000
_KEYS = "q back  / search  n N next  Enter fold  [ ] branches  y copy  arrows PgUp PgDn"


class PagedEntry(msgspec.Struct):
    """An entry and its rows; a long one is folded."""

    entry: _Entry
    rows: list[str]
    is_folded: bool

    def visible(self) -> list[str]:
        if not self.is_folded:
            return self.rows
        more = len(self.rows) - _FOLDED_ROWS
        return [*self.rows[:_FOLDED_ROWS], f"  ... {more} more rows (Enter)"]


class EntryTree:
    """The entries of all branches, in the order of the file."""

    def __init__(self, entries: Sequence[_Entry], leaf: str | None) -> None:
        self._by_id = {str(each.get("id")): each for each in entries}
        self._children: dict[str, list[str]] = {}
        for each in entries:
            self._children.setdefault(str(each.get("parentId")), []).append(str(each.get("id")))
        last = str(entries[-1].get("id")) if entries else None
        self.leaf = leaf if leaf in self._by_id else last

    def path(self) -> list[_Entry]:
        """Return the entries from the first one to the leaf."""
        path, at, seen = [], self.leaf, set[str]()
        while at is not None and at in self._by_id and at not in seen:
            seen.add(at)
            path.append(self._by_id[at])
            at = str(self._by_id[at].get("parentId"))
        return path[::-1]

    def siblings(self, id: str) -> list[str]:
        entry = self._by_id.get(id)
        return [] if entry is None else self._children[str(entry.get("parentId"))]

    def turn(self, id: str, direction: int) -> str | None:
        """Go to the next branch at the nearest fork above an entry; returns its first entry."""
        seen = set[str]()
        while id in self._by_id and id not in seen:
            seen.add(id)
            siblings = self.siblings(id)
            if len(siblings) > 1:
                chosen = siblings[(siblings.index(id) + direction) % len(siblings)]
                self.leaf = self._last_below(chosen)
                return chosen
            id = str(self._by_id[id].get("parentId"))
        return None

    def _last_below(self, id: str) -> str:
        seen = set[str]()
        while self._children.get(id) and id not in seen:
            seen.add(id)
            id = self._children[id][-1]
        return id


class Pager:
    """Shows a tree; keys move in it.

    Args:
        tree: The entries.
        render: Makes the rows of an entry, of a width.
        styled: Puts a role's style around a text.
        copy: Takes a text for the clipboard.
    """

    def __init__(
        self,
        tree: EntryTree,
        render: Callable[[_Entry, int], list[str]],
        styled: Callable[[str, str], str],
        copy: Callable[[str], None],
    ) -> None:
        self._tree = tree
        self._render = render
        self._styled = styled
        self._copy = copy
        self._cells, self._lines = 0, 24
        self._path: list[_Entry] = tree.path()
        self._first = len(self._path)
        self._shown: list[PagedEntry] = []
        self._rows: list[tuple[str, int]] = []
        self._top = 0
        self._at = 0
        self._query: str | None = None
        self._is_typing = False
        self._note = ""
        self._to_tool = False

    def at_last_tool(self) -> "Pager":
        """Open at the last result of a tool, unfolded."""
        self._to_tool = True
        return self

    # ------------------------------------------------------------ rows

    def rows(self, cells: int, lines: int) -> tuple[list[str], tuple[int, int] | None]:
        """Return all rows of the screen."""
        self._lines = max(3, lines)
        if cells != self._cells:
            self._cells = cells
            self._load_again()
        page = self._page
        self._at = max(0, min(self._at, len(self._rows) - 1))
        self._top = max(0, min(self._top, len(self._rows) - page, self._at))
        self._top = max(self._top, self._at - page + 1)
        body = [self._body_row(index) for index in range(self._top, self._top + page)]
        if self._is_typing:
            text = f"/{self._query}"
            return [*body, cut(text, cells)], (page, min(cells, len(text)))
        place = f"{self._at + 1}/{len(self._rows)}{'+' if self._first else ''}"
        foot = self._styled("muted", cut(f"{place}  {self._note or _KEYS}", cells))
        return [*body, foot], None

    @property
    def _page(self) -> int:
        return self._lines - 1

    def _body_row(self, index: int) -> str:
        if index >= len(self._rows):
            return ""
        row = self._rows[index][0]
        mark = ">" if index == self._at else " "
        if self._query and self._query.lower() in unstyled(row).lower():
            mark = "*" if index != self._at else ">"
        return cut(f"{self._styled('accent', mark) if mark != ' ' else ' '} {row}", self._cells)

    def _load_again(self) -> None:
        self._shown, self._first = [], len(self._path)
        self._load_more()
        self._at = len(self._rows) - 1
        if self._to_tool:
            self._to_tool = False
            self._go_to_tool()

    def _load_more(self) -> int:
        """Make rows of earlier entries; returns how many rows were added."""
        before = len(self._rows) if self._shown else 0
        first = max(0, self._first - _STEP)
        fresh = []
        for entry in self._path[first : self._first]:
            rows = self._render(entry, self._cells - 2)
            if rows:
                fresh.append(PagedEntry(entry, rows, len(rows) > 2 * _FOLDED_ROWS))
        self._shown, self._first = [*fresh, *self._shown], first
        self._lay_out()
        return len(self._rows) - before

    def _lay_out(self) -> None:
        self._rows = [
            (row, number) for number, each in enumerate(self._shown) for row in each.visible()
        ]

    def _go_to_tool(self) -> None:
        for number in reversed(range(len(self._shown))):
            message = self._shown[number].entry.get("message")
            if isinstance(message, dict) and message.get("role") in ("toolResult", "bashExecution"):
                self._shown[number].is_folded = False
                self._lay_out()
                self._at = self._top = self._start_of(number)
                return

    def _start_of(self, number: int) -> int:
        return next((n for n, (_, owner) in enumerate(self._rows) if owner == number), 0)

    # ------------------------------------------------------------ keys

    def handle(self, event: InputEvent) -> bool:
        """Obey a key; returns True when the pager closes."""
        if not isinstance(event, KeyPress):
            return False
        self._note = ""
        if self._is_typing:
            self._type(event)
            return False
        if event.name in ("q", "escape", "ctrl+c", "ctrl+o"):
            return True
        moves = {"up": -1, "k": -1, "down": 1, "j": 1, "space": self._page, "b": -self._page}
        moves |= {"pageup": -self._page, "pagedown": self._page, "ctrl+p": -1, "ctrl+n": 1}
        if event.name in moves:
            self._move(moves[event.name])
        else:
            self._act(event.name)
        return False

    def _act(self, name: str) -> None:
        match name:
            case "home" | "g":
                while self._first:
                    self._load_more()
                self._at = 0
            case "end" | "G":
                self._at = len(self._rows) - 1
            case "/":
                self._is_typing, self._query = True, ""
            case "n":
                self._find(1)
            case "N":
                self._find(-1)
            case "enter":
                self._fold()
            case "[" | "]":
                self._turn(-1 if name == "[" else 1)
            case "y":
                self._copy_entry()

    def _move(self, rows: int) -> None:
        if self._at + rows < 0 and self._first:
            self._at += self._load_more()
        self._at = max(0, min(len(self._rows) - 1, self._at + rows))
        if rows < 0:
            self._top = min(self._top, self._at)

    def _type(self, key: KeyPress) -> None:
        if key.name in ("escape", "ctrl+c"):
            self._is_typing, self._query = False, None
        elif key.name == "enter":
            self._is_typing = False
            self._find(-1)
        elif key.name == "backspace":
            self._query = (self._query or "")[:-1]
        elif key.text:
            self._query = (self._query or "") + key.text

    def _find(self, direction: int) -> None:
        """Go to the next row with the text; earlier entries are loaded as needed."""
        query = (self._query or "").lower()
        if not query:
            return
        while True:
            rows = range(self._at + direction, len(self._rows) if direction > 0 else -1, direction)
            found = next((n for n in rows if query in unstyled(self._rows[n][0]).lower()), None)
            if found is not None:
                self._at = found
                return
            if direction > 0 or not self._first:
                self._note = f"No more rows with {self._query}."
                return
            self._at += self._load_more()

    def _fold(self) -> None:
        if not self._rows:
            return
        number = self._rows[self._at][1]
        shown = self._shown[number]
        if len(shown.rows) > _FOLDED_ROWS:
            shown.is_folded = not shown.is_folded
            self._lay_out()
            self._at = self._start_of(number)

    def _turn(self, direction: int) -> None:
        if not self._rows:
            return
        id = str(self._shown[self._rows[self._at][1]].entry.get("id"))
        chosen = self._tree.turn(id, direction)
        if chosen is None:
            self._note = "There is one branch here."
            return
        self._path = self._tree.path()
        self._load_again()
        siblings = self._tree.siblings(chosen)
        self._note = f"Branch {siblings.index(chosen) + 1} of {len(siblings)}"
        for number, each in enumerate(self._shown):
            if str(each.entry.get("id")) == chosen:
                self._at = self._top = self._start_of(number)

    def _copy_entry(self) -> None:
        if self._rows:
            self._copy(entry_text(self._shown[self._rows[self._at][1]].entry))
            self._note = "Copied."


def entry_text(entry: _Entry) -> str:
    """Return the text of an entry, without thinking and without images."""
    message = entry.get("message")
    if not isinstance(message, dict):
        return str(entry.get("summary") or "")
    if message.get("role") == "bashExecution":
        return str(message.get("output") or "")
    content = message.get("content")
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = (each.get("text") for each in blocks if isinstance(each, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def clipboard_sequence(text: str) -> bytes:
    """Return the OSC 52 sequence that copies a text; terminals refuse longer ones."""
    data = plain(text).encode()[:_MOST_COPIED]
    return b"\x1b]52;c;" + base64.b64encode(data) + b"\x07"
