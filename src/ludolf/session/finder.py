"""Find session files: by path, id or project, and list them."""

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from ludolf.base import CommandError, Value, check_path, expand_user
from ludolf.base.patterns import lazy_pattern
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

_TO_DASHES = str.maketrans("/\\:", "---")
_SESSION_ID = lazy_pattern(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?\Z")

# Length of short ids; sessions and characters of a title in an error.
_SHORT = 8
_LISTED = 10
_TITLE = 48


class SessionElsewhere(CommandError):
    """The requested session belongs to another project; it can only be forked into this one."""

    def __init__(self, path: Path, cwd: str) -> None:
        super().__init__(
            f"Session found in different project: {cwd}. Continue it there, or continue a copy of "
            f"it here: ludolf --fork {path}"
        )
        self.path = path


class SessionFolder(msgspec.Struct, frozen=True, kw_only=True):
    """Session folder of a project. A custom folder is flat and may hold several projects.

    `home` is what `~` at the start of a path stands for.
    """

    agent_dir: Path
    cwd: str
    home: Path
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

    @property
    def title(self) -> str:
        """The name, else the first prompt."""
        from ludolf.session.views import prompt_title

        return self.name or prompt_title(self.first_message)


class SessionPage(msgspec.Struct, frozen=True):
    """Some rows of a session list, and the cursor of the next ones if there are more."""

    records: tuple[SessionRecord, ...]
    next_cursor: str | None = None


def encode_cwd(cwd: str) -> str:
    """Return the folder name for a project; different projects may share one."""
    name = cwd[1:] if cwd.startswith(("/", "\\")) else cwd
    return f"--{name.translate(_TO_DASHES)}--"


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


def as_path(cwd: str, wanted: str, home: Path) -> Path | None:
    """Return the path that the name of a session is; None for an id and for `last`.

    Raises:
        CommandError: no file can have this path.
    """
    if "/" in wanted or "\\" in wanted or wanted.endswith(".jsonl"):
        return Path(cwd, expand_user(check_path(wanted), home))
    return None


def find(place: SessionFolder, wanted: str) -> Path:
    """Return the session file for a path, an id, `last`, or an unambiguous prefix of an id.

    Raises:
        SessionElsewhere: only another project has it.
        CommandError: no session matches, or several do.
    """
    named = as_path(place.cwd, wanted, place.home)
    if named is not None:
        return named
    here = list(_sessions(place))
    path = _with_id(here, wanted)
    if path is None and wanted == "last":
        if not here:
            raise CommandError("This folder has no sessions yet.")
        path = here[0][0]
    if path is not None:
        return path
    everywhere = list(_all_sessions(place))
    path = _with_id(everywhere, wanted)
    if path is None:
        path = _with_prefix(here, wanted)
        if path is not None:
            return path
        path = _with_prefix(everywhere, wanted)
    if path is None:
        raise CommandError(f"No session found matching '{wanted}'")
    raise SessionElsewhere(path, dict(everywhere)[path].cwd)


def find_id(place: SessionFolder, session_id: str) -> Path | None:
    """Return the file of this project with exactly this session id."""
    return next((path for path, header in _sessions(place) if header.id == session_id), None)


def with_id(folder: Path, session_id: str) -> Path | None:
    """Return the file of a folder with exactly this session id, of any project."""
    return _with_id(list(_files(folder)), session_id)


def find_anywhere(place: SessionFolder, session_id: str) -> Path | None:
    """Return the file with exactly this session id, of this project first, then of any other."""
    return find_id(place, session_id) or _with_id(list(_all_sessions(place)), session_id)


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


def session_page(
    place: SessionFolder, size: int, cursor: str | None, *, everywhere: bool = False
) -> SessionPage | None:
    """Return some sessions of this project or of all, last changed first.

    Only the files of the page are read whole. None if the cursor is not one of this function.
    """
    found = _all_sessions(place) if everywhere else _of_folder(place)
    dated = sorted(((_changed_at(path), header.id, path) for path, header in found), reverse=True)
    if cursor is not None:
        stamp, _, session_id = cursor.partition(".")
        if not stamp.isdecimal():
            return None
        dated = [row for row in dated if row[:2] < (int(stamp), session_id)]
    chosen = dated[:size]
    records = tuple(record for *_, path in chosen if (record := read_record(path)) is not None)
    last = f"{chosen[-1][0]}.{chosen[-1][1]}" if len(dated) > size else None
    return SessionPage(records, last)


def _of_folder(place: SessionFolder) -> Iterator[tuple[Path, SessionHeader]]:
    """Return the sessions of exactly this folder: different ones may share a session folder."""
    real = os.path.realpath(place.cwd)
    for path, header in _files(place.folder):
        if header.cwd == place.cwd or os.path.realpath(header.cwd) == real:
            yield path, header


def _changed_at(path: Path) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


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


def _named_as_sessions(folder: Path) -> list[Path]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [folder / name for name in names if name.endswith(".jsonl")]


def move_old_sessions(agent_dir: Path) -> list[tuple[Path, Path]]:
    """Move session files that an old version stored in the agent folder to their projects."""
    moved = []
    for path in _named_as_sessions(agent_dir):
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
    for path in _named_as_sessions(folder):
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


def _with_id(found: list[tuple[Path, SessionHeader]], wanted: str) -> Path | None:
    return next((path for path, header in found if header.id == wanted), None)


def _with_prefix(found: list[tuple[Path, SessionHeader]], wanted: str) -> Path | None:
    # Copies of a session have one id; the last changed one counts, as for a complete id.
    matches: dict[str, Path] = {}
    for path, header in found:
        if wanted and header.id.startswith(wanted):
            matches.setdefault(header.id, path)
    if len(matches) > 1:
        raise CommandError(_ambiguous(wanted, matches, short_ids(header.id for _, header in found)))
    return next(iter(matches.values()), None)


def _ambiguous(wanted: str, matches: dict[str, Path], short: dict[str, str]) -> str:
    shown = list(matches.items())[:_LISTED]
    width = max(len(short[session_id]) for session_id, _ in shown)
    lines = [f"{len(matches)} sessions have an id that begins with '{wanted}'. Use a longer id:"]
    for session_id, path in shown:
        record = read_record(path)
        used = local_time(record.modified) if record is not None else ""
        title = " ".join(record.title.split()) if record is not None else ""
        cut = title if len(title) <= _TITLE else f"{title[: _TITLE - 1]}…"
        lines.append(f"  {short[session_id]:{width}}  {used:16}  {cut}".rstrip())
    if len(matches) > _LISTED:
        lines.append(f"  and {len(matches) - _LISTED} more")
    return "\n".join(lines)


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Return for each id its first characters, at least 8, that no other id begins with."""
    ordered = sorted(set(ids))
    short = {}
    for before, own, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        shared = max(_shared_length(own, before), _shared_length(own, after))
        short[own] = own[: max(_SHORT, shared + 1)]
    return short


def _shared_length(one: str, other: str) -> int:
    unequal = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(unequal, min(len(one), len(other)))


def local_time(milliseconds: int) -> str:
    """Return a time for lists, in the zone of the user."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(milliseconds / 1000))


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
    from ludolf.session.views import user_text

    for entry in loaded.entries:
        if role_of(entry) == "user" and (text := user_text(entry)):
            return text
    return "(no messages)"
