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


_DRAW = re.compile(rb"(\x1b\[\?2026h.*?\x1b\[\?2026l|\x1b\[\?1049[hl])", re.DOTALL)
# A scroll region, an absolute address, the whole screen or the scrollback cleared.
_FORBIDDEN = re.compile(rb"\x1b\[[0-9;]*[Hfrd]|\x1b\[[123]J")


def check_draws(written: bytes) -> int:
    """Check the rules of inline drawing on all bytes of a program; returns the number of draws."""
    draws, is_alternate = 0, False
    for part in _DRAW.split(written)[1::2]:
        if part.startswith(b"\x1b[?1049"):
            is_alternate = part.endswith(b"h")
        elif not is_alternate:
            draws += 1
            assert b"\x1b[?25l" in part, part
            assert not _FORBIDDEN.search(part), part
            # Never from the top left: tmux would move the screen into its history.
            assert part.count(b"\x1b[J") == part.count(b"\r\n\x1b[J"), part
    return draws


def texts(rows: list[str]) -> list[str]:
    """Return the rows without styles."""
    return [unstyled(row) for row in rows]


def check_rows(rows: list[str], cells: int) -> None:
    """Check that rows hold only our own sequences and fit into the terminal."""
    for row in rows:
        assert not _CONTROL.search(_OURS.sub("", row)), repr(row)
        assert width(row) <= cells, (cells, row)
