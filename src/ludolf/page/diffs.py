"""Read the changes of an edit as lines with numbers and marked words."""

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import msgspec

from ludolf.base.patterns import lazy_pattern
from ludolf.page.text import plain_lines

# "+ 12 text": sign, number, one space, the line. Gaps are written "     ...".
_NUMBERED = lazy_pattern(r"([-+ ])( *[0-9]{1,9}) (.*)\Z", re.DOTALL)


class DiffLine(msgspec.Struct, gc=False):
    """One line; its sign is `+`, `-`, a space, or `@` for a gap.

    `mark` is the part of the text that differs from the line that it replaces.
    """

    sign: str
    number: str
    text: str
    mark: tuple[int, int] | None = None

    def parts(self) -> tuple[str, str, str]:
        """Return the text before the mark, the marked text, and the text after it."""
        start, end = self.mark or (len(self.text), len(self.text))
        return self.text[:start], self.text[start:end], self.text[end:]


class FileChanges(msgspec.Struct, frozen=True):
    lines: list[DiffLine]
    added: int
    removed: int


def numbered_changes(text: str) -> FileChanges:
    """Read the diff in the details of an edit result."""
    return _changes([_parsed(line) for line in plain_lines(text)])


def edit_changes(args: Mapping[str, Any]) -> FileChanges:
    """Read the edits in the arguments of a call that has no result."""
    lines: list[DiffLine] = []
    for old, new in _edits(args):
        if lines:
            lines.append(DiffLine("@", "", "…"))
        lines += [DiffLine("-", "", line) for line in plain_lines(old)] if old else []
        lines += [DiffLine("+", "", line) for line in plain_lines(new)] if new else []
    return _changes(lines)


def _edits(args: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    listed = args.get("edits")
    for edit in [args, *(listed if isinstance(listed, list) else ())]:
        if isinstance(edit, dict):
            old, new = edit.get("oldText"), edit.get("newText")
            if isinstance(old, str) and isinstance(new, str):
                yield old, new


def _parsed(line: str) -> DiffLine:
    numbered = _NUMBERED.match(line)
    if numbered is not None:
        return DiffLine(numbered[1], numbered[2].strip(), numbered[3])
    if line.strip() == "...":
        return DiffLine("@", "", "…")
    sign = line[:1]
    return DiffLine(sign, "", line[1:]) if sign in ("+", "-") else DiffLine(" ", "", line)


def _changes(lines: list[DiffLine]) -> FileChanges:
    for start, middle, end in _replacements(lines):
        if middle - start == end - middle:
            for offset in range(middle - start):
                _mark(lines[start + offset], lines[middle + offset])
    return FileChanges(
        lines,
        added=sum(line.sign == "+" for line in lines),
        removed=sum(line.sign == "-" for line in lines),
    )


def _replacements(lines: list[DiffLine]) -> Iterator[tuple[int, int, int]]:
    """Yield start, middle and end of removed lines that added lines follow."""
    start = middle = 0
    before = ""
    for sign, group in groupby(lines, key=lambda line: line.sign):
        end = middle + len(list(group))
        if (before, sign) == ("-", "+"):
            yield start, middle, end
        start, middle, before = middle, end, sign


def _mark(old: DiffLine, new: DiffLine) -> None:
    """Mark the part of both lines between their common start and end."""
    one, other = old.text, new.text
    shortest, ends = min(len(one), len(other)), (one[::-1], other[::-1])
    head = _common(one, other, shortest)
    tail = _word_edge(*ends, _common(*ends, shortest - head))
    head = _word_edge(one, other, head)
    # A mark over nearly the whole line is not useful.
    if (head + tail) * 3 < shortest:
        return
    for line in (old, new):
        end = len(line.text) - tail
        line.mark = (head, end) if end > head else None


def _common(one: str, other: str, limit: int) -> int:
    return next((index for index in range(limit) if one[index] != other[index]), limit)


def _word_edge(one: str, other: str, length: int) -> int:
    """Shorten the length so that it does not end inside a word."""
    inside = one[length : length + 1].isalnum() or other[length : length + 1].isalnum()
    while inside and length and one[length - 1].isalnum():
        length -= 1
    return length
