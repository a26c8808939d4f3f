"""Keep the story of a watched session up to date and notify the pages that wait for it."""

import asyncio
import re
from pathlib import Path

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base import CommandError, Warn, short_id
from ludolf.page import Growth, render_news, render_page
from ludolf.page.live.follower import Follower, NewEntries

_LOOK_SECONDS = 0.15
_PIECE = 1 << 18
_MARK = re.compile("([0-9a-z]{1,40})-([0-9]{1,15})")


class Mark(msgspec.Struct, frozen=True):
    """State of a page: the id of a reading of the file, and the number of its entries."""

    reading: str
    count: int

    def __str__(self) -> str:
        return f"{self.reading}-{self.count}"


def read_mark(text: str) -> Mark | None:
    """Return the mark that a page sends back; None if the text is not one."""
    parts = _MARK.fullmatch(text)
    return Mark(parts[1], int(parts[2])) if parts else None


class Watch:
    """Poll the file while a page is connected. Reads and renders in threads."""

    def __init__(self, path: Path, warn: Warn) -> None:
        self._follower = Follower(path, warn)
        self._warn = warn
        self._last_warning = ""
        self._lock = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._listeners = 0
        # Set on the event loop once all entries are added, while a thread may add the next ones.
        self.mark = Mark("", 0)
        self._tasks = Tasks()
        self.ended = False

    @property
    def path(self) -> Path:
        return self._follower.path

    @property
    def name(self) -> str:
        return self._growth.story.name or self._growth.story.header.id

    def load(self) -> None:
        """Read the file for the first time.

        Raises:
            CommandError: the file is not a session, or is empty.
            OSError: the file cannot be read.
        """
        batch = self._follower.read()
        if batch is None:
            raise CommandError(f"The session is empty: {self.path}")
        self.mark = self._take(batch)

    def start(self) -> None:
        """Start to poll the file."""
        self._tasks.start(self._look())

    async def close(self) -> None:
        """Release all waiting pages, and stop polling."""
        self.ended = True
        async with self._changed:
            self._changed.notify_all()
        await self._tasks.close()
        self._follower.close()

    # ------------------------------------------------------------ what pages ask for

    async def page(self) -> list[bytes]:
        """Render the whole page."""
        async with self._lock:
            return await asyncio.to_thread(self._page)

    async def news(self, known: Mark) -> list[bytes] | None:
        """Render the entries that a page lacks; None if the page has to be reloaded."""
        async with self._lock:
            now = self.mark
            if known.reading != now.reading or known.count > now.count:
                return None
            pieces = await asyncio.to_thread(
                lambda: "".join(render_news(self._growth, known.count, str(now)))
            )
            return [pieces.encode("utf-8", "replace")]

    async def opened(self) -> tuple[int, int] | None:
        """Return a descriptor of the session file, which the caller closes, and its size."""
        async with self._lock:
            return self._follower.opened()

    async def after(self, known: Mark | None, seconds: float) -> Mark:
        """Return the mark as soon as it differs from `known`, or after `seconds`."""
        self._listeners += 1
        try:
            async with asyncio.timeout(seconds), self._changed:
                await self._changed.wait_for(lambda: self.ended or self.mark != known)
        except TimeoutError:
            pass
        finally:
            self._listeners -= 1
        return self.mark

    # ------------------------------------------------------------ the file

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            if self._listeners:
                await self.refresh()

    async def refresh(self) -> None:
        """Read new entries; if the file is not a session now, warn and try again later."""
        async with self._lock:
            try:
                batch = await asyncio.to_thread(self._follower.read)
            except (CommandError, OSError) as problem:
                self._warn_once(str(problem))
                return
            if batch is None:
                return
            self._last_warning = ""
            self.mark = await asyncio.to_thread(self._take, batch)
        async with self._changed:
            self._changed.notify_all()

    def _take(self, batch: NewEntries) -> Mark:
        if batch.from_start:
            self._growth = Growth(batch.header)
            self._reading = short_id()
        self._growth.add(batch.entries)
        if self._growth.relinked:
            # Pages only receive new entries; they reload after a change of the tree.
            self._growth.relinked = False
            self._reading = short_id()
        return Mark(self._reading, len(self._growth.story.items))

    def _warn_once(self, text: str) -> None:
        if text != self._last_warning:
            self._last_warning = text
            self._warn(text)

    def _page(self) -> list[bytes]:
        pieces: list[bytes] = []
        waiting: list[str] = []
        size = 0
        for piece in render_page(self._growth.story, mark=str(self.mark)):
            waiting.append(piece)
            size += len(piece)
            if size > _PIECE:
                pieces.append("".join(waiting).encode("utf-8", "replace"))
                waiting, size = [], 0
        return [*pieces, "".join(waiting).encode("utf-8", "replace")]
