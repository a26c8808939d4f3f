"""Draw inline: finished rows go into the scrollback once, a live area below them is redrawn.

A draw is one write. It uses relative moves only, never clears from the top left corner of the
screen, and never touches a row that is finished.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ludolf.tui.cells import RESET, cut, reflowed

HIDE = "\x1b[?25l"
SHOW = "\x1b[?25h"
BEGIN = "\x1b[?2026h"
END = "\x1b[?2026l"
_CLEAR_ROW = "\x1b[2K"
_CLEAR_BELOW = "\x1b[J"

Cursor = tuple[int, int] | None
WriteBytes = Callable[[bytes], object]
ReadSize = Callable[[], tuple[int, int]]


class LiveScreen:
    """The finished rows that wait and the live area.

    Args:
        write: Writes all bytes to the terminal.
        size: Returns columns and lines of the terminal.
        encoding: Characters that it does not have are written as `?`.

    Attributes:
        reflows: Whether the terminal wraps rows again when its width changes. xterm does not.
    """

    def __init__(self, write: WriteBytes, size: ReadSize, encoding: str = "utf-8") -> None:
        self.reflows = True
        self._write = write
        self._read_size = size
        self._encoding = encoding
        self._size = size()
        self._waiting: list[str] = []
        self._rows: list[str] = []
        self._cursor: Cursor = None
        self._drawn: list[str] = []
        self._at = (0, 0)  # row in the drawn area, and column
        self._shown = True  # the terminal shows its cursor
        self._stale = False  # the terminal may have changed the drawn rows
        self._away = False  # suspended, closed, or on the alternate screen

    @property
    def cells(self) -> int:
        """The cells of the widest row."""
        return max(1, self._read_size()[0] - 1)

    @property
    def most_rows(self) -> int:
        """The rows of the tallest live area."""
        lines = self._read_size()[1]
        return max(1, min(lines, max(2, lines // 2)))

    def print(self, rows: Sequence[str]) -> None:
        """Queue finished rows, which go out with the next draw."""
        self._waiting.extend(rows)

    def show(self, rows: Sequence[str], cursor: Cursor = None) -> None:
        """Set the live area and the place of the cursor in it: row and column, or hidden."""
        self._rows = list(rows)
        self._cursor = cursor

    def resized(self) -> None:
        """Draw the whole live area with the next draw: the size of the terminal has changed."""
        self._stale = True

    def draw(self) -> None:
        """Write what has changed."""
        if self._away:
            return
        size = self._read_size()
        rows, cursor = self._fitting()
        start = self._to_the_top(size) if self._stale or size != self._size else ""
        self._size, self._stale = size, False
        finished = [self._fit(row) for row in self._waiting]
        self._waiting.clear()
        if start or finished or rows != self._drawn:
            self._send(BEGIN + HIDE + start + self._paint(finished, rows), cursor, END)
        elif cursor != (self._at if self._shown else None):
            self._send("", cursor, "")

    def suspend(self) -> None:
        """Write the finished rows, remove the live area and show the cursor; draw no more."""
        if self._away:
            return
        rows, self._rows = self._rows, []
        self.draw()
        self._rows = rows
        self._write((RESET + SHOW).encode())
        self._shown = True
        self._away = True

    def resume(self) -> None:
        """Draw again, from the row where the cursor is."""
        self._away = False
        self._drawn, self._at = [], (0, 0)
        self._shown = True

    def close(self) -> None:
        """Leave the terminal as `suspend` does, for good."""
        self.suspend()

    @contextmanager
    def alternate(self) -> Iterator["AlternateScreen"]:
        """Switch to the alternate screen while a pager or a picker is open."""
        self._away = True
        self._write(f"\x1b[?1049h{HIDE}".encode())
        try:
            yield AlternateScreen(self._write, self._read_size, self._encoding)
        finally:
            self._write(f"{RESET}\x1b[?1049l{SHOW}".encode())
            self._away = False
            self._shown = True
            self._stale = True

    def _fit(self, row: str) -> str:
        return cut(row, self.cells)

    def _fitting(self) -> tuple[list[str], Cursor]:
        """Return the live rows that fit, the last ones, and the cursor among them."""
        above = max(0, len(self._rows) - self.most_rows)
        if self._cursor and self._cursor[0] < above:
            above = max(0, self._cursor[0])
        rows = [self._fit(row) for row in self._rows[above : above + self.most_rows]]
        if not self._cursor:
            return rows, None
        row, column = self._cursor[0] - above, min(self._cursor[1], self.cells)
        return rows, (row, max(0, column)) if 0 <= row < len(rows) else None

    def _to_the_top(self, size: tuple[int, int]) -> str:
        """Return what clears the drawn area, whose rows the terminal may have wrapped again."""
        row, column = self._at
        heights = [reflowed(each, size[0]) if self.reflows else 1 for each in self._drawn]
        above = sum(heights[:row])
        if self._drawn and self.reflows:
            above += min(column // size[0], heights[row] - 1)
        self._at = (0, 0)
        self._drawn = []
        below = f"\r\n{_CLEAR_BELOW}{_up(1)}" if sum(heights) > 1 else ""
        return f"\r{_up(above)}{_CLEAR_ROW}{below}"

    def _paint(self, finished: list[str], rows: list[str]) -> str:
        """Return what brings the rows to the screen; the cursor is then on the last one."""
        old = self._drawn
        out = ["\r", _up(self._at[0])]
        out += [f"{_drawn_row(row)}\r\n" for row in finished]
        lines: list[str] = []
        for number, row in enumerate(rows, len(finished)):
            same = number < len(old) and old[number] == row
            lines.append("" if same else _drawn_row(row))
        out.append("\r\n".join(lines))
        end = len(finished) + max(1, len(rows))
        if not rows and (old or finished):
            out.append(_CLEAR_ROW)
        if len(old) > end:
            out.append(f"\r\n{_CLEAR_BELOW}{_up(1)}")
        self._drawn = rows
        self._at = (max(0, len(rows) - 1), -1)
        return "".join(out)

    def _send(self, text: str, cursor: Cursor, end: str) -> None:
        """Write the text and what moves the cursor to its place."""
        row, column = cursor or (max(0, len(self._drawn) - 1), 0)
        text += _up(self._at[0] - row) + _down(row - self._at[0]) + "\r" + _right(column)
        if end:
            text += SHOW if cursor else ""
        elif self._shown != (cursor is not None):
            text += SHOW if cursor else HIDE
        self._at = (row, column)
        self._shown = cursor is not None
        self._write((text + end).encode(self._encoding, "replace"))


class AlternateScreen:
    """The whole screen of a pager or a picker."""

    def __init__(self, write: WriteBytes, size: ReadSize, encoding: str) -> None:
        self._write = write
        self._size = size
        self._encoding = encoding
        self._drawn: list[str] = []
        self._drawn_size = (0, 0)

    @property
    def size(self) -> tuple[int, int]:
        """The cells of the widest row, and the number of rows."""
        columns, lines = self._size()
        return max(1, columns - 1), lines

    def draw(self, rows: Sequence[str], cursor: Cursor = None) -> None:
        """Write the rows that have changed."""
        cells, lines = self.size
        if self._drawn_size != (cells, lines):
            self._drawn, self._drawn_size = [], (cells, lines)
        wanted = [cut(row, cells) for row in rows[:lines]]
        wanted += [""] * (lines - len(wanted))
        old: Sequence[str | None] = self._drawn or [None] * lines
        out = [
            f"\x1b[{number + 1};1H{_drawn_row(row)}"
            for number, row in enumerate(wanted)
            if row != old[number]
        ]
        self._drawn = wanted
        place = f"\x1b[{cursor[0] + 1};{cursor[1] + 1}H{SHOW}" if cursor else ""
        text = BEGIN + HIDE + "".join(out) + place + END
        self._write(text.encode(self._encoding, "replace"))


def _drawn_row(row: str) -> str:
    """Return what replaces the row of the cursor, which is at its start.

    It is cleared first and as a whole: tmux would else remember its former width, and wrap it by
    that when its own width changes.
    """
    return f"{_CLEAR_ROW}{row}{RESET}" if "\x1b" in row else _CLEAR_ROW + row


def _up(rows: int) -> str:
    return f"\x1b[{rows}A" if rows > 0 else ""


def _down(rows: int) -> str:
    return f"\x1b[{rows}B" if rows > 0 else ""


def _right(columns: int) -> str:
    return f"\x1b[{columns}C" if columns > 0 else ""
