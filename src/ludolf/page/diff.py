"""Render the changes of a file line by line, with the changed part of a line marked."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ludolf.page.text import attribute, content, plain_lines

# "+ 12 text": sign, number, one space, the line. Gaps are written "     ...".
_NUMBERED = re.compile(r"([-+ ])( *[0-9]{1,9}) (.*)\Z", re.DOTALL)


class _Line(msgspec.Struct, gc=False):
    sign: str
    number: str
    text: str


class Diff(msgspec.Struct, frozen=True):
    """Lines of HTML, and the numbers of added and removed lines."""

    lines: list[str]
    added: int
    removed: int


def numbered_diff(text: str) -> Diff:
    """Render the diff in the details of an edit result."""
    return _diff([_parsed(line) for line in plain_lines(text)])


def edits_diff(args: Mapping[str, Any]) -> Diff:
    """Render the edits in the arguments of a call that has no result."""
    lines: list[_Line] = []
    for old, new in _edits(args):
        if lines:
            lines.append(_Line("@", "", "…"))
        lines += [_Line("-", "", line) for line in plain_lines(old)] if old else []
        lines += [_Line("+", "", line) for line in plain_lines(new)] if new else []
    return _diff(lines)


def _edits(args: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    listed = args.get("edits")
    for edit in [args, *(listed if isinstance(listed, list) else ())]:
        if isinstance(edit, dict):
            old, new = edit.get("oldText"), edit.get("newText")
            if isinstance(old, str) and isinstance(new, str):
                yield old, new


def _parsed(line: str) -> _Line:
    numbered = _NUMBERED.match(line)
    if numbered is not None:
        return _Line(numbered[1], numbered[2].strip(), numbered[3])
    if line.strip() == "...":
        return _Line("@", "", "…")
    sign = line[:1]
    return _Line(sign, "", line[1:]) if sign in ("+", "-") else _Line(" ", "", line)


def _diff(lines: list[_Line]) -> Diff:
    shown = [content(line.text) for line in lines]
    for start, middle, end in _changes(lines):
        if middle - start == end - middle:
            for offset in range(middle - start):
                old, new = start + offset, middle + offset
                shown[old], shown[new] = _marked(lines[old].text, lines[new].text)
    return Diff(
        lines=[_row(line, text) for line, text in zip(lines, shown, strict=True)],
        added=sum(line.sign == "+" for line in lines),
        removed=sum(line.sign == "-" for line in lines),
    )


def _changes(lines: list[_Line]) -> Iterator[tuple[int, int, int]]:
    """Yield start, middle and end of removed lines that added lines follow."""
    at = 0
    while at < len(lines):
        start = at
        while at < len(lines) and lines[at].sign == "-":
            at += 1
        middle = at
        while at < len(lines) and lines[at].sign == "+":
            at += 1
        if start < middle < at:
            yield start, middle, at
        if at == start:
            at += 1


def _marked(old: str, new: str) -> tuple[str, str]:
    """Mark the part of both lines between their common start and end."""
    shortest = min(len(old), len(new))
    head = _common(old, new, shortest)
    tail = _common(old[::-1], new[::-1], shortest - head)
    head = _word_edge(old, new, head)
    tail = _word_edge(old[::-1], new[::-1], tail)
    # A mark over nearly the whole line is not useful.
    if (head + tail) * 3 < shortest:
        return content(old), content(new)
    return _mark(old, head, tail), _mark(new, head, tail)


def _common(one: str, other: str, limit: int) -> int:
    for index in range(limit):
        if one[index] != other[index]:
            return index
    return limit


def _word_edge(one: str, other: str, length: int) -> int:
    """Shorten the length so that it does not end inside a word."""
    inside = one[length : length + 1].isalnum() or other[length : length + 1].isalnum()
    while inside and length and one[length - 1].isalnum():
        length -= 1
    return length


def _mark(text: str, head: int, tail: int) -> str:
    end = len(text) - tail
    if end <= head:
        return content(text)
    return f"{content(text[:head])}<mark>{content(text[head:end])}</mark>{content(text[end:])}"


def _row(line: _Line, text: str) -> str:
    kind = {"+": "add", "-": "del", "@": "gap"}.get(line.sign, "same")
    number = attribute(line.number)
    return f'<span class="d-{kind}" data-n="{number}">{text}</span>'
