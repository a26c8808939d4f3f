"""Reads a session file while others write it: new bytes only, whole lines only, never a lock."""

import os
import stat
from pathlib import Path
from typing import Self

import msgspec

from ludolf.session.entries import Entry, Header, read_entry
from ludolf.session.migrate import migrate
from ludolf.session.reader import NotASession, parse_lines
from ludolf.session.repair import repair
from ludolf.session.store import Warn

_CHUNK = 1 << 20
# Enough of what was read last to notice that a file of the same name now holds something else.
_KEPT = 256


class Batch(msgspec.Struct, frozen=True):
    """What came since the last reading; `anew` means that it is the file from its beginning."""

    header: Header
    entries: list[Entry]
    anew: bool


class _Unreadable(Exception):
    """What was read so far no longer holds: the file has to be read from its beginning."""


class Follower:
    """A torn last line waits for its rest; another file in the same place is read from scratch."""

    _seen: tuple[int, int]
    _last: bytes

    def __init__(self, path: Path, warn: Warn) -> None:
        self.path = path
        # The file that was asked for, also if the path comes to lead elsewhere.
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

    def read(self) -> Batch | None:
        """What was added, or None if nothing was. A vanished file is waited for.

        Raises:
            NotASession: what is there is no session file.
            OSError: it cannot be read.
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
        """A descriptor of the session file that was read last, and how many bytes of it were read.

        The caller closes the descriptor. Returns None if what was read is not a session.
        """
        return None if self._header is None else (os.dup(self._descriptor), self._read)

    # ------------------------------------------------------------ the file

    def _find_place(self) -> bool:
        """Hold the file that the path names now; False if it holds nothing new."""
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
        """Begin again with the file that now has the path. Links are not followed.

        Raises:
            NotASession: it is not a regular file, or the path leads through a link now.
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
        self._header: Header | None = None
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
        # JSON that is whole cannot be the beginning of a longer line: it needs no line end.
        if self._torn.rstrip().endswith(b"}") and read_entry(self._torn) is not None:
            lines.append(self._torn)
            self._torn = b""
        return [line + b"\n" for line in lines if line.strip()]

    # ------------------------------------------------------------ what it says

    def _batch(self, lines: list[bytes]) -> Batch | None:
        """Raises:
        _Unreadable: only a reading from the beginning can tell what these lines mean.
        """
        if self._header is None:
            return self._first(lines)
        if self._old:
            raise _Unreadable
        entries = [entry for entry in map(read_entry, lines) if entry is not None]
        ids = {entry.id for entry in entries}
        # Repeated ids are given second names, which takes the knowledge of all entries.
        if len(ids) < len(entries) or ids & self._ids:
            raise _Unreadable
        self._ids |= ids
        return Batch(self._header, entries, anew=False) if entries else None

    def _first(self, lines: list[bytes]) -> Batch | None:
        if not lines:
            return None
        present = migrate(lines)
        loaded = parse_lines(present, self.path)
        repair(loaded.entries, loaded.bad_lines, self.path, self._warn)
        assert loaded.header is not None
        self._header, self._old = loaded.header, present is not lines
        self._ids = {entry.id for entry in loaded.entries}
        return Batch(loaded.header, loaded.entries, anew=True)
