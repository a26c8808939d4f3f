"""Statuses, widgets and titles of scripts: the last one of each key counts while the host lags."""

import asyncio
from collections.abc import Callable, Hashable

from ludolf.agent.scope import Tasks
from ludolf.engine.hub import Hub
from ludolf.functions.isolation import Failed, call_now

LATEST = frozenset(("ui.set_status", "ui.set_widget", "ui.set_title"))
MOST_KEPT = 1024


class LatestNotices:
    """Sends notices at once; while the host has not read what was sent, they replace each other.

    `failed` gets the text of a notice that cannot be sent.
    """

    def __init__(self, hub: Hub, failed: Callable[[str], None]) -> None:
        self._hub = hub
        self._failed = failed
        self._kept: dict[Hashable, Callable[[], None]] = {}
        self._tasks = Tasks()

    def add(self, key: Hashable, send: Callable[[], None]) -> None:
        if not self._kept and not self._hub.unread_bytes():
            self._send(send)
            return
        if not self._kept:
            self._tasks.start(self._send_later())
        self._kept.pop(key, None)
        self._kept[key] = send
        if len(self._kept) > MOST_KEPT:
            self._send(self._kept.pop(next(iter(self._kept))))

    def flush(self) -> None:
        """Send what waits."""
        kept, self._kept = self._kept, {}
        for send in kept.values():
            self._send(send)

    async def close(self) -> None:
        await self._tasks.close()

    async def _send_later(self) -> None:
        await self._hub.all_read()
        # Frames of this turn of the loop come first.
        await asyncio.sleep(0)
        self.flush()

    def _send(self, send: Callable[[], None]) -> None:
        try:
            call_now(send)
        except Failed as error:
            self._failed(str(error))
