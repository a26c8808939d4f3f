"""Keep the story of a watched session up to date and notify the pages that wait for it."""

import asyncio
import os
import re
import stat
from pathlib import Path
from typing import Self

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base import CommandError, Warn, short_id
from ludolf.page.page import render_news, render_page
from ludolf.page.page_model import Growth
from ludolf.page.summary import title
from ludolf.session.entries import Entry, SessionHeader, read_entry
from ludolf.session.migrate import migrate
from ludolf.session.reader import NotASession, parse_lines, repair

_CHUNK = 1 << 20
# Number of bytes to keep, to detect that a file of the same name has different content.
_KEPT = 256


class NewEntries(msgspec.Struct, frozen=True):
    """New entries; `from_start` means that the file was read from its start."""

    header: SessionHeader
    entries: list[Entry]
    from_start: bool


class _Unreadable(Exception):
    """The earlier entries became invalid: the file has to be read from its start."""


class Follower:
    """Reader of a growing session file.

    An incomplete last line waits for its rest; a new file at the same path is read from its start.
    """

    _seen: tuple[int, int]
    _last: bytes

    def __init__(self, path: Path, warn: Warn) -> None:
        self.path = path
        # The original file, even if the path later leads to another one.
        self._file = os.path.realpath(path)
        self._warn = warn
        self._descriptor = -1
        self._forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1

    def read(self) -> NewEntries | None:
        """Return the new entries, or None if there are none or the file is missing.

        Raises:
            NotASession: the file is not a session file.
            OSError: the file cannot be read.
        """
        try:
            if not self._find_place():
                return None
            try:
                return self._batch(self._new_lines())
            except _Unreadable:
                self._reopen()
                return self._batch(self._new_lines())
        except FileNotFoundError:
            if self._header is None:
                raise
            return None

    def opened(self) -> tuple[int, int] | None:
        """Return a descriptor of the last session file and the number of bytes read from it.

        The caller closes the descriptor. Returns None if the file is not a session.
        """
        return None if self._header is None else (os.dup(self._descriptor), self._read)

    # ------------------------------------------------------------ the file

    def _find_place(self) -> bool:
        """Open the file that the path names now; return False if it has nothing new."""
        there = os.stat(self._file, follow_symlinks=False)
        if self._descriptor < 0:
            self._reopen()
            return True
        held = os.fstat(self._descriptor)
        if (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino) or held.st_size < self._read:
            self._reopen()
            return True
        if (held.st_size, held.st_mtime_ns) == self._seen:
            return False
        self._seen = (held.st_size, held.st_mtime_ns)
        if os.pread(self._descriptor, len(self._last), self._read - len(self._last)) != self._last:
            self._reopen()
            return True
        return held.st_size > self._read

    def _reopen(self) -> None:
        """Restart with the file that now has the path, without following links.

        Raises:
            NotASession: it is not a regular file, or the path contains a link now.
        """
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW
        if os.path.realpath(self._file) != self._file:
            raise NotASession(f"The session file became a link, which is not followed: {self.path}")
        descriptor = os.open(self._file, flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotASession(f"Session file is not a regular file: {self.path}")
        self.close()
        self._descriptor = descriptor
        self._forget()

    def _forget(self) -> None:
        self._header: SessionHeader | None = None
        self._old = False
        self._ids: set[str] = set()
        self._read = 0
        self._seen = (0, 0)
        self._last = b""
        self._torn = b""

    def _new_lines(self) -> list[bytes]:
        lines: list[bytes] = []
        while chunk := os.pread(self._descriptor, _CHUNK, self._read):
            self._read += len(chunk)
            self._last = (self._last + chunk)[-_KEPT:]
            first, newline, rest = chunk.partition(b"\n")
            self._torn += first
            if newline:
                *whole, torn = rest.split(b"\n")
                lines += (self._torn, *whole)
                self._torn = torn
        # Complete JSON cannot be the start of a longer line, so it needs no line end.
        if self._torn.rstrip().endswith(b"}") and read_entry(self._torn) is not None:
            lines.append(self._torn)
            self._torn = b""
        return [line + b"\n" for line in lines if line.strip()]

    # ------------------------------------------------------------ what it says

    def _batch(self, lines: list[bytes]) -> NewEntries | None:
        """Decode new lines.

        Raises:
            _Unreadable: these lines can only be decoded together with all earlier ones.
        """
        if self._header is None:
            return self._first(lines)
        if self._old:
            raise _Unreadable
        entries = [entry for entry in map(read_entry, lines) if entry is not None]
        ids = {entry.id for entry in entries}
        # Repeated ids are renamed, which requires all entries.
        if len(ids) < len(entries) or ids & self._ids:
            raise _Unreadable
        self._ids |= ids
        return NewEntries(self._header, entries, from_start=False) if entries else None

    def _first(self, lines: list[bytes]) -> NewEntries | None:
        if not lines:
            return None
        present = migrate(lines)
        loaded = parse_lines(present, self.path)
        repair(loaded.entries, loaded.bad_lines, self.path, self._warn)
        assert loaded.header is not None
        self._header, self._old = loaded.header, present is not lines
        self._ids = {entry.id for entry in loaded.entries}
        return NewEntries(loaded.header, loaded.entries, from_start=True)


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
        """The name of the session, else its first prompt."""
        return title(self._growth.story)

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
                if str(problem) != self._last_warning:
                    self._last_warning = str(problem)
                    self._warn(str(problem))
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
