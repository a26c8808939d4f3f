"""Read rows as a terminal would: their text, their cells, and whether their sequences are ours."""

import re

from ludolf.tui.cells import unstyled, width

# SGR, OSC 8, and nothing else.
_OURS = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;[^\x00-\x1f\x7f-\x9f]*\x1b\\")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
HOSTILE = (
    "\x1b[2J\x1b]0;title\x07\x1b]8;;http://evil\x1b\\x\x1b]8;;\x1b\\ \x9b31m \x1bP1$r\x1b\\"
    " \x00\x07\x08\r\x7f\u202e\u2066 \x1b[?1049h \x1b_Gx\x1b\\ \x1b &#27;[31m &#x9b;5n \x85\x1b[6n"
)


def texts(rows: list[str]) -> list[str]:
    """Return the rows without styles."""
    return [unstyled(row) for row in rows]


def check_rows(rows: list[str], cells: int) -> None:
    """Check that rows hold only our own sequences and fit into the terminal."""
    for row in rows:
        assert not _CONTROL.search(_OURS.sub("", row)), repr(row)
        assert width(row) <= cells, (cells, row)
