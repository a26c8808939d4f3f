"""Reading session files: line by line, tolerant of damage, never waiting on a device."""

import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from ludolf.base import CommandError
from ludolf.session.entries import Entry, Header, read_entry, read_object

HEADER_SCAN = 1 << 20
_HEADER_LIMIT = 16 << 20


class NotASession(CommandError):
    """The file is no session file; it was left untouched."""


class Loaded(msgspec.Struct, kw_only=True):
    """What a file held. `torn`: its last line has no LF."""

    header: Header | None
    header_line: bytes
    entries: list[Entry]
    bad_lines: int
    torn: bool
    size: int


def read_session(path: Path) -> Loaded:
    """Read a session file. Blank and broken lines are skipped; `header` is None for an empty file.

    Raises:
        NotASession: it is not a regular file or does not begin with a session header.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        return _parse(file, path)


def parse_lines(lines: list[bytes], path: Path) -> Loaded:
    """The same for lines that are to become, or just became, the file."""
    from io import BytesIO

    return _parse(BytesIO(b"".join(lines)), path)


def _parse(file: BinaryIO, path: Path) -> Loaded:
    header, first, bad = _read_header(file, path)
    entries: list[Entry] = []
    last = first
    for last in file:
        entry = read_entry(last)
        if entry is not None:
            entries.append(entry)
        elif last.strip():
            bad += 1
    size = file.tell()
    torn = bool(last) and not last.endswith(b"\n")
    if torn and entries:
        entries[-1].line = whole_line(entries[-1].line)
    return Loaded(
        header=header,
        header_line=whole_line(first),
        entries=entries,
        bad_lines=bad,
        torn=torn,
        size=size,
    )


def whole_line(line: bytes) -> bytes:
    return line if line.endswith(b"\n") or not line else line + b"\n"


def read_lines(path: Path) -> list[bytes]:
    """Every line of the file as it stands, for rewriting it."""
    with open_regular(path) as file:
        return list(file)


def read_header(path: Path) -> Header | None:
    """The header, looked for in the first part of the file only; None if it is no session."""
    try:
        with open_regular(path) as file:
            return _read_header(file, path, limit=HEADER_SCAN)[0]
    except (NotASession, OSError):
        return None


def open_regular(path: Path) -> BinaryIO:
    """Open for reading without ever waiting on a pipe or a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotASession(_not_a_session(path))
    return open(descriptor, "rb", buffering=1 << 20)


def _read_header(
    file: BinaryIO, path: Path, limit: int = _HEADER_LIMIT
) -> tuple[Header | None, bytes, int]:
    bad = seen = 0
    while seen < limit:
        line = file.readline(limit - seen)
        if not line:
            break
        seen += len(line)
        value = read_object(line)
        if value is not None:
            return _header(value, path), line, bad
        bad += bool(line.strip())
    if seen:
        raise NotASession(_not_a_session(path))
    return None, b"", 0


def _header(value: dict[str, Any], path: Path) -> Header:
    if value.get("type") != "session" or not isinstance(value.get("id"), str):
        raise NotASession(_not_a_session(path))
    version, parent = value.get("version"), value.get("parentSession")
    return Header(
        version=version if isinstance(version, int) else None,
        id=value["id"],
        timestamp=str(value.get("timestamp") or ""),
        cwd=str(value.get("cwd") or ""),
        parent_session=parent if isinstance(parent, str) else None,
    )


def _not_a_session(path: Path) -> str:
    return f"Session file is not a valid pi session: {path}"
