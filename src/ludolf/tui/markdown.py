"""Render Markdown as rows of a terminal: a whole text, or an answer that is being written."""

from ludolf.page.blocks import BlockScanner, TableBlock, parse_lines, table_cells
from ludolf.page.text import with_plain_ends
from ludolf.tui.block_rows import TABLE_SAMPLE, BlockRows, FenceRows
from ludolf.tui.cells import plain
from ludolf.tui.table import TableLayout
from ludolf.tui.theme import Theme


def markdown_rows(text: str, cells: int, theme: Theme, *, breaks: bool = False) -> list[str]:
    """Render a text as rows of at most `cells` cells; `breaks` keeps line ends in paragraphs."""
    stream = AnswerStream(cells, theme, breaks=breaks)
    return [*stream.feed(text), *stream.end()]


class AnswerStream:
    """Renders an answer as it arrives; rows that it has returned never change.

    A block is finished when the next one starts, lines of code one by one, a table at its end or
    after 50 rows. Any division of a text into deltas gives the same rows. The cost of a delta does
    not depend on the length of the answer. `cells` may change while the answer arrives.
    """

    def __init__(self, cells: int, theme: Theme, *, breaks: bool = False) -> None:
        self.cells = cells
        self._theme = theme
        self._blocks = BlockRows(theme, breaks=breaks)
        self._scanner = BlockScanner()
        self._pending: list[str] = []  # pieces of the line that is not complete
        self._return = False  # a carriage return that a line feed may follow
        self._open: list[str] = []  # lines of the block that is not complete
        self._fence: FenceRows | None = None
        self._layout: TableLayout | None = None
        self._started = False

    def feed(self, delta: str) -> list[str]:
        """Take the next piece of the text; return the rows that it finishes."""
        text = f"\r{delta}" if self._return else delta
        self._return = text.endswith("\r")
        first, *more = with_plain_ends(text.removesuffix("\r")).split("\n")
        self._pending.append(first)
        out: list[str] = []
        for rest in more:
            out += self._take(plain("".join(self._pending)))
            self._pending = [rest]
        return out

    def end(self) -> list[str]:
        """Return the rows of everything that is not finished."""
        last = plain("".join(self._pending))
        self._pending = []
        out = self._take(last) if last else []
        out += self._finish()
        if self._fence is not None:
            out.append(self._fence.edge(self.cells))
            self._fence = None
        return out

    def open_rows(self, most: int) -> list[str]:
        """Return the last rows of the block that is not finished, as it is now."""
        if most <= 0:
            return []
        if self._fence is not None:
            line = plain(self._pending_tail(most * self.cells))
            if not line.strip("`~ "):
                return []
            return self._fence.preview(self._scanner.fence_text(line), self.cells)[-most:]
        if self._layout is not None:
            return []
        rows = self._blocks.rows(parse_lines(self._tail(most)), self.cells)
        return [*([""] if rows and self._started else []), *rows][-most:]

    def _take(self, line: str) -> list[str]:
        """Take a complete line."""
        if self._scanner.take(line):
            out = self._finish()
            if self._scanner.kind == "fence":
                self._fence = FenceRows(self._scanner.language, self._theme)
                return [*out, *self._gap(), self._fence.edge(self.cells, opens=True)]
            if self._scanner.kind:
                self._open.append(line)
        elif self._fence is not None:
            return self._take_code(self._fence, line)
        elif self._layout is not None:
            return self._blocks.row(self._layout, table_cells(line))
        else:
            out = []
            self._open.append(line)
        if self._scanner.kind == "done":
            out += self._finish()
        elif self._scanner.kind == "table" and len(self._open) == TABLE_SAMPLE + 2:
            out += self._begin_table()
        return out

    def _take_code(self, fence: FenceRows, line: str) -> list[str]:
        if self._scanner.kind == "done":
            self._fence = None
            return [fence.edge(self.cells)]
        return fence.line(self._scanner.fence_text(line), self.cells)

    def _begin_table(self) -> list[str]:
        """Return the first rows of a long table, which decide the widths of its columns."""
        table = parse_lines(self._open)[0]
        assert isinstance(table, TableBlock)
        self._open = []
        self._layout = self._blocks.layout(table, self.cells)
        return [*self._gap(), *self._blocks.table(table, self._layout)]

    def _finish(self) -> list[str]:
        """Return the rows of the complete block."""
        lines, self._open, self._layout = self._open, [], None
        rows = self._blocks.rows(parse_lines(lines), self.cells) if lines else []
        return [*self._gap(), *rows] if rows else []

    def _gap(self) -> list[str]:
        gap = [""] if self._started else []
        self._started = True
        return gap

    def _tail(self, most: int) -> list[str]:
        """Return the last lines of the open block: enough for so many rows."""
        room = most * self.cells
        lines = [plain(self._pending_tail(room))]
        if self._scanner.kind == "table":
            return [*self._open, *lines]
        for line in reversed(self._open):
            if len(lines) > most or room <= 0:
                break
            lines.append(line[-room:])
            room -= len(line)
        lines.reverse()
        return lines if len(lines) > len(self._open) else _without_indent(lines)

    def _pending_tail(self, room: int) -> str:
        """Return the end of the line that is not complete."""
        pieces: list[str] = []
        for piece in reversed(self._pending):
            if room <= 0:
                break
            pieces.append(piece[-room:])
            room -= len(piece)
        return "".join(reversed(pieces))


def _without_indent(lines: list[str]) -> list[str]:
    """Return lines from the middle of a list such that they do not look like indented code."""
    indents = [len(line) - len(line.lstrip(" ")) for line in lines]
    least = min((indent for indent, line in zip(indents, lines, strict=True) if line), default=0)
    start = next((place for place, indent in enumerate(indents) if indent - least < 4), 0)
    return [line[least:] for line in lines[start:]]
