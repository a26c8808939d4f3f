"""Read session files line by line; skip damaged lines, never block on a device.

`repair` makes a tree of the entries of a damaged file, in memory and in linear time.
"""

import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from ludolf.base import CommandError, Warn
from ludolf.session.entries import (
    VERSION,
    Entry,
    SessionHeader,
    entry_of,
    fields,
    header_version,
    read_entry,
    read_object,
)
from ludolf.session.store import file_state

HEADER_SCAN = 1 << 20
_HEADER_LIMIT = 16 << 20
_SHOWN = 40


class NotASession(CommandError):
    """The file is not a session file; it was not changed."""


class Loaded(msgspec.Struct, kw_only=True):
    """The content of a file. `torn`: the last line has no LF. `header_at`: offset of the header.

    `state` is the `file_state` from before the file was read; () for lines in memory.
    """

    header: SessionHeader | None
    header_line: bytes
    header_at: int
    entries: list[Entry]
    bad_lines: int
    torn: bool
    size: int
    state: tuple[int, ...] = ()


def read_session(path: Path) -> Loaded:
    """Read a session file. Skips blank and invalid lines; `header` is None for an empty file.

    Raises:
        NotASession: it is not a regular file or does not begin with a session header.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        state = file_state(file.fileno())
        loaded = _parse(file, path)
    loaded.state = state
    return loaded


def parse_lines(lines: list[bytes], path: Path) -> Loaded:
    """Parse lines in memory that are, or will be, the content of the file."""
    from io import BytesIO

    return _parse(BytesIO(b"".join(lines)), path)


def _parse(file: BinaryIO, path: Path) -> Loaded:
    header, first, bad = _read_header(file, path)
    header_at = file.tell() - len(first)
    entries: list[Entry] = []
    last = first
    before = ""
    for last in file:
        entry = read_entry(last)
        if entry is not None:
            entries.append(entry)
            if entry.parent_id == before:
                entry.parent_id = before  # one string in memory, whose hash is computed once
            before = entry.id
        elif last.strip():
            bad += 1
    size = file.tell()
    torn = bool(last) and not last.endswith(b"\n")
    if torn and entries:
        entries[-1].line = whole_line(entries[-1].line)
    return Loaded(
        header=header,
        header_line=whole_line(first),
        header_at=header_at,
        entries=entries,
        bad_lines=bad,
        torn=torn,
        size=size,
    )


def whole_line(line: bytes) -> bytes:
    return line if line.endswith(b"\n") or not line else line + b"\n"


def read_lines(path: Path) -> list[bytes]:
    """Return every line of the file unchanged, to rewrite it."""
    with open_regular(path) as file:
        return list(file)


def read_header(path: Path) -> SessionHeader | None:
    """Read the header from the first part of the file; None if the file is not a session."""
    try:
        return require_header(path)
    except (NotASession, OSError):
        return None


def require_header(path: Path) -> SessionHeader:
    """Read the header from the first part of the file.

    Raises:
        NotASession: the file has no valid header.
        OSError: it cannot be read.
    """
    with open_regular(path) as file:
        header = _read_header(file, path, limit=HEADER_SCAN)[0]
    if header is None:
        raise NotASession(_not_a_session(path))
    return header


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading; never blocks on a pipe or a device."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotASession(_not_a_session(path))
    return open(descriptor, "rb", buffering=1 << 20)


def _read_header(
    file: BinaryIO, path: Path, limit: int = _HEADER_LIMIT
) -> tuple[SessionHeader | None, bytes, int]:
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


def _header(value: dict[str, Any], path: Path) -> SessionHeader:
    if value.get("type") != "session" or not isinstance(value.get("id"), str):
        raise NotASession(_not_a_session(path))
    version, parent = header_version(value), value.get("parentSession")
    if version is None:
        raise NotASession(
            f"Session file has an invalid version ({_shown(value['version'])}): {path}. It was not "
            f"changed. Correct the version in its first line; the current version is {VERSION}."
        )
    return SessionHeader(
        version=version,
        id=value["id"],
        timestamp=str(value.get("timestamp") or ""),
        cwd=str(value.get("cwd") or ""),
        parent_session=parent if isinstance(parent, str) else None,
    )


def _shown(value: Any) -> str:
    import json

    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _not_a_session(path: Path) -> str:
    return f"Session file is not a valid pi session: {path}"


# ---------------------------------------------------------------- damaged files


def repair(entries: list[Entry], bad_lines: int, path: Path, warn: Warn) -> None:
    """Rename duplicate ids, cut parent cycles, and return a warning with the counts."""
    if not bad_lines and _is_sound(entries):
        return
    repeated = _rename_duplicates(entries)
    cycles = _cut_cycles(entries)
    ids = {entry.id for entry in entries}
    orphans = sum(
        1 for entry in entries if entry.parent_id is not None and entry.parent_id not in ids
    )
    problems = [
        f"{count} {what}"
        for count, what in (
            (bad_lines, "unreadable line(s) skipped"),
            (repeated, "repeated id(s) renamed"),
            (cycles, "circle(s) of parents cut"),
            (orphans, "entry(ies) without their parent"),
        )
        if count
    ]
    if problems:
        warn(f"Session file is damaged: {path}: {', '.join(problems)}")


def _is_sound(entries: list[Entry]) -> bool:
    seen: set[str | None] = {None}
    for entry in entries:
        if entry.id in seen or entry.parent_id not in seen:
            return False
        seen.add(entry.id)
    return True


def _rename_duplicates(entries: list[Entry]) -> int:
    seen: set[str] = set()
    newest: dict[str, str] = {}
    renamed = 0
    for entry in entries:
        # A child follows its parent in the file, so it refers to the latest entry of that id.
        parent = newest.get(entry.parent_id) if entry.parent_id is not None else None
        name = entry.id
        if name in seen:
            renamed += 1
            # The new id is the same at each reading, since later entries in the file refer to it.
            name = _second_name(entry.id, seen, newest)
            newest[entry.id] = name
        seen.add(name)
        if name != entry.id or parent is not None:
            _rewrite(entry, name, parent or entry.parent_id)
    return renamed


def _second_name(entry_id: str, seen: set[str], newest: dict[str, str]) -> str:
    last = newest.get(entry_id, "")
    number = int(last.rpartition("~")[2]) + 1 if last else 2
    while f"{entry_id}~{number}" in seen:
        number += 1
    return f"{entry_id}~{number}"


def _cut_cycles(entries: list[Entry]) -> int:
    place = {entry.id: index for index, entry in enumerate(entries)}
    backwards = all(
        place.get(entry.parent_id, -1) < index if entry.parent_id is not None else True
        for index, entry in enumerate(entries)
    )
    return 0 if backwards else _walk_all(entries, place)


def _walk_all(entries: list[Entry], place: dict[str, int]) -> int:
    done: set[int] = set()
    cut = 0
    for start in range(len(entries) - 1, -1, -1):
        walk: set[int] = set()
        index: int | None = start
        while index is not None and index not in done:
            walk.add(index)
            entry = entries[index]
            above = place.get(entry.parent_id) if entry.parent_id is not None else None
            if above is not None and above in walk:
                # An entry that is its own parent is a root; a longer cycle is cut here.
                cut += above != index
                _rewrite(entry, entry.id, None)
                above = None
            index = above
        done |= walk
    return cut


def _rewrite(entry: Entry, name: str, parent: str | None) -> None:
    body = {**fields(entry), "id": name, "parentId": parent}
    rewritten = entry_of(body)
    entry.id, entry.parent_id = name, parent
    if rewritten is not None:
        entry.line, entry.message, entry.sound = rewritten.line, rewritten.message, True
