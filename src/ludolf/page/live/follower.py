"""Follow a session file that other programs write: read new complete lines, without a lock."""

import os
import stat
from pathlib import Path
from typing import Self

import msgspec

from ludolf.base import Warn
from ludolf.session.entries import Entry, SessionHeader, read_entry
from ludolf.session.migrate import migrate
from ludolf.session.reader import NotASession, parse_lines
from ludolf.session.repair import repair

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
