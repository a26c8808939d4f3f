"""Sessions rendered for the page: loaded ones from memory, stored ones from their files."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

from ludolf.base import CommandError, short_id
from ludolf.engine.build import warn_on_stderr
from ludolf.page.live.watch import Follower, Mark
from ludolf.page.page import render_news
from ludolf.page.page_model import Growth
from ludolf.serve.slots import unknown_session
from ludolf.session.entries import Entry, SessionHeader

if TYPE_CHECKING:
    from ludolf.serve.server import SessionServer

# Sessions that are kept for pages; the one that was asked for first is dropped for another.
_KEPT = 16
# Bytes that are rendered before they are sent: the browser reads a long page meanwhile.
_PIECE = 1 << 18


class _Content(msgspec.Struct, frozen=True):
    """A session as it is now; a file does not say which entry is its leaf."""

    header: SessionHeader
    entries: Sequence[Entry]
    leaf: str | UnsetType | None = UNSET


class _StoredFile:
    """All entries of a session file, of which only the new ones are read each time."""

    def __init__(self, path: Path) -> None:
        self._follower = Follower(path, warn_on_stderr)
        self._header: SessionHeader | None = None
        self._entries: list[Entry] = []

    def read(self) -> _Content:
        """Raises:
        CommandError: the file is not a session, or is empty.
        OSError: it cannot be read.
        """
        news = self._follower.read()
        if news is not None:
            if news.from_start:
                self._entries = []
            self._header = news.header
            self._entries += news.entries
        if self._header is None:
            raise CommandError(f"The session is empty: {self._follower.path}")
        return _Content(self._header, self._entries)

    def close(self) -> None:
        self._follower.close()


class _Story:
    """One session, and the marks of the pages that show it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.file: _StoredFile | None = None
        self._growth: Growth | None = None
        self._reading = ""

    def news(self, now: _Content, known: Mark | None) -> Iterator[bytes] | None:
        """Render what a page lacks; None if it has to begin again. Without a mark: everything.

        What changes between two pieces is news after the mark of this page.
        """
        growth = self._grown(now)
        count = len(growth.story.items)
        if known is not None and (known.reading != self._reading or known.count > count):
            return None
        after = known.count if known is not None else 0
        return _pieces(render_news(growth, after, str(Mark(self._reading, count))))

    def _grown(self, now: _Content) -> Growth:
        growth = self._growth
        if growth is None or not _continues(growth, now.entries):
            growth = self._growth = Growth(now.header)
            self._reading = short_id()
        growth.add(now.entries[len(growth.story.items) :])
        if growth.relinked:
            growth.relinked = False
            self._reading = short_id()
        if not isinstance(now.leaf, UnsetType):
            growth.lead_to(now.leaf)
        return growth


class SessionStories:
    """Render sessions by id; looking at a stored session does not load it."""

    def __init__(self, server: "SessionServer") -> None:
        self._server = server
        self._stories: dict[str, _Story] = {}

    async def news(self, session: str, known: Mark | None) -> AsyncIterator[bytes] | None:
        """Return the entries that a page lacks as a document; None if it has to begin again.

        It is rendered piece by piece, as it is read.

        Raises:
            CommandError: the session does not exist or cannot be read.
        """
        story = self._stories.get(session)
        if story is None:
            self._make_room()
            story = self._stories[session] = _Story()
        async with story.lock:
            try:
                now = await self._content(session, story)
            except CommandError:
                self._drop(session)
                raise
            pieces = await asyncio.to_thread(story.news, now, known)
        return None if pieces is None else _rendered(story, pieces)

    def close(self) -> None:
        for session in tuple(self._stories):
            self._drop(session)

    async def _content(self, session: str, story: _Story) -> _Content:
        slot = self._server.loaded(session)
        if slot is not None:
            loaded = slot.engine.session
            return _Content(loaded.header, tuple(loaded.entries()), loaded.leaf)
        if story.file is None:
            path = await asyncio.to_thread(self._server.slots.stored_file, session)
            story.file = _StoredFile(path)
        try:
            return await asyncio.to_thread(story.file.read)
        except FileNotFoundError:
            raise unknown_session(session) from None
        except OSError as problem:
            raise CommandError(f"Cannot read the session {session}: {problem}") from problem

    def _make_room(self) -> None:
        unused = [name for name, story in self._stories.items() if not story.lock.locked()]
        for session in unused[: max(0, len(self._stories) - _KEPT + 1)]:
            self._drop(session)

    def _drop(self, session: str) -> None:
        story = self._stories.pop(session, None)
        if story is not None and story.file is not None:
            story.file.close()


async def _rendered(story: _Story, pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    while True:
        async with story.lock:
            piece = await asyncio.to_thread(next, pieces, b"")
        if not piece:
            return
        yield piece


def _pieces(texts: Iterator[str]) -> Iterator[bytes]:
    """Join texts to pieces of some size."""
    waiting, size = [], 0
    for text in texts:
        waiting.append(text)
        size += len(text)
        if size >= _PIECE:
            yield "".join(waiting).encode("utf-8", "replace")
            waiting, size = [], 0
    if waiting:
        yield "".join(waiting).encode("utf-8", "replace")


def _continues(growth: Growth, entries: Sequence[Entry]) -> bool:
    """Whether a session still has the entries that were read from it."""
    items = growth.story.items
    count = len(items)
    if count > len(entries):
        return False
    return not count or (items[0].id, items[-1].id) == (entries[0].id, entries[count - 1].id)
