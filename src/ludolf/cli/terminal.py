"""Text for people at a terminal: nothing in it can act on the terminal, columns line up."""

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO, cast

# Control characters, the escape sequences they begin, and marks that turn the reading direction.
_SEQUENCES = re.compile(
    # A control string without its end hides no more than the rest of its line.
    r"\x1b\][^\n\x07\x1b]*(?:\x07|\x1b\\)?|\x1b\[[0-?]*[ -/]*[@-~]?"
    r"|\x1b[PX^_][^\n\x1b]*(?:\x1b\\)?"
    r"|\x1b.?|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]",
    re.DOTALL,
)


def plain(text: str) -> str:
    """The text without anything that a terminal would obey; tabs and line ends stay."""
    return _SEQUENCES.sub("", text)


class _Guarded:
    """A stream to a terminal; what passes through it is plain."""

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath

    def write(self, text: str) -> int:
        return self.beneath.write(plain(text))

    def writelines(self, lines: Iterable[str]) -> None:
        self.beneath.writelines(map(plain, lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


def guarded(stream: TextIO) -> TextIO:
    """The stream for texts of others: servers, models, files."""
    return cast(TextIO, _Guarded(stream))


def unguarded(stream: TextIO) -> TextIO:
    """The stream for our own drawing."""
    return stream.beneath if isinstance(stream, _Guarded) else stream


def one_line(text: str, limit: int) -> str:
    """The text on one line of at most so many columns."""
    line = " ".join(plain(text).split())
    if width(line) <= limit:
        return line
    while line and width(line) > limit - 1:
        line = line[:-1]
    return line.rstrip() + "…"


def width(text: str) -> int:
    """Columns that a text takes: wide characters take two, accents none."""
    if text.isascii():
        return len(text)
    import unicodedata

    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns, the first of them headings."""
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(_padded, row, widths)).rstrip() for row in rows)
    return "\n".join(lines) + "\n"


def columns(default: int = 100) -> int:
    """How wide the terminal is; the default where there is none."""
    import shutil

    return shutil.get_terminal_size((default, 24)).columns if sys.stdout.isatty() else default


def say(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def _padded(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))
