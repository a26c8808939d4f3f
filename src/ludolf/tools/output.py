"""Output of a command: remove terminal control, count, keep the tail and save the rest."""

import codecs
import os
import stat
import time
from pathlib import Path
from typing import Self

from ludolf.base.patterns import lazy_pattern
from ludolf.tools.files import write_all
from ludolf.tools.truncate import MAX_BYTES, MAX_LINES, TAIL_CHARS, Totals, Truncation, keep_tail

_CONTROLS = bytes(set(range(32)) - {0x09, 0x0A} | {0x7F})
_CONTROL_SIGNS = tuple(bytes((sign,)) for sign in _CONTROLS)

# Terminal control in both forms: two bytes from ESC, or one C1 character (C2 xx in UTF-8).
_STRING_START = rb"(?:\x1b[\]PX^_]|\xc2[\x90\x98\x9d\x9e\x9f])"
# An unterminated string must not hide the output after it: it ends with its line, when it is
# cancelled (CAN, SUB), or after this number of bytes.
_LONGEST_STRING = 4096
_STRING_BODY = rb"(?:[^\n\x07\x18\x1a\x1b\xc2]|\xc2(?!\x9c)){0,%d}+" % _LONGEST_STRING
_SEQUENCE = lazy_pattern(
    rb"(?:\x1b\[|\xc2\x9b)[0-?]*[ -/]*[@-~]?"
    rb"|" + _STRING_START + _STRING_BODY + rb"(?:[\x07\x18\x1a]|\xc2\x9c)?"
    rb"|\x1b[ -/]*[0-~]?"
    rb"|\xc2[\x80-\x9f]"
)
_C1 = lazy_pattern(rb"\xc2(?:[\x80-\x9f]|\Z)")
_STYLE = lazy_pattern(rb"\x1b\[[0-9;]*m")
_FREQUENT = 8
_STRING_END = lazy_pattern(rb"[\x07\x18\x1a]|\xc2\x9c|(?=[\n\x1b])")
_OPEN_STRING = lazy_pattern(_STRING_START + rb"(" + _STRING_BODY + rb")\Z")
_UNFINISHED = lazy_pattern(rb"(?:\x1b(?:\[[0-?]*)?[ -/]*|\xc2(?:\x9b[0-?]*[ -/]*)?)\Z")
_LONGEST_UNFINISHED = 64

MAX_SPILL_BYTES = 1024**3
# Folders with the output of commands, in the system's temporary folder.
SPILL_PREFIX = "ludolf-"
# Folders with the output of commands in a sandbox, one for each working folder.
OUTPUT_PREFIX = "output-"
_KEEP_SECONDS = 7 * 24 * 3600
_CUT_NOTE = b"\n[output over 1 GiB is not kept]\n"


class Cleaner:
    """Convert raw output, in pieces of any size, to text without terminal control."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = b""
        self._in_string = False
        self._string_bytes = 0

    def feed(self, data: bytes) -> str:
        if self._held:
            data = self._held + data
            self._held = b""
        if self._in_string:
            data = self._skip_string(data)
        if _has_control(data):
            data = self._strip(data)
        # Most output has none of these, and to look for each is faster than to copy the rest.
        if any(sign in data for sign in _CONTROL_SIGNS):
            data = data.translate(None, _CONTROLS)
        return self._decoder.decode(data)

    def finish(self) -> str:
        """Return the pending text; an incomplete character becomes one replacement mark."""
        return self._decoder.decode(b"", final=True)

    def _strip(self, data: bytes) -> bytes:
        start = max(0, len(data) - _LONGEST_UNFINISHED)
        unfinished = _UNFINISHED.search(data, start)
        if unfinished:
            self._held = unfinished.group()
            data = data[: unfinished.start()]
        string = _OPEN_STRING.search(data, max(0, data.rfind(b"\x1b")))
        if string:
            self._in_string = True
            self._string_bytes = len(string[1])
        # Colours repeat: removing all copies of one at once is ten times faster than the pattern.
        for _ in range(_FREQUENT):
            style = _STYLE.search(data)
            if not style:
                break
            # CAN ends a control string as the ESC did, and is removed below.
            data = data.replace(style.group(), b"\x18")
        return _SEQUENCE.sub(b"", data) if _has_control(data) else data

    def _skip_string(self, data: bytes) -> bytes:
        room = _LONGEST_STRING - self._string_bytes
        end = _STRING_END.search(data)
        if end and end.start() <= room:
            self._in_string = False
            return data[end.end() :]
        if data.endswith(b"\xc2"):  # possibly the first byte of the terminator
            self._held = data[-1:]
            data = data[:-1]
        if len(data) > room:
            self._in_string = False
            data, self._held = data + self._held, b""
            return data[room:]
        self._string_bytes += len(data)
        return b""


class OutputTail:
    """Output of one command: takes raw bytes, provides clean text, counts and the tail."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._cleaner = Cleaner()
        self._pieces: list[str] = []
        self._piece_chars = 0
        self._newlines = 0
        self._bytes = 0
        self._open_line = 0
        self._closed_line = 0
        self._raw: list[bytes] = []
        self._raw_bytes = 0
        self._spill: Spill | None = None
        self.spill_error: str | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._spill:
            self._spill.close()

    @property
    def totals(self) -> Totals:
        return Totals(lines=self._newlines + (self._open_line > 0), bytes=self._bytes)

    @property
    def last_line_bytes(self) -> int:
        return self._open_line or self._closed_line

    @property
    def full_output_path(self) -> str | None:
        """Path of the file with the raw output; None until the output exceeds the limits."""
        return self._spill.path if self._spill else None

    def feed(self, data: bytes) -> str:
        """Add a piece of raw output; return the clean text that it adds."""
        text = self._cleaner.feed(data)
        self._add(text)
        self._keep_raw(data)
        return text

    def finish(self) -> str:
        """End the output; return the clean text that was pending."""
        text = self._cleaner.finish()
        self._add(text)
        return text

    def tail(self) -> Truncation:
        """Return the part of the output so far that is shown."""
        self._pieces = ["".join(self._pieces)]
        return keep_tail(self._pieces[0], totals=self.totals)

    def _add(self, text: str) -> None:
        if not text:
            return
        self._count(text)
        self._pieces.append(text[-TAIL_CHARS:])
        self._piece_chars += len(self._pieces[-1])
        if self._piece_chars > 4 * TAIL_CHARS:
            self._pieces = ["".join(self._pieces)[-TAIL_CHARS:]]
            self._piece_chars = TAIL_CHARS

    def _count(self, text: str) -> None:
        data = text.encode()
        size = len(data)
        self._bytes += size
        last = data.rfind(b"\n")
        if last < 0:
            self._open_line += size
            return
        # Twice as fast as `count` where lines are short.
        self._newlines += size - len(data.replace(b"\n", b""))
        before = data.rfind(b"\n", 0, last)
        closed = last - before - 1
        self._closed_line = closed + (self._open_line if before < 0 else 0)
        self._open_line = size - last - 1

    def _keep_raw(self, data: bytes) -> None:
        self._raw_bytes += len(data)
        if self._spill:
            self._spill.write(data)
            self.spill_error = self._spill.error
            return
        if self.spill_error:
            return
        self._raw.append(data)
        totals = self.totals
        if max(self._raw_bytes, totals.bytes) > MAX_BYTES or totals.lines > MAX_LINES:
            self._start_spill()

    def _start_spill(self) -> None:
        try:
            self._spill = Spill(self._folder)
        except OSError as error:
            self.spill_error = error.strerror or str(error)
        else:
            self._spill.write(b"".join(self._raw))
            self.spill_error = self._spill.error
        self._raw = []


def _has_control(data: bytes) -> bool:
    return b"\x1b" in data or (b"\xc2" in data and _C1.search(data) is not None)


class Spill:
    """An append-only private file. A full disk ends the spill, never the command."""

    def __init__(self, folder: Path | None = None) -> None:
        self.error: str | None = None
        self._size = 0
        target = (folder or spill_folder()) / f"pi-bash-{os.urandom(8).hex()}.log"
        self.path = str(target)
        self._file = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        if self.error or self._size >= MAX_SPILL_BYTES:
            return
        self._size += len(data)
        if self._size >= MAX_SPILL_BYTES:
            data += _CUT_NOTE
        try:
            write_all(self._file, data)
        except OSError as error:
            self.error = error.strerror or str(error)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def spill_folder() -> Path:
    """Return a folder in the system's temporary folder that only this user can enter."""
    from tempfile import gettempdir, mkdtemp

    folder = Path(gettempdir()) / f"{SPILL_PREFIX}{os.getuid()}"
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        if not _is_private(folder):
            return Path(mkdtemp(prefix=SPILL_PREFIX))
    _remove_old(folder)
    return folder


def make_private(folder: Path) -> Path:
    """Create a folder that only this user can enter."""
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _is_private(folder: Path) -> bool:
    status = folder.lstat()
    private = not status.st_mode & 0o077 and status.st_uid == os.getuid()
    return stat.S_ISDIR(status.st_mode) and private


def _remove_old(folder: Path) -> None:
    limit = time.time() - _KEEP_SECONDS
    for entry in os.scandir(folder):
        try:
            is_old = entry.stat(follow_symlinks=False).st_mtime < limit
            if entry.name.startswith(OUTPUT_PREFIX):
                _remove_old(Path(entry.path))
                if is_old:
                    os.rmdir(entry.path)
            elif is_old:
                os.unlink(entry.path)
        except OSError:
            continue  # another process of ours may clean up at the same time
