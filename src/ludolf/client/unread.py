"""Events that came and were not handed out yet, with a bound on their size."""

import asyncio
from collections import deque

from ludolf.client.errors import TooMuchUnread
from ludolf.client.events import Record

# Bytes of events that are read ahead.
FULL = 8 << 20
# Bytes of events that may arrive before a reply.
MOST = 512 << 20


class Unread:
    """A line of events, and how many bytes they were."""

    def __init__(self, full: int = FULL, most: int = MOST) -> None:
        self._events: deque[tuple[Record, int]] = deque()
        self._full, self._most = full, most
        self._size = 0
        self._room = asyncio.Event()
        self._room.set()

    def __len__(self) -> int:
        return len(self._events)

    def add(self, record: Record, size: int) -> None:
        self._events.append((record, size))
        self._resize(size)

    def take(self) -> Record:
        record, size = self._events.popleft()
        self._resize(-size)
        return record

    def clear(self) -> None:
        self._events.clear()
        self._resize(-self._size)

    def is_full(self) -> bool:
        return self._size >= self._full

    async def room(self) -> None:
        """Wait until it is not full."""
        await self._room.wait()

    def check(self) -> None:
        """Raises:
        TooMuchUnread: no more of them are kept.
        """
        if self._size >= self._most:
            raise TooMuchUnread(f"{self._size >> 20} MiB of events wait to be read")

    def _resize(self, change: int) -> None:
        self._size += change
        if self.is_full():
            self._room.clear()
        else:
            self._room.set()
