"""Find session files: by path, id or project, and list them."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ludolf.base import CommandError, Value, check_path
from ludolf.session.entries import (
    Entry,
    SessionHeader,
    fields,
    message_of,
    role_of,
    text_field,
    time_ms,
)
from ludolf.session.reader import Loaded, NotASession, read_header, read_session
from ludolf.session.store import make_folders
from ludolf.session.tree import clean_name
from ludolf.session.views import user_text

_SESSION_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")


class SessionElsewhere(CommandError):
    """The requested session belongs to another project; it can only be forked into this one."""

    def __init__(self, path: Path, cwd: str) -> None:
        super().__init__(
            f"Session found in different project: {cwd}. Use --fork {path} to continue it here."
        )
        self.path = path


class SessionFolder(msgspec.Struct, frozen=True, kw_only=True):
    """Session folder of a project. A custom folder is flat and may hold several projects."""

    agent_dir: Path
    cwd: str
    custom: Path | None = None

    @property
    def root(self) -> Path:
        return self.agent_dir / "sessions"

    @property
    def folder(self) -> Path:
        return self.custom if self.custom is not None else self.root / encode_cwd(self.cwd)


class SessionRecord(Value, kw_only=True):
    """One row of a session list; times are in Unix milliseconds."""

    path: str
    id: str
    cwd: str
    name: str | None = None
    parent_session_path: str | None = None
    created: int
    modified: int
    message_count: int
    first_message: str


def encode_cwd(cwd: str) -> str:
    """Return the folder name for a project; different projects may share one."""
    name = re.sub(r"[/\\:]", "-", re.sub(r"^[/\\]", "", cwd))
    return f"--{name}--"


def check_session_id(session_id: str) -> str:
    """Return a valid session id unchanged.

    Raises:
        CommandError: the id is invalid.
    """
    if not _SESSION_ID.match(session_id):
        raise CommandError(
            "Session id must be non-empty, contain only alphanumeric characters, '-', '_', and "
            "'.', and start and end with an alphanumeric character"
        )
    return session_id


def latest(place: SessionFolder) -> Path | None:
    """Return the session to continue: the newest file of this project."""
    return next((path for path, _ in _sessions(place)), None)


def newest(folder: Path) -> Path | None:
    """Return the last changed session of a folder that has a message, of any project."""
    return next((path for path, _ in _files(folder) if _has_messages(path)), None)


def find(place: SessionFolder, wanted: str) -> Path:
    """Return the session file for a path, an id, or the prefix of an id.

    Raises:
        SessionElsewhere: only another project has it.
        CommandError: no session matches.
    """
    if "/" in wanted or "\\" in wanted or wanted.endswith(".jsonl"):
        return Path(place.cwd, os.path.expanduser(check_path(wanted)))
    here = list(_sessions(place))
    path = _match(here, wanted)
    if path is not None:
        return path
    everywhere = list(_all_sessions(place))
    path = _match(everywhere, wanted)
    if path is None:
        raise CommandError(f"No session found matching '{wanted}'")
    raise SessionElsewhere(path, dict(everywhere)[path].cwd)


def find_id(place: SessionFolder, session_id: str) -> Path | None:
    """Return the file of this project with exactly this session id."""
    return next((path for path, header in _sessions(place) if header.id == session_id), None)


def session_ids(place: SessionFolder) -> Iterator[str]:
    """Yield the ids of the sessions of this project, last changed first; reads only headers."""
    return (header.id for _, header in _sessions(place))


def check_cwd(header: SessionHeader, path: Path | None, current: str) -> None:
    """Check that the working directory of a session exists.

    Raises:
        CommandError: the directory is missing.
    """
    if header.cwd and not os.path.isdir(header.cwd):
        raise CommandError(
            f"Stored session working directory does not exist: {header.cwd}\n"
            f"Session file: {path}\nCurrent working directory: {current}"
        )


def list_sessions(place: SessionFolder, *, everywhere: bool = False) -> list[SessionRecord]:
    """List sessions of this project or of all, last used first; skips unreadable files."""
    found = _all_sessions(place) if everywhere else _sessions(place)
    records = [record for path, _ in found if (record := read_record(path)) is not None]
    return sorted(records, key=lambda record: record.modified, reverse=True)


def read_record(path: Path) -> SessionRecord | None:
    """Read the list row of a file; None if the file is not a session."""
    try:
        loaded = read_session(path)
        changed = os.stat(path).st_mtime_ns // 1_000_000
    except (NotASession, OSError):
        return None
    header = loaded.header
    if header is None:
        return None
    created = time_ms(header.timestamp)
    return SessionRecord(
        path=str(path),
        id=header.id,
        cwd=header.cwd,
        name=_name(loaded.entries),
        parent_session_path=header.parent_session,
        created=created,
        modified=_last_spoken(loaded.entries) or created or changed,
        message_count=sum(1 for entry in loaded.entries if entry.type == "message"),
        first_message=_first_text(loaded),
    )


def move_old_sessions(agent_dir: Path) -> list[tuple[Path, Path]]:
    """Move session files that an old version stored in the agent folder to their projects."""
    moved = []
    for path in agent_dir.glob("*.jsonl"):
        header = read_header(path)
        if header is None or not header.cwd:
            continue
        target = agent_dir / "sessions" / encode_cwd(header.cwd) / path.name
        try:
            make_folders(target.parent)
            if not target.exists():
                os.rename(path, target)
                moved.append((path, target))
        except OSError:
            continue
    return moved


def _sessions(place: SessionFolder) -> Iterator[tuple[Path, SessionHeader]]:
    for path, header in _files(place.folder):
        if place.custom is None or header.cwd == place.cwd:
            yield path, header


def _all_sessions(place: SessionFolder) -> Iterator[tuple[Path, SessionHeader]]:
    if place.custom is not None:
        yield from _files(place.custom)
    folders = sorted(place.root.iterdir()) if place.root.is_dir() else []
    for folder in folders:
        if folder.is_dir() and folder != place.custom:
            yield from _files(folder)


def _files(folder: Path) -> Iterator[tuple[Path, SessionHeader]]:
    """Return the session files of a folder, last changed first."""
    dated = []
    for path in folder.glob("*.jsonl") if folder.is_dir() else ():
        try:
            dated.append((os.stat(path).st_mtime_ns, path))
        except OSError:
            continue
    for _, path in sorted(dated, reverse=True):
        header = read_header(path)
        if header is not None:
            yield path, header


def _has_messages(path: Path) -> bool:
    try:
        return any(role_of(entry) for entry in read_session(path).entries)
    except (NotASession, OSError):
        return False


def _match(found: list[tuple[Path, SessionHeader]], wanted: str) -> Path | None:
    for path, header in found:
        if header.id == wanted:
            return path
    for path, header in found:
        if wanted and header.id.startswith(wanted):
            return path
    return None


def _name(entries: list[Entry]) -> str | None:
    for entry in reversed(entries):
        if entry.type == "session_info":
            return clean_name(text_field(fields(entry), "name")) or None
    return None


def _last_spoken(entries: list[Entry]) -> int:
    for entry in reversed(entries):
        if role_of(entry) in ("user", "assistant"):
            return int(getattr(message_of(entry), "timestamp", 0) or time_ms(entry.timestamp))
    return 0


def _first_text(loaded: Loaded) -> str:
    for entry in loaded.entries:
        if role_of(entry) == "user" and (text := user_text(entry)):
            return text
    return "(no messages)"
