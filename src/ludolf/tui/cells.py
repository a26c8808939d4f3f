"""Measure, cut and wrap rows in terminal cells, and make the text of others safe to draw.

A row is text with our own styles: SGR sequences and strings such as OSC 8 links, which take no
cells. Other control characters do not occur in rows: `plain` removes them first.
"""

import functools
import re
from collections.abc import Callable, Iterator

from ludolf.base.visible import show_hidden

RESET = "\x1b[0m"
TAB_CELLS = 4
_LONGEST_CLUSTER = 256
_LINK_END = "\x1b]8;;\x1b\\"
# Our own sequences: SGR, and OSC, DCS and APC strings.
_STYLE = re.compile(r"(\x1b\[[0-9;:]*m|\x1b[\]P_][^\x1b\x07]*(?:\x1b\\|\x07))")
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]P_^X]|[\x9d\x90\x9f\x9e\x98])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]+[0-~]"
    r"|\x1b[0-OQ-WYZ\\`-~]"
)
# Latin, Greek, Cyrillic, punctuation, arrows, frames, kana, Han and Hangul: no two combine.
_SINGLE = re.compile(
    r"[ -~\xa0-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027\u2030-\u203b\u2190-\u21ff"
    r"\u2500-\u25ff\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3]*"
)
# Those of them that take one cell, and signs of our own frames and spinners.
_NARROW = re.compile(
    r"[ -~\xa0-\xac\xae-\u02ff\u0370-\u0377\u0391-\u03a1\u03a3-\u0482\u048a-\u052f"
    r"\u2010-\u2027\u2030-\u203b\u2190-\u21ff\u2500-\u25fc\u25ff\u276f\u2800-\u28ff]*"
)
_UNSAFE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@functools.cache
def _library() -> tuple[Callable[[str], int], Callable[[str], Iterator[str]]]:
    from wcwidth import iter_graphemes, wcswidth

    return wcswidth, iter_graphemes


@functools.lru_cache(maxsize=4096)
def cluster_width(cluster: str) -> int:
    """Return the cells of one character with all that combines with it."""
    if _NARROW.fullmatch(cluster):
        return len(cluster)
    return max(0, _library()[0](cluster))


def clusters(text: str) -> Iterator[str]:
    """Iterate over the characters of a text without styles, with all that combines with each."""
    if text.isascii() or _NARROW.fullmatch(text):
        return iter(text)
    return _library()[1](text)


def unstyled(row: str) -> str:
    """Return the row without styles."""
    return _STYLE.sub("", row) if "\x1b" in row else row


def width(row: str) -> int:
    """Return the number of cells of a row."""
    if "\x1b" in row:
        row = _STYLE.sub("", row)
    if row.isascii() or _NARROW.fullmatch(row):
        return len(row)
    if _SINGLE.fullmatch(row):
        return _library()[0](row)
    return sum(map(cluster_width, clusters(row)))


def reflowed(row: str, columns: int) -> int:
    """Return the number of screen rows that a row takes on a terminal with so many columns."""
    row = unstyled(row)
    if row.isascii():
        return max(1, -(-len(row) // columns))
    rows, column = 1, 0
    for cluster in clusters(row):
        cells = cluster_width(cluster)
        if column + cells > columns:
            rows, column = rows + 1, 0
        column += cells
    return rows


class OpenStyles:
    """The styles that are in force at a place in a row."""

    def __init__(self) -> None:
        self._slots: dict[str, str] = {}
        self._link = ""

    def take(self, sequence: str) -> None:
        """Apply one sequence of a row."""
        if sequence.startswith("\x1b]8;"):
            self._link = "" if sequence.startswith("\x1b]8;;\x1b") else sequence
        elif sequence.startswith("\x1b["):
            self._take_codes(sequence[2:-1].split(";"))

    def _take_codes(self, codes: list[str]) -> None:
        while codes:
            code = codes.pop(0)
            if code in ("38", "48", "58"):
                count = 4 if codes[:1] == ["2"] else 2
                code, codes = ";".join((code, *codes[:count])), codes[count:]
            slot, closes = _slot(code)
            if slot == "all":
                self._slots.clear()
            elif closes:
                for name in slot.split():
                    self._slots.pop(name, None)
            else:
                self._slots[slot] = code

    @property
    def opening(self) -> str:
        """The sequences that bring these styles into force."""
        codes = f"\x1b[{';'.join(self._slots.values())}m" if self._slots else ""
        return codes + self._link

    @property
    def closing(self) -> str:
        """The sequences that end these styles."""
        return (_LINK_END if self._link else "") + (RESET if self._slots else "")


_ENDS = {
    **{"": "all", "0": "all", "39": "38", "49": "48", "59": "58", "22": "1 2", "23": "3"},
    **{"24": "4", "25": "5", "27": "7", "28": "8", "29": "9", "55": "53"},
}


def _slot(code: str) -> tuple[str, bool]:
    """Return the name of the property that an SGR code sets, and whether it ends it."""
    head = code.replace(":", ";").partition(";")[0]
    if head in _ENDS:
        return _ENDS[head], True
    if head in ("38", "48", "58") or not head.isdigit():
        return head, False
    number = int(head)
    if 30 <= number <= 37 or 90 <= number <= 97:
        return "38", False
    if 40 <= number <= 47 or 100 <= number <= 107:
        return "48", False
    return ("4" if number == 21 else head), False


def cut(row: str, cells: int) -> str:
    """Return as much of the start of a row as fits, with its styles closed."""
    if width(row) <= cells:
        return row
    styles, kept, used = OpenStyles(), [], 0
    for piece, is_style in _pieces(row):
        if is_style:
            styles.take(piece)
            kept.append(piece)
            continue
        used += cluster_width(piece)
        if used > cells:
            break
        kept.append(piece)
    return "".join(kept) + styles.closing


def _pieces(row: str) -> Iterator[tuple[str, bool]]:
    """Iterate over the characters and styles of a row."""
    for number, part in enumerate(_STYLE.split(row)):
        if number % 2:
            yield part, True
        else:
            for cluster in clusters(part):
                yield cluster, False


def wrap(row: str, cells: int, *, words: bool = True) -> list[str]:
    """Split a row into rows that fit; styles continue on the next row.

    Args:
        row: Styled text; line feeds begin a new row.
        cells: The cells of a row, at least 1. A wide character alone may need 2.
        words: Break at spaces where possible, and omit these spaces.
    """
    if "\n" not in row and width(row) <= cells:
        return [row]
    wrapping = _Wrapping(cells, words)
    for piece, is_style in _pieces(row):
        if is_style:
            wrapping.add_style(piece)
        elif piece in ("\n", "\r\n"):
            wrapping.end_line()
        else:
            wrapping.add(piece)
    wrapping.end_line()
    return wrapping.rows


class _Wrapping:
    """The rows that are complete and the one that is being filled."""

    def __init__(self, cells: int, words: bool) -> None:
        self.rows: list[str] = []
        self.row: list[tuple[str, int]] = []  # pieces with their cells; styles have -1
        self._cells = cells
        self._words = words
        self._used = 0
        self._styles = OpenStyles()  # at the start of the row
        self._break = 0  # index behind the last space of the row
        self._continues = False  # the row continues a line, and begins with a word

    def add_style(self, sequence: str) -> None:
        self.row.append((sequence, -1))

    def add(self, cluster: str) -> None:
        cells = cluster_width(cluster)
        is_space = cluster == " " and self._words
        if is_space and self._continues and not self._used:
            return
        if self._used + cells > self._cells and self._used:
            end = len(self.row) if is_space else self._break or len(self.row)
            self.end_row(end, trimmed=self._words)
            self._continues = True
            if is_space:
                return
        self.row.append((cluster, cells))
        self._used += cells
        if is_space and self._used > self._leading():
            self._break = len(self.row)

    def _leading(self) -> int:
        """Return the cells of the indentation, at which no row is broken."""
        count = 0
        for piece, cells in self.row:
            if cells >= 0:
                if piece != " ":
                    break
                count += 1
        return count

    def end_line(self) -> None:
        self.end_row(len(self.row))
        self._continues = False

    def end_row(self, end: int, *, trimmed: bool = False) -> None:
        """Complete the row with its first pieces; the others begin the next row."""
        taken, self.row = self.row[:end], self.row[end:]
        opening = self._styles.opening
        for piece, cells in taken:
            if cells < 0:
                self._styles.take(piece)
        if trimmed:
            _drop_last_spaces(taken)
        text = "".join(piece for piece, _ in taken)
        self.rows.append(opening + text + self._styles.closing)
        self._used = sum(cells for _, cells in self.row if cells > 0)
        self._break = 0


def _drop_last_spaces(pieces: list[tuple[str, int]]) -> None:
    for index in range(len(pieces) - 1, -1, -1):
        piece, cells = pieces[index]
        if piece == " ":
            del pieces[index]
        elif cells >= 0:
            return


def plain(text: str, *, tab_cells: int = TAB_CELLS) -> str:
    """Return the text of others without anything that a terminal would obey.

    Control sequences are removed. Other control characters become visible signs, tabs become
    spaces, carriage returns line feeds. Invisible characters become markers such as `[U+202E]`.
    Line feeds stay.
    """
    if _UNSAFE.search(text):
        text = _SEQUENCE.sub("", text.replace("\r\n", "\n")).replace("\r", "\n")
        if "\t" in text:
            text = "\n".join(_expand_tabs(line, tab_cells) for line in text.split("\n"))
        text = _UNSAFE.sub(_sign, text)
    return show_hidden(text)


def _sign(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd" if code > 0x9F else f"[U+{code:04X}]"


def _expand_tabs(line: str, tab_cells: int) -> str:
    if line.isascii():
        return line.expandtabs(tab_cells)
    parts = line.split("\t")
    done = parts[0]
    for part in parts[1:]:
        done += " " * (tab_cells - width(done) % tab_cells) + part
    return done


def cluster_before(text: str, index: int) -> int:
    """Return where the character begins that ends at the index; 0 at the start of the text."""
    if index <= 1 or text[index - 1].isascii():
        return max(0, index - 1)
    line = max(text.rfind("\n", 0, index) + 1, index - _LONGEST_CLUSTER)
    last = index - 1
    at = line
    for cluster in clusters(text[line:index]):
        last, at = at, at + len(cluster)
    return last


def cluster_after(text: str, index: int) -> int:
    """Return where the character ends that begins at the index, at most the end of the text."""
    if index + 1 >= len(text) or text[index : index + 2].isascii():
        return min(len(text), index + 1)
    return index + len(next(clusters(text[index : index + _LONGEST_CLUSTER])))
