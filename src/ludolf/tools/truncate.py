"""Truncate long text for a model: keep whole lines from the start or from the end."""

from typing import Any, Literal, cast

import msgspec

from ludolf.base import Value

MAX_LINES = 2000
MAX_BYTES = 50 * 1024
# The largest integer that every JSON reader keeps exactly: "no limit" on the wire.
NO_LINE_LIMIT = 2**53 - 1
# The newline at the end, and the one before the first line that fits.
TAIL_CHARS = MAX_BYTES + 2


class Truncation(Value, omit_defaults=False):
    """Kept part and sizes of a truncated text. Sent to hosts as `details.truncation`."""

    content: str
    truncated: bool
    truncated_by: Literal["lines", "bytes"] | None
    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    last_line_partial: bool = False
    first_line_exceeds_limit: bool = False
    max_lines: int = MAX_LINES
    max_bytes: int = MAX_BYTES

    def as_json(self) -> dict[str, Any]:
        """Return plain data with the names of the wire format."""
        return cast("dict[str, Any]", msgspec.to_builtins(self))


class Totals(Value):
    """Size of a whole text of which only a part is available."""

    lines: int
    bytes: int


def size_words(count: int) -> str:
    """Format a number of bytes: `512B`, `1.5KB`, `2.0MB`."""
    if count < 1024:
        return f"{count}B"
    if count < 1024 * 1024:
        return f"{count / 1024:.1f}KB"
    return f"{count / (1024 * 1024):.1f}MB"


def count_lines(text: str) -> int:
    """Count the lines of a text; a newline at the end does not start another line."""
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def measure(text: str) -> Totals:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return Totals(lines=count_lines(text), bytes=size)


def keep_head(text: str, *, totals: Totals | None = None, max_lines: int = MAX_LINES) -> Truncation:
    """Keep whole lines from the start. `totals` describe the text if its end is missing."""
    totals = totals or measure(text)
    if _fits(totals, max_lines):
        return _whole(text, totals, max_lines)
    # One byte more than fits: the newline that shows that the last line is complete.
    lines = _first_lines(text[: MAX_BYTES + 1].encode("utf-8", "replace"), max_lines)
    return _cut(lines, totals, max_lines=max_lines)


def keep_tail(text: str, *, totals: Totals | None = None) -> Truncation:
    """Keep whole lines from the end, or the end of the last line if that is too long.

    `totals` describe the text if its start is missing; at least `TAIL_CHARS` must be present.
    """
    totals = totals or measure(text)
    if _fits(totals, MAX_LINES):
        return _whole(text, totals, MAX_LINES)
    data = text[-TAIL_CHARS:].encode("utf-8", "replace").removesuffix(b"\n")
    lines = _last_lines(data)
    if lines:
        return _cut(lines, totals)
    return _cut([_end_of(data)], totals, partial=True)


def _fits(totals: Totals, max_lines: int) -> bool:
    return totals.lines <= max_lines and totals.bytes <= MAX_BYTES


def _whole(text: str, totals: Totals, max_lines: int) -> Truncation:
    return Truncation(
        content=text,
        truncated=False,
        truncated_by=None,
        total_lines=totals.lines,
        total_bytes=totals.bytes,
        output_lines=totals.lines,
        output_bytes=totals.bytes,
        max_lines=max_lines,
    )


def _cut(
    lines: list[bytes], totals: Totals, *, max_lines: int = MAX_LINES, partial: bool = False
) -> Truncation:
    data = b"\n".join(lines)
    by_lines = totals.lines > max_lines == len(lines)
    return Truncation(
        content=data.decode("utf-8", "replace"),
        truncated=True,
        truncated_by="lines" if by_lines else "bytes",
        total_lines=totals.lines,
        total_bytes=totals.bytes,
        output_lines=len(lines),
        output_bytes=len(data),
        last_line_partial=partial,
        first_line_exceeds_limit=not lines,
        max_lines=max_lines,
    )


def _first_lines(data: bytes, max_lines: int) -> list[bytes]:
    lines = data.split(b"\n", max_lines)
    if len(lines) > max_lines or not lines[-1]:
        lines.pop()
    size = sum(map(len, lines)) + len(lines) - 1
    while lines and size > MAX_BYTES:
        size -= len(lines.pop()) + 1
    return lines


def _last_lines(data: bytes) -> list[bytes]:
    lines = data.rsplit(b"\n", MAX_LINES)[-MAX_LINES:]
    size = sum(map(len, lines)) + len(lines) - 1
    first = 0
    while first < len(lines) and size > MAX_BYTES:
        size -= len(lines[first]) + 1
        first += 1
    return lines[first:]


def _end_of(data: bytes) -> bytes:
    """Return the last bytes that fit, starting at a whole character."""
    end = data[-MAX_BYTES:]
    start = 0
    while end[start] & 0xC0 == 0x80:
        start += 1
    return end[start:]
