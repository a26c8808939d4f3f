"""Diffs of an edit: a numbered one for people and a unified patch for programs."""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from ludolf.tools.replacements import Span, decoded, encoded

_PIECE = 1 << 12


class Lines:
    """The lines of UTF-8 data, each with its newline; numbers and offsets count from 0.

    Only the number of newlines in each 4 KiB is kept.
    """

    def __init__(self, text: str | bytes) -> None:
        self._data = encoded(text) if isinstance(text, str) else text
        places = range(0, len(self._data), _PIECE)
        counts = (self._data.count(b"\n", place, place + _PIECE) for place in places)
        self._reached = list(accumulate(counts, initial=0))
        self._last = (0, 0)

    def __len__(self) -> int:
        return self._reached[-1] + (not self.begins_line(len(self._data)))

    def __getitem__(self, line: int) -> str:
        """Return the text of a line, with LF for CRLF."""
        text = decoded(self._data[self.start(line) : self.start(line + 1)])
        return f"{text[:-2]}\n" if text.endswith("\r\n") else text

    def start(self, line: int) -> int:
        """Return the offset at which a line begins; the end of the text for later lines."""
        if line <= 0:
            return 0
        if line > self._reached[-1]:
            return len(self._data)
        piece = bisect_right(self._reached, line - 1) - 1
        from_line, at = self._reached[piece], piece * _PIECE
        # Callers mostly ask for consecutive lines.
        if from_line < self._last[0] <= line:
            from_line, at = self._last
        for _ in range(line - from_line):
            at = self._data.index(b"\n", at) + 1
        self._last = line, at
        return at

    def number(self, offset: int) -> int:
        """Return the number of the line that contains an offset."""
        piece = min(offset // _PIECE, len(self._reached) - 1)
        return self._reached[piece] + self._data.count(b"\n", piece * _PIECE, offset)

    def line_start(self, offset: int) -> int:
        """Return the start of the line that contains an offset."""
        return self.start(self.number(offset))

    def begins_line(self, offset: int) -> bool:
        return offset == 0 or self._data[offset - 1] == 0x0A

    def lines_before(self, offset: int) -> int:
        """Count the lines that end at or before an offset, with a last one without newline."""
        return self.number(offset) + (not self.begins_line(offset))


CONTEXT = 4
# Longer lines, in characters, are cut in both diffs.
LONGEST_LINE = 1 << 16
# A region of more lines is shown as replaced completely.
_MOST_LINES = 5_000
# An insertion among equal lines is moved down by at most this number of lines.
_MOST_SLID = 1_000


class LineChange(NamedTuple):
    """Lines `old_start` to `old_end` became `new_start` to `new_end`; from 0, ends excluded."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


class Comparison:
    """Compare two texts line by line; a CRLF counts as a newline."""

    def __init__(
        self, old: str | bytes, new: str | bytes, spans: Sequence[Span] | None = None
    ) -> None:
        """With `spans`, the replacements that made `new` from `old`, read only lines near them."""
        self._old, self._new = Lines(old), Lines(new)
        whole = [LineChange(0, len(self._old), 0, len(self._new))]
        regions = whole if spans is None else _regions(self._old, self._new, spans)
        self._changes = _changes(self._old, self._new, regions)

    @property
    def first_changed_line(self) -> int | None:
        """Number of the line in the new text, from 1; None if the texts are equal."""
        return self._changes[0].new_start + 1 if self._changes else None

    def numbered(self) -> str:
        """Return each line with its sign and number; `...` stands for unchanged stretches."""
        width = len(str(max(len(self._old), len(self._new))))
        gap = f" {'':{width}} ..."
        shown: list[str] = []
        reached = 0
        for hunk in _hunks(self._changes):
            start, end = self._old_span(hunk)
            if start > reached:
                shown.append(gap)
            for sign, number, line in self._hunk_lines(hunk):
                text = line.removesuffix("\n")
                shown.append(f"{sign}{number:>{width}} {text}")
            reached = end
        if self._changes and reached < len(self._old):
            shown.append(gap)
        return "\n".join(shown)

    def patch(self, path: str) -> str:
        """Return a unified diff with file headers."""
        out = [f"--- {path}\n", f"+++ {path}\n"]
        for hunk in _hunks(self._changes):
            out.append(self._hunk_header(hunk))
            for sign, _number, line in self._hunk_lines(hunk):
                end = "" if line.endswith("\n") else "\n\\ No newline at end of file\n"
                out.append(f"{sign}{line}{end}")
        return "".join(out)

    def _old_span(self, hunk: Sequence[LineChange]) -> tuple[int, int]:
        start = max(0, hunk[0].old_start - CONTEXT)
        return start, min(len(self._old), hunk[-1].old_end + CONTEXT)

    def _hunk_header(self, hunk: Sequence[LineChange]) -> str:
        start, end = self._old_span(hunk)
        new_start = start + hunk[0].new_start - hunk[0].old_start
        new_end = end + hunk[-1].new_end - hunk[-1].old_end
        return f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@\n"

    def _hunk_lines(self, hunk: Sequence[LineChange]) -> Iterator[tuple[str, int, str]]:
        at, end = self._old_span(hunk)
        for change in hunk:
            yield from self._numbered_lines(" ", at, change.old_start)
            yield from self._numbered_lines("-", change.old_start, change.old_end)
            yield from self._numbered_lines("+", change.new_start, change.new_end)
            at = change.old_end
        yield from self._numbered_lines(" ", at, end)

    def _numbered_lines(self, sign: str, start: int, end: int) -> Iterator[tuple[str, int, str]]:
        source = self._new if sign == "+" else self._old
        for index in range(start, end):
            yield sign, index + 1, _cut(source[index])


def _regions(old: Lines, new: Lines, spans: Sequence[Span]) -> list[LineChange]:
    """Return the lines that the spans touch; spans on adjacent lines share a region."""
    regions: list[LineChange] = []
    waiting = deque(spans)
    shift = 0
    while waiting:
        begin = end = old.line_start(waiting[0].start)
        new_begin = begin + shift
        while waiting and old.line_start(waiting[0].start) <= end:
            span = waiting.popleft()
            shift += len(span.text) - (span.end - span.start)
            end = max(end, old.start(old.number(span.end - 1) + 1))
            ends_here = not waiting or waiting[0].start >= end
            if ends_here and end == span.end and not new.begins_line(end + shift):
                # The replacement removed the newline, so the next line changes as well.
                end = old.start(old.number(end) + 1)
        olds = old.number(begin), old.lines_before(end)
        regions.append(LineChange(*olds, new.number(new_begin), new.lines_before(end + shift)))
    return regions


def _changes(old: Lines, new: Lines, regions: Sequence[LineChange]) -> list[LineChange]:
    limits = [*(region.old_start for region in regions[1:]), len(old)]
    changes: list[LineChange] = []
    for region, limit in zip(regions, limits, strict=True):
        changes += _narrowed(old, new, region, limit)
    return changes


def _narrowed(old: Lines, new: Lines, region: LineChange, limit: int) -> list[LineChange]:
    """Return the differences inside a region, moved down as far as line `limit` allows."""
    i, i_end, j, j_end = region
    while i < i_end and j < j_end and old[i] == new[j]:
        i, j = i + 1, j + 1
    slid = 0
    while (i == i_end) != (j == j_end) and i_end < limit and slid < _MOST_SLID:
        following = old[i_end]
        if following != (new[j] if i == i_end else old[i]):
            break
        i, i_end, j, j_end, slid = i + 1, i_end + 1, j + 1, j_end + 1, slid + 1
    while i < i_end and j < j_end and old[i_end - 1] == new[j_end - 1]:
        i_end, j_end = i_end - 1, j_end - 1
    return _matched(old, new, LineChange(i, i_end, j, j_end))


def _matched(old: Lines, new: Lines, region: LineChange) -> list[LineChange]:
    i, i_end, j, j_end = region
    if i == i_end and j == j_end:
        return []
    many = max(i_end - i, j_end - j) > _MOST_LINES
    if i == i_end or j == j_end or many:
        return [region]
    from difflib import SequenceMatcher

    left = [old[line] for line in range(i, i_end)]
    right = [new[line] for line in range(j, j_end)]
    return [
        LineChange(i1 + i, i2 + i, j1 + j, j2 + j)
        for tag, i1, i2, j1, j2 in SequenceMatcher(None, left, right).get_opcodes()
        if tag != "equal"
    ]


def _hunks(changes: Sequence[LineChange]) -> list[list[LineChange]]:
    """Group changes whose context lines would touch."""
    hunks: list[list[LineChange]] = []
    for change in changes:
        if hunks and change.old_start - hunks[-1][-1].old_end <= 2 * CONTEXT:
            hunks[-1].append(change)
        else:
            hunks.append([change])
    return hunks


def _range(start: int, end: int) -> str:
    count = end - start
    return f"{start + 1 if count else start},{count}"


def _cut(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    newline = "\n" if line.endswith("\n") else ""
    return f"{line[:LONGEST_LINE]}... [truncated]{newline}"
