"""Text for a terminal: strip escape sequences, align columns."""

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO, cast

from ludolf.base import dumps
from ludolf.base.patterns import lazy_pattern

# Control characters, the escape sequences they begin, and marks that change text direction.
_SEQUENCES = lazy_pattern(
    # An unterminated control string hides at most the rest of its line.
    r"\x1b\][^\n\x07\x1b]*(?:\x07|\x1b\\)?|\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|\x1b[PX^_][^\n\x1b]*(?:\x1b\\)?"
    r"|\x1b.?|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]",
    re.DOTALL,
)


def plain(text: str) -> str:
    """Remove control characters and escape sequences; tabs and line ends stay."""
    return _SEQUENCES.sub("", text)


class _Guarded:
    """Terminal stream that passes all text through `plain`."""

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath

    def write(self, text: str) -> int:
        return self.beneath.write(plain(text))

    def writelines(self, lines: Iterable[str]) -> None:
        self.beneath.writelines(map(plain, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


def guarded(stream: TextIO) -> TextIO:
    """Wrap a stream for text from servers, models and files."""
    return cast(TextIO, _Guarded(stream))


def unguarded(stream: TextIO) -> TextIO:
    """Return the wrapped stream, for our own escape sequences."""
    return stream.beneath if isinstance(stream, _Guarded) else stream


def one_line(text: str, limit: int) -> str:
    """Join the text to one line of at most `limit` columns."""
    line = " ".join(plain(text).split())
    if width(line) <= limit:
        return line
    while line and width(line) > limit - 1:
        line = line[:-1]
    return line.rstrip() + "…"


def width(text: str) -> int:
    """Return the columns a text takes: two for a wide character, none for an accent."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """Render rows as aligned columns; the first row is the header."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(_padded, row, widths)).rstrip() for row in rows)
    return "\n".join(lines) + "\n"


def columns(default: int = 100) -> int:
    """Return the width of the terminal, or the default if stdout is not one."""
    import shutil

    return shutil.get_terminal_size((default, 24)).columns if sys.stdout.isatty() else default


def say(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def say_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    sys.stdout.write(dumps(value).decode() + "\n")


def _padded(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))
