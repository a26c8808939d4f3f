"""Parse Markdown into blocks in linear time, for the page and for terminals.

Supported: headings, paragraphs, lists with tasks, quotes, fenced and indented code, tables, rules.
Not supported: reference links, footnotes, HTML blocks.
"""

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from ludolf.base.patterns import lazy_pattern
from ludolf.page.text import with_plain_ends

Align = Literal["", "center", "right"]


class Paragraph(msgspec.Struct, gc=False):
    """Text with inline markup; in a tight list it is not separated from its neighbours."""

    text: str
    tight: bool = False


class Heading(msgspec.Struct, gc=False):
    level: int
    text: str


class CodeBlock(msgspec.Struct, gc=False):
    text: str
    language: str


class Rule(msgspec.Struct, gc=False):
    pass


class TableBlock(msgspec.Struct):
    """Cells with inline markup; rows may be shorter or longer than the head."""

    head: list[str]
    aligns: list[Align]
    rows: list[list[str]]


class Quote(msgspec.Struct):
    blocks: "list[MarkdownBlock]"


class ListItem(msgspec.Struct):
    """One item; `done` is None if it is not a task."""

    blocks: "list[MarkdownBlock]"
    done: bool | None = None


class ListBlock(msgspec.Struct):
    """`number` is the first number of an ordered list."""

    items: list[ListItem]
    number: int | None
    loose: bool


MarkdownBlock = Paragraph | Heading | CodeBlock | Rule | TableBlock | Quote | ListBlock

# Maximum nesting. Each level copies its lines once, so this bounds the work per line.
_DEEPEST = 12
_FENCE = lazy_pattern(r"(`{3,}|~{3,})[ \t]*([^`\n]*)\Z")
_HEADING = lazy_pattern(r"(#{1,6})(?:[ \t]+(.*))?\Z", re.DOTALL)
_MARKER = lazy_pattern(r"([-*+]|[0-9]{1,9}[.)])(?:( {1,4})(?! )| )?")
_TASK = lazy_pattern(r"\[([ xX])\] ")
_ALIGN = lazy_pattern(r":?-+:?\Z")
# First characters of lines that end or underline the paragraph before them.
_ENDINGS = frozenset("`~#>-*+_=0123456789")
# A line end that a text of plain paragraphs does not have: after two spaces, after white space of
# another kind, before an indented line, or before one of these characters.
_ODD_LINE_END = lazy_pattern(
    r"\n(?:(?<=  \n)|(?<=[^\S\n ]\n)|(?<=[^\S\n ] \n)| {4}| {0,3}[`~#>\-*+_=0-9])"
)
_SETEXT = lazy_pattern(r"(=+|-+)[ \t]*\Z")


def parse_markdown(text: str) -> list[MarkdownBlock]:
    """Parse a text into its blocks."""
    text = with_plain_ends(text)
    # A line end resets the column, so that one call expands the tabs of all lines.
    text = text.expandtabs(4) if "\t" in text else text
    paragraphs = _plain_paragraphs(text)
    return parse_lines(text.split("\n")) if paragraphs is None else paragraphs


def parse_lines(lines: list[str]) -> list[MarkdownBlock]:
    """Parse lines without line ends and tabs into blocks."""
    return _Blocks(lines).parse()


def _plain_paragraphs(text: str) -> "list[MarkdownBlock] | None":
    """Return the paragraphs of a text that has only paragraphs without hard line breaks.

    None if another block could start in it. Most texts need no more than this. One search finds
    such lines, since a step for each line would take most of the time.
    """
    if text.lstrip(" ")[:1] in _ENDINGS or text.startswith("    ") or text.endswith("  "):
        return None
    if "\n" not in text:
        line = text.rstrip().lstrip(" ")
        return [Paragraph(line.removesuffix("\\"))] if line else []
    if "|" in text or _ODD_LINE_END.search(text):
        return None
    lines = [line.strip(" ") for line in text.rstrip().split("\n")]
    parts = ["\n".join(lines)]
    if "" in lines:
        parts = [part.strip("\n") for part in parts[0].split("\n\n")]
    return [Paragraph(part.removesuffix("\\")) for part in parts if part]


class _Blocks:
    """The blocks of one container: the text itself, a quote or a list item."""

    def __init__(self, lines: list[str], *, depth: int = 0, tight: bool = False) -> None:
        self._lines = lines
        self._depth = depth
        self._tight = tight
        self._at = 0
        self._out: list[MarkdownBlock] = []

    def parse(self) -> list[MarkdownBlock]:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            bare = line.lstrip(" ")
            if not bare.strip():
                self._at += 1
            elif len(line) - len(bare) >= 4:
                self._indented()
            else:
                self._block(bare)
        return self._out

    def _block(self, bare: str) -> None:
        for kind in _BLOCKS.get(bare[0], _DIGIT if bare[0].isdigit() else ()):
            if kind(self, bare):
                return
        if not self._table(bare):
            self._paragraph()

    # ------------------------------------------------------------ leaves

    def _indented(self) -> None:
        taken: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and not line.startswith("    "):
                break
            taken.append(line[4:])
            self._at += 1
        self._out.append(CodeBlock("\n".join(taken).strip("\n"), ""))

    def _fence(self, bare: str) -> bool:
        opening = _FENCE.match(bare)
        if opening is None:
            return False
        indent = len(self._lines[self._at]) - len(bare)
        mark = opening[1]
        taken: list[str] = []
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at]
            self._at += 1
            if _closes(line, mark):
                break
            taken.append(line[min(indent, len(line) - len(line.lstrip(" "))) :])
        language = opening[2].strip().partition(" ")[0]
        self._out.append(CodeBlock("\n".join(taken), language))
        return True

    def _heading(self, bare: str) -> bool:
        heading = _HEADING.match(bare.rstrip())
        if heading is None:
            return False
        self._add_heading(len(heading[1]), (heading[2] or "").rstrip("#").rstrip())
        self._at += 1
        return True

    def _add_heading(self, level: int, text: str) -> None:
        self._out.append(Heading(level, text))

    def _rule(self, bare: str) -> bool:
        if not _is_rule(bare):
            return False
        self._out.append(Rule())
        self._at += 1
        return True

    def _table(self, bare: str) -> bool:
        if "|" not in bare or self._at + 1 >= len(self._lines):
            return False
        below = self._lines[self._at + 1]
        if not _heads_table(bare, below):
            return False
        self._at += 2
        rows: list[list[str]] = []
        while self._at < len(self._lines) and "|" in self._lines[self._at]:
            rows.append(table_cells(self._lines[self._at]))
            self._at += 1
        aligns = [_align(cell) for cell in table_cells(below)]
        self._out.append(TableBlock(table_cells(bare), aligns, rows))
        return True

    def _paragraph(self) -> None:
        taken: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            bare = line.lstrip(" ")
            if not bare.strip():
                break
            if taken and bare[0] in _ENDINGS and len(line) - len(bare) < 4:
                if _SETEXT.match(bare):
                    self._at += 1
                    self._add_heading(1 if bare[0] == "=" else 2, "\n".join(taken))
                    return
                if _interrupts(bare):
                    break
            hard = line.endswith("  ")
            taken.append(f"{bare.rstrip()}\\" if hard else bare.rstrip())
            self._at += 1
        self._out.append(Paragraph("\n".join(taken).removesuffix("\\"), self._tight))

    # ------------------------------------------------------------ containers

    def _quote(self, _bare: str) -> bool:
        if self._depth >= _DEEPEST:
            return False
        inner: list[str] = []
        while self._at < len(self._lines):
            bare = self._lines[self._at].lstrip(" ")
            if bare.startswith(">"):
                inner.append(bare[2:] if bare.startswith("> ") else bare[1:])
            elif not bare.strip() or _interrupts(bare) or not inner[-1].strip():
                break
            else:
                inner.append(bare)
            self._at += 1
        self._out.append(Quote(self._inside(inner)))
        return True

    def _list(self, bare: str) -> bool:
        marker = _marker(bare)
        if marker is None or self._depth >= _DEEPEST:
            return False
        kind = marker[1][-1]
        items: list[list[str]] = []
        loose = False
        while self._at < len(self._lines):
            bare = self._lines[self._at].lstrip(" ")
            item_marker = _marker(bare)
            if item_marker is None or item_marker[1][-1] != kind or _is_rule(bare):
                break
            item, ended_blank = self._item(item_marker, len(self._lines[self._at]) - len(bare))
            more = self._at < len(self._lines) and _marker(self._lines[self._at].lstrip(" "))
            loose = loose or _has_gap(item) or bool(ended_blank and more)
            items.append(item)
        number = int(marker[1][:-1]) if kind in ".)" else None
        parsed = [self._parsed_item(item, loose) for item in items]
        self._out.append(ListBlock(parsed, number, loose))
        return True

    def _item(self, marker: re.Match[str], indent: int) -> tuple[list[str], bool]:
        """Return the lines of one item without their indent, and whether a blank line ends it."""
        width = indent + len(marker[0])
        taken = [self._lines[self._at][width:]]
        blank = False
        self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at]
            bare = line.lstrip(" ")
            inner = len(line) - len(bare)
            if bare.strip() and not _belongs(bare, inner, indent, width, blank):
                break
            blank = not bare.strip()
            taken.append(line[min(inner, width) :])
            self._at += 1
        while len(taken) > 1 and not taken[-1].strip():
            taken.pop()
        return taken, blank

    def _parsed_item(self, item: list[str], loose: bool) -> ListItem:
        done = None
        if (task := _TASK.match(item[0])) is not None:
            done = task[1] != " "
            item[0] = item[0][4:]
        return ListItem(self._inside(item, tight=not loose), done)

    def _inside(self, lines: list[str], *, tight: bool = False) -> list[MarkdownBlock]:
        return _Blocks(lines, depth=self._depth + 1, tight=tight).parse()


_BLOCKS: dict[str, tuple[Callable[[_Blocks, str], bool], ...]] = {
    "`": (_Blocks._fence,),
    "~": (_Blocks._fence,),
    "#": (_Blocks._heading,),
    ">": (_Blocks._quote,),
    "-": (_Blocks._rule, _Blocks._list),
    "*": (_Blocks._rule, _Blocks._list),
    "+": (_Blocks._list,),
    "_": (_Blocks._rule,),
}
_DIGIT = (_Blocks._list,)


def _marker(bare: str) -> re.Match[str] | None:
    """Match the marker of a list item: followed by a space or alone on its line."""
    marker = _MARKER.match(bare)
    if marker is None or (marker.end() == len(marker[1]) and bare[marker.end() :].strip()):
        return None
    return marker


def _is_rule(bare: str) -> bool:
    signs = bare.replace(" ", "")
    return len(signs) >= 3 and signs[0] in "-*_" and not signs.strip(signs[0])


def _interrupts(bare: str) -> bool:
    """Whether a line ends the paragraph before it."""
    first = bare[0]
    if first in "`~":
        return _FENCE.match(bare) is not None
    if first == "#":
        return _HEADING.match(bare.rstrip()) is not None
    if first == ">":
        return True
    if first in "-*+_" and _is_rule(bare):
        return True
    marker = _marker(bare)
    if marker is None or marker.end() >= len(bare):
        return False
    return not marker[1][0].isdigit() or marker[1][:-1] == "1"


def _belongs(bare: str, inner: int, indent: int, width: int, blank: bool) -> bool:
    """Whether a line belongs to the item above, which may end in a blank line."""
    if inner >= width:
        return True
    if _marker(bare) is not None:
        # Two spaces are enough below "1. ", since models and people write that.
        return inner >= indent + 2
    return not blank and not _interrupts(bare)


def _closes(line: str, mark: str) -> bool:
    """Whether a line closes the fence with this mark."""
    inner = line.strip()
    return inner.startswith(mark) and not inner.strip(mark[0])


def _heads_table(bare: str, below: str) -> bool:
    """Whether a line is the head of a table, by the line below it."""
    marks = table_cells(below)
    return len(table_cells(bare)) == len(marks) and all(map(_ALIGN.match, marks))


def _has_gap(lines: list[str]) -> bool:
    """Whether a blank line separates blocks of an item; blank lines in a fence do not count."""
    fenced = blank = False
    for line in lines:
        bare = line.strip()
        if bare.startswith(("```", "~~~")):
            fenced = not fenced
        if blank and bare and _marker(bare) is None:
            return True
        blank = not bare and not fenced
    return False


def table_cells(line: str) -> list[str]:
    """Return the cells of a table row; a bar after a backslash does not separate cells."""
    row = line.strip().removeprefix("|")
    if row.endswith("|") and not row.endswith("\\|"):
        row = row[:-1]
    parts = re.split(r"(?<!\\)\|", row)
    return [part.strip().replace("\\|", "|") for part in parts]


def _align(cell: str) -> Align:
    """Return the alignment of the cells below a delimiter cell."""
    if not cell.endswith(":"):
        return ""
    return "center" if cell.startswith(":") else "right"


class BlockScanner:
    """Finds where top-level blocks start, line by line, for a text that is still being written.

    Blocks parsed from the lines between two starts are the blocks of the whole text.
    """

    def __init__(self) -> None:
        self.kind: Literal["", "text", "table", "fence", "code", "quote", "list", "done"] = ""
        self.language = ""
        self._mark = ""  # of the fence, or of the list
        self._head = ""  # a line that may be the head of a table
        self._indent = self._width = 0
        self._blank = False

    def take(self, line: str) -> bool:
        """Take the next line, without tabs; return whether it starts a new block."""
        bare = line.lstrip(" ")
        indent = len(line) - len(bare)
        if self._continues(line, bare, indent):
            return False
        self._begin(bare, indent)
        return True

    def fence_text(self, line: str) -> str:
        """Return a line of the open fence without the indent of the fence."""
        return line[min(self._indent, len(line) - len(line.lstrip(" "))) :]

    def _begin(self, bare: str, indent: int) -> None:
        self._indent, self._head, self.kind = indent, "", "text"
        if not bare.strip():
            self.kind = ""
        elif indent >= 4:
            self.kind = "code"
        elif fence := _FENCE.match(bare):
            self.kind, self._mark = "fence", fence[1]
            self.language = fence[2].strip().partition(" ")[0]
        elif _HEADING.match(bare.rstrip()) or (bare[0] in "-*_" and _is_rule(bare)):
            self.kind = "done"
        elif bare[0] == ">":
            self.kind = "quote"
            self._blank = not bare[1:].strip()
        elif marker := _marker(bare):
            self.kind, self._mark = "list", marker[1][-1]
            self._begin_item(marker, indent)
        elif "|" in bare:
            self._head = bare

    def _begin_item(self, marker: re.Match[str], indent: int) -> None:
        self._indent, self._width, self._blank = indent, indent + len(marker[0]), False

    def _continues(self, line: str, bare: str, indent: int) -> bool:
        match self.kind:
            case "text":
                return self._continues_text(line, bare, indent)
            case "table":
                return "|" in line
            case "fence":
                if _closes(line, self._mark):
                    self.kind = "done"
                return True
            case "code":
                return not bare.strip() or indent >= 4
            case "quote":
                return self._continues_quote(bare)
            case "list":
                return self._continues_list(bare, indent)
            case _:
                return False

    def _continues_text(self, line: str, bare: str, indent: int) -> bool:
        head, self._head = self._head, ""
        if not bare.strip():
            return False
        if head and _heads_table(head, line):
            self.kind = "table"
        elif bare[0] in _ENDINGS and indent < 4:
            if _SETEXT.match(bare):
                self.kind = "done"
            else:
                return not _interrupts(bare)
        return True

    def _continues_quote(self, bare: str) -> bool:
        if bare.startswith(">"):
            self._blank = not bare[1:].strip()
            return True
        return bool(bare.strip()) and not self._blank and not _interrupts(bare)

    def _continues_list(self, bare: str, indent: int) -> bool:
        is_blank = not bare.strip()
        if is_blank or _belongs(bare, indent, self._indent, self._width, self._blank):
            self._blank = is_blank
            return True
        marker = _marker(bare)
        if marker is None:
            return False
        if marker[1][-1] == self._mark and not _is_rule(bare):
            self._begin_item(marker, indent)
        else:
            # Another list or a rule; whether it follows decides about gaps in the list before.
            self._begin(bare, indent)
        return True
