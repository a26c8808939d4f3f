"""Index of the lines of a large text, without a list of all lines."""

from bisect import bisect_right
from itertools import accumulate

from ludolf.tools.lookalikes import decoded, encoded

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
