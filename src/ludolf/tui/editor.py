"""The editor of prompts: keys change a text of several lines, which is shown in wrapped rows."""

import re
from collections.abc import Callable

from ludolf.base.visible import show_hidden
from ludolf.tui.bindings import Bindings
from ludolf.tui.cells import TAB_CELLS, cluster_width, clusters, width
from ludolf.tui.edited_text import MARKER, EditedText, typed_text
from ludolf.tui.keys import InputEvent, KeyPress, Paste

LONG_PASTE_LINES = 10
LONG_PASTE_LETTERS = 1000
# Controls that reorder or hide text, which is then not what is seen.
_REORDERS = re.compile(
    r"[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)

_Span = tuple[int, int]


class LineEditor:
    """A text with a cursor that keys change.

    Args:
        bindings: The keys of its actions, named `tui.editor.…` and `tui.input.…`.
    """

    def __init__(self, bindings: Bindings | None = None) -> None:
        self._bindings = bindings or Bindings()
        self._edited = EditedText()
        self._cells = 80
        self._most = 10
        self._top = 0  # first visible row
        self._goal: int | None = None  # column that moves up and down keep
        self._jump = 0  # the next letter is where to jump, forward or backward
        self._pasted = 0
        self._laid_out: tuple[str, int, list[_Span]] = ("", 80, [(0, 0)])
        self._moves = self._actions()

    @property
    def text(self) -> str:
        """The text as it is shown, with markers for long pastes."""
        return self._edited.text

    @text.setter
    def text(self, new: str) -> None:
        self._edited.replace(0, len(self._edited.text), typed_text(new))
        self._goal = None

    @property
    def cursor(self) -> int:
        """The index of the cursor in the text."""
        return self._edited.cursor

    @cursor.setter
    def cursor(self, index: int) -> None:
        self._edited.settle()
        self._edited.cursor = max(0, min(len(self.text), index))
        self._goal = None

    def replace(self, start: int, end: int, new: str) -> None:
        """Put a text in place of a range, for a completion; the cursor moves behind it."""
        self._edited.replace(start, end, typed_text(new))
        self._goal = None

    def insert(self, text: str) -> None:
        """Insert a text at the cursor, as one step of undo."""
        self.replace(self.cursor, self.cursor, text)

    def paste(self, text: str) -> None:
        """Insert a text; a long one as a marker such as `[paste 1: 240 lines]`."""
        text = typed_text(text)
        lines = text.rstrip("\n").count("\n") + 1
        if lines <= LONG_PASTE_LINES and len(text) <= LONG_PASTE_LETTERS:
            self.insert(text)
            return
        self._pasted += 1
        self._edited.pastes[self._pasted] = text
        size = f"{lines} lines" if lines > LONG_PASTE_LINES else f"{len(text)} letters"
        self.insert(f"[paste {self._pasted}: {size}]")

    def expanded(self) -> str:
        """Return the text with the pastes in place of their markers."""
        pastes = self._edited.pastes
        return MARKER.sub(lambda match: pastes.get(int(match[1]), match[0]), self.text)

    def take(self) -> str:
        """Return the expanded text and empty the editor, also of what can be undone."""
        text = self.expanded()
        self._edited.forget()
        self._pasted, self._goal, self._jump, self._top = 0, None, 0, 0
        return text

    def handle(self, event: InputEvent) -> bool:
        """Obey a key or a paste, and return whether it was for the editor.

        Keys that would leave the text are not: up in the first row, down in the last one, delete
        in an empty text, the page keys while all rows are visible. So is the key that submits,
        unless a backslash stands before the cursor: it then becomes a line feed.
        """
        if isinstance(event, Paste):
            self.paste(event.text)
            return True
        if not isinstance(event, KeyPress):
            return False
        if self._jump:
            direction, self._jump = self._jump, 0
            if event.text:
                self._jump_to(event.text, direction)
                return True
        return self._obey(event)

    def _obey(self, key: KeyPress) -> bool:
        action = self._bindings.action(key, "tui.editor.")
        move = self._moves.get(action or "")
        if move is not None:
            if action not in ("tui.editor.cursorUp", "tui.editor.cursorDown"):
                self._goal = None
            return move() is not False
        if self._bindings.matches(key, "tui.input.newLine"):
            self.insert("\n")
            return True
        if self._bindings.matches(key, "tui.input.submit"):
            return self._continue_line()
        if key.text:
            self._edited.type(key.text)
            self._goal = None
        return bool(key.text)

    def _actions(self) -> dict[str, Callable[[], object]]:
        edited = self._edited
        table: dict[str, Callable[[], object]] = {
            "cursorUp": lambda: self._move_rows(-1),
            "cursorDown": lambda: self._move_rows(1),
            "cursorLeft": lambda: self._move(edited.before(edited.cursor)),
            "cursorRight": lambda: self._move(edited.after(edited.cursor)),
            "cursorWordLeft": lambda: self._move(edited.word_before(edited.cursor)),
            "cursorWordRight": lambda: self._move(edited.word_after(edited.cursor)),
            "cursorLineStart": lambda: self._move(self._line()[0]),
            "cursorLineEnd": lambda: self._move(self._line()[1]),
            "jumpForward": lambda: self._await_jump(1),
            "jumpBackward": lambda: self._await_jump(-1),
            "pageUp": lambda: self._move_page(-1),
            "pageDown": lambda: self._move_page(1),
            "deleteCharBackward": lambda: self._delete(edited.before(edited.cursor)),
            "deleteCharForward": self._delete_forward,
            "deleteWordBackward": lambda: self._kill(edited.word_before(edited.cursor)),
            "deleteWordForward": lambda: self._kill(edited.word_after(edited.cursor)),
            "deleteToLineStart": self._kill_line_start,
            "deleteToLineEnd": self._kill_line_end,
            "yank": edited.yank,
            "yankPop": edited.yank_earlier,
            "undo": edited.undo,
        }
        return {f"tui.editor.{name}": move for name, move in table.items()}

    def _move(self, index: int) -> None:
        self._edited.settle()
        self._edited.cursor = index

    def _line(self) -> _Span:
        """Return start and end of the line of the cursor."""
        end = self.text.find("\n", self.cursor)
        return self.text.rfind("\n", 0, self.cursor) + 1, len(self.text) if end < 0 else end

    def _delete(self, other: int) -> None:
        start, end = sorted((self.cursor, other))
        if start != end:
            self._edited.replace(start, end, "")

    def _delete_forward(self) -> bool:
        if self.text:
            self._delete(self._edited.after(self.cursor))
        return bool(self.text) or self.cursor > 0

    def _kill(self, other: int) -> None:
        start, end = sorted((self.cursor, other))
        self._edited.kill(start, end)

    def _kill_line_start(self) -> None:
        start = self._line()[0]
        self._kill(start if start < self.cursor else self._edited.before(self.cursor))

    def _kill_line_end(self) -> None:
        end = self._line()[1]
        self._kill(end if end > self.cursor else self._edited.after(self.cursor))

    def _continue_line(self) -> bool:
        at = self.cursor
        if not self.text.endswith("\\", 0, at):
            return False
        self._edited.replace(at - 1, at, "\n")
        return True

    def _await_jump(self, direction: int) -> None:
        self._jump = direction

    def _jump_to(self, text: str, direction: int) -> None:
        if direction > 0:
            found = self.text.find(text, self._edited.after(self.cursor))
        else:
            found = self.text.rfind(text, 0, self.cursor)
        if found >= 0:
            self._move(found)

    def _move_page(self, direction: int) -> bool:
        if len(self._spans()) <= self._most:
            return False
        for _ in range(self._most):
            self._move_rows(direction)
        return True

    def _move_rows(self, direction: int) -> bool:
        """Move to the row above or below, as near as possible to the column of the first move."""
        spans = self._spans()
        row, column = self._place(spans)
        if not 0 <= row + direction < len(spans):
            return False
        if self._goal is None:
            self._goal = column
        start, end = spans[row + direction]
        is_wrapped = end < len(self.text) and self.text[end] != "\n"
        index, cells = start, 0
        while index < end:
            following = self._edited.after(index)
            cells += width(_shown(self.text[index:following]))
            if cells > self._goal or (is_wrapped and following >= end):
                break
            index = following
        self._move(index)
        return True

    def rows(self, cells: int, most: int = 10) -> tuple[list[str], tuple[int, int]]:
        """Return the visible rows, and row and column of the cursor in them.

        Args:
            cells: The cells of a row. The cursor may stand one cell behind it.
            most: The number of rows; the others are scrolled away.
        """
        self._cells, self._most = max(2, cells), max(1, most)
        spans = self._spans()
        row, column = self._place(spans)
        self._top = max(row - self._most + 1, min(self._top, row, len(spans) - 1))
        self._top = min(self._top, max(0, len(spans) - self._most))
        visible = spans[self._top : self._top + self._most]
        return [_shown(self.text[start:end]) for start, end in visible], (row - self._top, column)

    def _place(self, spans: list[_Span]) -> tuple[int, int]:
        row = len(spans) - 1
        while row and spans[row][0] > self.cursor:
            row -= 1
        return row, width(_shown(self.text[spans[row][0] : self.cursor]))

    def _spans(self) -> list[_Span]:
        """Return start and end of each row."""
        text, cells, spans = self._laid_out
        if text is not self.text or cells != self._cells:
            text, spans, at = self.text, [], 0
            for line in text.split("\n"):
                spans += _wrapped(line, at, self._cells)
                at += len(line) + 1
            self._laid_out = (text, self._cells, spans)
        return spans


def _shown(text: str) -> str:
    """Return how a piece of the text is drawn."""
    if "\t" in text:
        text = text.replace("\t", " " * TAB_CELLS)
    if not text.isascii() and _REORDERS.search(text):
        return _REORDERS.sub(lambda match: show_hidden(match[0]), text)
    return text


def _wrapped(line: str, at: int, cells: int) -> list[_Span]:
    """Return the rows of one line, which breaks after spaces where possible."""
    if line.isascii() and len(line) <= cells and "\t" not in line:
        return [(at, at + len(line))]
    spans: list[_Span] = []
    start = index = at
    space = used = 0  # index behind the last space of the row, and the row's cells
    for cluster in clusters(line):
        size = cluster_width(_shown(cluster))
        while used + size > cells and index > start:
            end = space if space > start and cluster != " " else index
            spans.append((start, end))
            start, space = end, 0
            used = width(_shown(line[start - at : index - at]))
        index += len(cluster)
        used += size
        if cluster == " ":
            space = index
    spans.append((start, index))
    return spans
