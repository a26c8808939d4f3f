"""Lay out a table in columns that fit the terminal; cells wrap inside their columns."""

from collections.abc import Sequence

from ludolf.page.blocks import Align
from ludolf.tui.cells import width, wrap
from ludolf.tui.theme import Theme, bold

_NARROWEST = 4
_BETWEEN = 3  # the cells of " │ "


class TableLayout:
    """The widths of the columns, decided by the head and the first rows."""

    def __init__(
        self,
        head: Sequence[str],
        aligns: Sequence[Align],
        rows: Sequence[Sequence[str]],
        cells: int,
        theme: Theme,
    ) -> None:
        """Take cells that are styled already; `rows` may be a part of the table."""
        self._head = [bold(cell) if cell else "" for cell in head]
        self._aligns = aligns
        self._cells = cells
        self._theme = theme
        self._widths = self._fitted(rows)

    def head(self) -> list[str]:
        """Return the head and the line below it."""
        if self._widths is None:
            return []
        line = "─┼─".join("─" * width for width in self._widths)
        return [*self.row(self._head), self._theme.paint("borderMuted", line)]

    def row(self, row: Sequence[str]) -> list[str]:
        """Return one row of the table."""
        if self._widths is None:
            return self._record(row)
        # Cells without a head are not shown, as on the page.
        columns = [wrap(cell, size) for cell, size in zip(row, self._widths, strict=False)]
        bar = self._theme.paint("borderMuted", "│")
        out = []
        for index in range(max(map(len, columns), default=0)):
            parts = [
                self._placed(lines[index] if index < len(lines) else "", place)
                for place, lines in enumerate(columns)
            ]
            out.append(f" {bar} ".join(parts).rstrip(" "))
        return out

    def _placed(self, text: str, place: int) -> str:
        widths = self._widths or ()
        room = max(0, widths[place] - width(text))
        match self._aligns[place]:
            case "right":
                return " " * room + text
            case "center":
                return " " * (room // 2) + text + " " * (room - room // 2)
            case _:
                return text + " " * room

    def _record(self, row: Sequence[str]) -> list[str]:
        """Return a row of a table with too many columns: one line for each cell, then a gap."""
        out = []
        for name, cell in zip(self._head, row, strict=False):
            out += wrap(f"{name}: {cell}" if name else cell, self._cells)
        return [*out, ""]

    def _fitted(self, rows: Sequence[Sequence[str]]) -> list[int] | None:
        """Return the widths of the columns; None if there is not enough room for them."""
        count = len(self._head)
        room = self._cells - _BETWEEN * (count - 1)
        if room < _NARROWEST * count:
            return None
        wanted = list(map(_widest, self._head))
        for row in rows:
            for place, cell in enumerate(row[:count]):
                wanted[place] = max(wanted[place], _widest(cell))
        return _shared_room(wanted, room)


def _widest(cell: str) -> int:
    return max(1, *map(width, cell.split("\n"))) if "\n" in cell else max(1, width(cell))


def _shared_room(wanted: list[int], room: int) -> list[int]:
    """Give narrow columns what they want; the others share the rest evenly."""
    widths = [0] * len(wanted)
    left = sorted(range(len(wanted)), key=lambda place: wanted[place])
    while left:
        place = left.pop(0)
        widths[place] = min(wanted[place], room // (len(left) + 1))
        room -= widths[place]
    return widths
