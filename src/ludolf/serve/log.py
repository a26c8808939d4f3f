"""The numbered frames of a loaded session; a client is a position in them."""

import secrets
from collections import OrderedDict

from ludolf.base import dumps
from ludolf.serve.options import RingLimits

# Frames that have left the log are removed from the list in groups of this many.
_TRIM = 1024


class RingPool:
    """Bounds the memory of all logs: the log that grew longest ago is emptied first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = 0
        self._logs: OrderedDict[SessionLog, None] = OrderedDict()

    def grew(self, log: "SessionLog", size: int) -> None:
        self._size += size
        self._logs[log] = None
        self._logs.move_to_end(log)
        while self._size > self._most and len(self._logs) > 1:
            oldest = next(iter(self._logs))
            oldest.clear()

    def shrank(self, log: "SessionLog", size: int) -> None:
        self._size -= size
        if not log.size:
            self._logs.pop(log, None)


class SessionLog:
    """Frames by number, from 1. `first` is the oldest that is kept, `last` the newest.

    The epoch is new for each log, so that a number is never taken for that of another one.
    """

    def __init__(self, session: str, limits: RingLimits, pool: RingPool) -> None:
        self.epoch = secrets.token_hex(4)
        self.first = 1
        self.last = 0
        self.size = 0
        self._limits = limits
        self._pool = pool
        self._frames: list[bytes] = []
        # The place of the frame `first` in the list.
        self._start = 0
        self._prefix = b'{"session":%b,"seq":' % dumps(session)

    @property
    def cursor(self) -> str:
        return self.cursor_at(self.last)

    def cursor_at(self, number: int) -> str:
        return f"{self.epoch}-{number}"

    def number_of(self, cursor: object) -> int | None:
        """Return the number of a cursor from which every later frame is kept; else None."""
        epoch, _, digits = cursor.rpartition("-") if isinstance(cursor, str) else ("", "", "")
        if epoch != self.epoch or not digits.isdecimal() or len(digits) > 18:
            return None
        number = int(digits)
        return number if self.has_all_after(number) else None

    def has_all_after(self, number: int) -> bool:
        return self.first - 1 <= number <= self.last

    def add(self, line: bytes) -> None:
        """Number a frame and keep it. The newest frame is always kept."""
        self.last += 1
        frame = b"%b%d,%b" % (self._prefix, self.last, line[1:])
        self._frames.append(frame)
        self.size += len(frame)
        while self.size > self._limits.size or self._is_long():
            if self.first == self.last:
                break
            self._drop_first()
        self._pool.grew(self, len(frame))

    def read(self, after: int, until: int, room: int) -> list[bytes]:
        """Return frames after a number up to another, as many as fit into `room` bytes.

        At least one is returned if there is one.
        """
        offset = self._start - self.first
        found: list[bytes] = []
        for frame in self._frames[offset + after + 1 : offset + until + 1]:
            found.append(frame)
            room -= len(frame)
            if room <= 0:
                break
        return found

    def plain(self, frame: bytes) -> bytes:
        """Return a frame without session and number."""
        return b"{" + frame[frame.index(b",", len(self._prefix)) + 1 :]

    def clear(self) -> None:
        """Drop all frames: clients that have not read them get a snapshot."""
        size, self.size = self.size, 0
        self._frames, self._start = [], 0
        self.first = self.last + 1
        self._pool.shrank(self, size)

    def _is_long(self) -> bool:
        return self.last - self.first + 1 > self._limits.frames

    def _drop_first(self) -> None:
        size = len(self._frames[self._start])
        self._frames[self._start] = b""
        self._start += 1
        self.first += 1
        self.size -= size
        self._pool.shrank(self, size)
        if self._start >= _TRIM:
            del self._frames[: self._start]
            self._start = 0
