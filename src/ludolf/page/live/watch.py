"""One watched session: its story brought up to date, and those who wait for more of it."""

import asyncio
import re
from pathlib import Path

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base import CommandError, short_id
from ludolf.page import Growth, render_news, render_page
from ludolf.page.live.follower import Batch, Follower
from ludolf.session.store import Warn

_LOOK_SECONDS = 0.15
_PIECE = 1 << 18
_MARK = re.compile("([0-9a-z]{1,40})-([0-9]{1,15})")


class Mark(msgspec.Struct, frozen=True):
    """How much of the session a page knows: so many entries of one reading of the file."""

    reading: str
    count: int

    def __str__(self) -> str:
        return f"{self.reading}-{self.count}"


def read_mark(text: str) -> Mark | None:
    """Return the mark that a page sends back; None if the text is not one."""
    found = _MARK.fullmatch(text)
    return Mark(found[1], int(found[2])) if found else None


class Watch:
    """Looks at the file while somebody listens. Reading and rendering leave the loop free."""

    def __init__(self, path: Path, warn: Warn) -> None:
        self._follower = Follower(path, warn)
        self._warn = warn
        self._trouble = ""
        self._lock = asyncio.Lock()
        self._changed = asyncio.Condition()
        self._listeners = 0
        # Set on the loop once a reading is taken in whole, while threads may be at the next one.
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
            CommandError: it is no session, or empty.
            OSError: it cannot be read.
        """
        batch = self._follower.read()
        if batch is None:
            raise CommandError(f"The session is empty: {self.path}")
        self.mark = self._take(batch)

    def start(self) -> None:
        """Look at the file from now on."""
        self._tasks.start(self._look())

    async def close(self) -> None:
        """Let everyone who waits go, and leave the file alone."""
        self.ended = True
        async with self._changed:
            self._changed.notify_all()
        await self._tasks.close()
        self._follower.close()

    # ------------------------------------------------------------ what pages ask for

    async def page(self) -> list[bytes]:
        """The whole page, as it is now."""
        async with self._lock:
            return await asyncio.to_thread(self._page)

    async def news(self, known: Mark) -> list[bytes] | None:
        """What a page lacks; None if it was made from another reading and has to be loaded anew."""
        async with self._lock:
            now = self.mark
            if known.reading != now.reading or known.count > now.count:
                return None
            pieces = await asyncio.to_thread(
                lambda: "".join(render_news(self._growth, known.count, str(now)))
            )
            return [pieces.encode("utf-8", "replace")]

    async def opened(self) -> tuple[int, int] | None:
        """A descriptor of the session file, for the caller to close, and its size in bytes."""
        async with self._lock:
            return self._follower.opened()

    async def after(self, known: Mark | None, seconds: float) -> Mark:
        """The mark as soon as it is another one, or the same after so much time."""
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
        """Take what was written since; what is no session now is waited for."""
        async with self._lock:
            try:
                batch = await asyncio.to_thread(self._follower.read)
            except (CommandError, OSError) as problem:
                self._tell(str(problem))
                return
            if batch is None:
                return
            self._trouble = ""
            self.mark = await asyncio.to_thread(self._take, batch)
        async with self._changed:
            self._changed.notify_all()

    def _take(self, batch: Batch) -> Mark:
        if batch.anew:
            self._growth = Growth(batch.header)
            self._reading = short_id()
        self._growth.add(batch.entries)
        if self._growth.relinked:
            # Pages only learn of new entries; a tree that was put together anew they load again.
            self._growth.relinked = False
            self._reading = short_id()
        return Mark(self._reading, len(self._growth.story.items))

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._warn(trouble)

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
