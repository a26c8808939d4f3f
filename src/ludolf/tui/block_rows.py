"""Render the blocks of a Markdown text as rows of a terminal."""

from collections.abc import Sequence

from ludolf.page.blocks import (
    CodeBlock,
    Heading,
    ListBlock,
    ListItem,
    MarkdownBlock,
    Paragraph,
    Quote,
    Rule,
    TableBlock,
)
from ludolf.page.inline import write_inline
from ludolf.tui.cells import RESET, plain, unstyled, width, wrap
from ludolf.tui.code import CodeColours
from ludolf.tui.table import TableLayout
from ludolf.tui.theme import Theme

# The widths of a table's columns are decided by its first rows, so that it can be shown.
TABLE_SAMPLE = 50
_NARROWEST = 8
_WIDEST_RULE = 60
_LONGEST_LINK = 2_000
_TAGS = {
    "em": ("\x1b[3m", "\x1b[23m"),
    "strong": ("\x1b[1m", "\x1b[22m"),
    "del": ("\x1b[9m", "\x1b[29m"),
}
_LINK_END = "\x1b]8;;\x1b\\"


class _StyledInline:
    """Write inline markup with SGR sequences; `base` is the style around it."""

    hard = "\n"
    tag_break = "\n"

    def __init__(self, theme: Theme, base: str, soft: str) -> None:
        self.soft = soft
        self._theme = theme
        self._base = base

    def text(self, text: str) -> str:
        return plain(text).replace("\n", " ")

    def code(self, text: str) -> str:
        return self._painted("mdCode", self.text(text))

    def opening(self, tag: str) -> str:
        return _TAGS[tag][0]

    def closing(self, tag: str) -> str:
        return _TAGS[tag][1] + self._base

    def link(self, url: str, inside: str) -> str:
        shown = self._painted("mdLink", f"\x1b[4m{inside}\x1b[24m")
        target = self.text(url)
        if self._theme.links and len(target) <= _LONGEST_LINK:
            return f"\x1b]8;;{target}\x1b\\{shown}{_LINK_END}"
        return shown + self._address(target, inside)

    def dead_link(self, url: str, inside: str) -> str:
        return inside + self._address(self.text(url[:300]), inside)

    def image(self, source: str, label: str) -> str:
        words = f"image {label}".rstrip()
        return self._painted("muted", f"[{self.text(words)}]")

    def remote_image(self, inside: str) -> str:
        return f"{self._painted('muted', '[image]')} {inside}"

    def _address(self, target: str, inside: str) -> str:
        if unstyled(inside) in (target, target.removeprefix("mailto:")):
            return ""
        return self._painted("mdLinkUrl", f" ({target})")

    def _painted(self, role: str, text: str) -> str:
        style = self._theme.style(role)
        return f"{style}{text}\x1b[39m{self._base}" if style else text


class BlockRows:
    """Renders blocks as rows."""

    def __init__(self, theme: Theme, *, breaks: bool = False) -> None:
        self._theme = theme
        self._soft = "\n" if breaks else " "

    def rows(
        self, blocks: Sequence[MarkdownBlock], cells: int, *, base: str = "", gaps: bool = True
    ) -> list[str]:
        """Render blocks, with a blank row between them unless `gaps` is False."""
        out: list[str] = []
        for block in blocks:
            if out and gaps:
                out.append("")
            out += self._block(block, cells, base)
        return out

    def inline(self, text: str, base: str = "") -> str:
        return write_inline(text, _StyledInline(self._theme, base, self._soft))

    def _block(self, block: MarkdownBlock, cells: int, base: str) -> list[str]:
        match block:
            case Paragraph():
                return self._wrapped(self.inline(block.text, base), cells, base)
            case Heading():
                return self._heading(block, cells)
            case CodeBlock():
                return self._code(block, cells)
            case Rule():
                return [self._theme.paint("mdHr", "─" * min(cells, _WIDEST_RULE))]
            case TableBlock():
                return self.table(block, self.layout(block, cells))
            case Quote():
                return self._quote(block, cells)
            case ListBlock():
                return self._list(block, cells, base)

    def _wrapped(self, text: str, cells: int, base: str) -> list[str]:
        end = RESET if base else ""
        return wrap(f"{base}{text}{end}", max(1, cells))

    def _heading(self, heading: Heading, cells: int) -> list[str]:
        base = f"{self._theme.style('mdHeading')}\x1b[1m"
        if heading.level == 1:
            base += "\x1b[4m"
        sign = f"{'#' * heading.level} " if heading.level > 2 else ""
        return self._wrapped(sign + self.inline(heading.text, base), cells, base)

    def _code(self, block: CodeBlock, cells: int) -> list[str]:
        fence = FenceRows(block.language, self._theme)
        inside = [row for line in block.text.split("\n") for row in fence.line(line, cells)]
        return [fence.edge(cells, opens=True), *inside, fence.edge(cells)]

    def layout(self, table: TableBlock, cells: int) -> TableLayout:
        """Lay out a table by its head and its first rows."""
        head = [self._cell(cell) for cell in table.head]
        sample = [list(map(self._cell, row[: len(head)])) for row in table.rows[:TABLE_SAMPLE]]
        return TableLayout(head, table.aligns, sample, cells, self._theme)

    def table(self, table: TableBlock, layout: TableLayout) -> list[str]:
        """Render the head and the rows of a table."""
        rows = (row for each in table.rows for row in self.row(layout, each))
        return [*layout.head(), *rows]

    def row(self, layout: TableLayout, row: Sequence[str]) -> list[str]:
        """Render one row of a table."""
        return layout.row(list(map(self._cell, row)))

    def _cell(self, text: str) -> str:
        return write_inline(text, _StyledInline(self._theme, "", " "))

    def _quote(self, quote: Quote, cells: int) -> list[str]:
        if cells < _NARROWEST:
            return self.rows(quote.blocks, cells)
        bar = self._theme.paint("mdQuoteBorder", "│")
        inside = self.rows(quote.blocks, cells - 2, base=self._theme.style("mdQuote"))
        return [f"{bar} {row}".rstrip(" ") for row in inside]

    def _list(self, block: ListBlock, cells: int, base: str) -> list[str]:
        out: list[str] = []
        for index, item in enumerate(block.items):
            if out and block.loose:
                out.append("")
            sign = "•" if block.number is None else f"{block.number + index}."
            out += self._item(item, sign, cells, base, block.loose)
        return out

    def _item(self, item: ListItem, sign: str, cells: int, base: str, gaps: bool) -> list[str]:
        if item.done is not None:
            box = "☑" if item.done else "☐"
            sign = box if sign == "•" else f"{sign} {box}"
        hang = width(sign) + 1
        marker = self._theme.paint("mdListBullet", sign)
        if cells - hang < _NARROWEST:
            return [marker, *self.rows(item.blocks, cells, base=base, gaps=gaps)]
        inside = self.rows(item.blocks, cells - hang, base=base, gaps=gaps) or [""]
        rest = (f"{' ' * hang}{row}" if row else "" for row in inside[1:])
        return [f"{marker} {inside[0]}".rstrip(" "), *rest]


class FenceRows:
    """Renders the lines of a code block, one by one."""

    def __init__(self, language: str, theme: Theme) -> None:
        self._language = plain(language[:40])
        self._theme = theme
        self._colours = CodeColours(language, theme)

    def edge(self, cells: int, *, opens: bool = False) -> str:
        """Return the row above or below the code."""
        sign = f"```{self._language}" if opens else "```"
        return self._theme.paint("mdCodeBlockBorder", wrap(sign, max(1, cells), words=False)[0])

    def line(self, line: str, cells: int) -> list[str]:
        return self._wrapped(self._colours.line(line), cells)

    def preview(self, line: str, cells: int) -> list[str]:
        """Return the rows of a line that is not complete."""
        return self._wrapped(self._colours.preview(line), cells)

    def _wrapped(self, shown: str, cells: int) -> list[str]:
        indent = "  " if cells >= _NARROWEST else ""
        rows = wrap(shown, max(1, cells - len(indent)), words=False)
        return [f"{indent}{row}" if row else "" for row in rows]
