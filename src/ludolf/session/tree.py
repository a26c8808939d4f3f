"""Session: a tree of entries with a current leaf, in memory and in one file."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from ludolf.base import CommandError, ErrorCode, Warn, dumps, iso_time, unused_id, uuid7
from ludolf.session.context import ContextView
from ludolf.session.entries import (
    VERSION,
    Entry,
    EntryBody,
    SessionHeader,
    SessionInfoBody,
    fields,
    make_entry,
    text_field,
)
from ludolf.session.reader import (
    Loaded,
    NotASession,
    parse_lines,
    read_lines,
    read_session,
    repair,
)
from ludolf.session.store import SessionFile, is_held, rewrite

# A message that a host has received must be on disk, so the first message creates the file.
_STARTS_FILE = ("message", "custom_message")
_NOTES = ("label", "session_info")


class SessionReadOnly(CommandError):
    """Entries cannot be added to this session; the text has the reason."""


class LoadedSession(msgspec.Struct, kw_only=True):
    """A session file in memory, not locked yet. `active`: the entries from the root to the last.

    `notes` are the entries that name the session or label others; `remarks` are the warnings.
    """

    path: Path
    content: Loaded
    by_id: dict[str, Entry]
    notes: list[Entry]
    remarks: list[str]
    active: list[Entry] | None = None
    view: ContextView | None = None


class Session:
    """One conversation. `path` is None for a session in memory only."""

    def __init__(self, header: SessionHeader, path: Path | None, warn: Warn) -> None:
        self.header = header
        self.leaf: str | None = None
        self.read_only: str | None = None
        self._in_use = False
        self.sync: Literal["turn", "always", "off"] = "turn"
        self._header_line = dumps(header) + b"\n"
        self._file = SessionFile(path, self._lines, warn) if path is not None else None
        self._entries: list[Entry] = []
        self._by_id: dict[str, Entry] = {}
        self._path: list[Entry] | None = []
        self._labels: dict[str, Entry] = {}
        self._name: str | None = None
        self._omitted: set[str] = set()
        self._view = ContextView()

    @property
    def id(self) -> str:
        return self.header.id

    @property
    def path(self) -> Path | None:
        """The file of the session; it is created with the first message."""
        return self._file.path if self._file is not None else None

    @property
    def saved(self) -> bool:
        """Whether the session file exists."""
        return self._file is not None and self._file.exists

    @property
    def unsaved(self) -> int:
        """Number of entries that are not written yet."""
        return self._file.unsaved if self._file is not None else 0

    @property
    def name(self) -> str | None:
        return self._name

    @property
    def omitted(self) -> frozenset[str]:
        """Ids of entries that are in the file but not in the context."""
        return frozenset(self._omitted)

    @property
    def context(self) -> ContextView:
        """The current context at the leaf."""
        self._view.follow(self.path_to_leaf(), self._omitted)
        return self._view

    def entries(self) -> Sequence[Entry]:
        """All entries in the order of the file. A live list: read it, do not keep it."""
        return self._entries

    def get(self, entry_id: str) -> Entry | None:
        return self._by_id.get(entry_id)

    def path_to_leaf(self) -> Sequence[Entry]:
        """The entries from the root to the leaf. A live list: read it, do not keep it."""
        if self._path is None:
            self._path = self.path_to(self.leaf)
        return self._path

    def path_to(self, entry_id: str | None) -> list[Entry]:
        """The entries from the root to one entry."""
        return _walk(self._by_id, entry_id)

    def parent(self, entry: Entry) -> Entry | None:
        """Return the parent entry; None for a root and if the parent is missing."""
        if entry.parent_id is None or entry.parent_id == entry.id:
            return None
        return self._by_id.get(entry.parent_id)

    def append(self, body: EntryBody, *, timestamp: str | None = None) -> Entry:
        """Add an entry after the leaf, in memory and on disk; it becomes the leaf.

        Raises:
            SessionReadOnly: the session cannot be written.
        """
        reason = self.refusal()
        if reason is not None:
            raise SessionReadOnly(reason, code=self.refusal_code)
        entry = make_entry(
            body,
            entry_id=unused_id(self._by_id),
            parent_id=self.leaf,
            timestamp=timestamp or iso_time(),
        )
        self._take(entry)
        self._store(entry)
        if self.sync == "always":
            self.flush()
        return entry

    def refusal(self) -> str | None:
        """Return why entries cannot be added, or None.

        If another process had the file, try the lock again and load the entries that it added.
        """
        if self._in_use:
            self._take_over()
        return self.read_only

    @property
    def refusal_code(self) -> ErrorCode | None:
        """The code of the present refusal, for programs."""
        return "session_in_use" if self._in_use else None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Store entries that are appended inside the block with one write and at most one sync."""
        if self._file is None:
            yield
            return
        with self._file.together():
            yield
        if self.sync == "always":
            self.flush()

    def branch_to(self, entry_id: str | None) -> None:
        """Continue from another entry, or from before the first one. Nothing is written.

        Raises:
            CommandError: the entry does not exist.
        """
        if entry_id is not None and entry_id not in self._by_id:
            raise CommandError(f"Entry not found: {entry_id}")
        self.leaf = entry_id
        self._path = None
        self._view.forget()

    def omit(self, entry_id: str) -> None:
        """Remove the message of an entry from the context; the file keeps it."""
        self._omitted.add(entry_id)
        self._view.forget()

    def label(self, entry_id: str) -> tuple[str, str] | None:
        """Return the label of an entry and the time it was set."""
        entry = self._labels.get(entry_id)
        return (text_field(fields(entry), "label"), entry.timestamp) if entry is not None else None

    def set_name(self, name: str) -> Entry:
        """Name the session; an empty name clears it."""
        return self.append(SessionInfoBody(name=clean_name(name)))

    def flush(self) -> None:
        """Write pending entries and sync the file, unless syncing is off."""
        if self._file is not None and self._file.exists and not self._file.holding:
            self._file.flush(sync=self.sync != "off")

    def release(self) -> None:
        """Let other programs continue the file; the next entry takes it back, if it is free.

        Entries that another program has added by then become part of this session.
        """
        if self.read_only is None and self._file is not None and self._file.release():
            self._in_use, self.read_only = True, self._in_use_text

    def close(self) -> None:
        """Write pending entries and release the lock of the file."""
        if self._file is not None:
            self._file.close()

    def adopt(self, entries: Sequence[Entry]) -> None:
        """Fill a new session with copied entries; store them now if one has a message."""
        for entry in entries:
            self._take(entry)
        # Copied entries may come from several branches.
        self._path = None
        self._view.forget()
        if self._file is not None and any(entry.type in _STARTS_FILE for entry in entries):
            self._file.create()

    def _restore(self, loaded: LoadedSession) -> None:
        assert self._file is not None
        content = loaded.content
        self._file.begin_at(
            content.size, torn=content.torn, header_at=content.header_at, state=content.state
        )
        self._header_line = content.header_line
        self._entries, self._by_id = content.entries, loaded.by_id
        self.leaf = _last_id(content.entries)
        self._path = loaded.active
        self._view = loaded.view or ContextView()
        for entry in loaded.notes:
            self._note(entry)

    def _attach(self) -> None:
        assert self._file is not None
        try:
            self._in_use = not self._file.lock()
            if self._in_use:
                self.read_only = self._in_use_text
            elif not self._file.is_unchanged:
                self._read_again()
        except OSError as problem:
            self.read_only = f"Session file cannot be written: {self.path}: {problem.strerror}"

    @property
    def _in_use_text(self) -> str:
        return (
            f"Session is in use by another process: {self.path}. "
            "Fork it or start a new session to continue."
        )

    def _take_over(self) -> None:
        """Continue the file if its writer is gone."""
        assert self._file is not None
        try:
            if is_held(self._file.path) or not self._file.lock():
                return
        except OSError as problem:
            self._refuse(str(problem))
            return
        if self._file.is_unchanged or self._read_again():
            self.read_only, self._in_use = None, False

    def _read_again(self) -> bool:
        """Read the locked file, which has changed; a leaf at the end follows the new end."""
        assert self._file is not None
        try:
            loaded = _load(self._file.path)
        except (NotASession, OSError) as problem:
            self._refuse(str(problem))
            return False
        if loaded.content.header_line != self._header_line:
            self._refuse("it was replaced by another session")
            return False
        leaf, was_at_end = self.leaf, self.leaf == _last_id(self._entries)
        self._restore(loaded)
        if not was_at_end and (leaf is None or leaf in self._by_id):
            self.leaf = leaf
        return True

    def _refuse(self, reason: str) -> None:
        assert self._file is not None
        self._file.close()
        self.read_only = (
            f"Session file cannot be continued: {self.path}: {reason}. "
            "Fork it or start a new session to continue."
        )

    def _take(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._by_id[entry.id] = entry
        if self._path is not None:
            self._path.append(entry)
        self.leaf = entry.id
        self._note(entry)

    def _note(self, entry: Entry) -> None:
        if entry.type == "label":
            body = fields(entry)
            target = text_field(body, "targetId")
            self._labels.pop(target, None)
            if text_field(body, "label"):
                self._labels[target] = entry
        elif entry.type == "session_info":
            self._name = clean_name(text_field(fields(entry), "name")) or None

    def _store(self, entry: Entry) -> None:
        if self._file is None:
            return
        if self._file.exists:
            self._file.add(entry.line)
        elif entry.type in _STARTS_FILE:
            self._file.create()

    def _lines(self) -> Iterator[bytes]:
        yield self._header_line
        for entry in self._entries:
            yield entry.line


def _last_id(entries: Sequence[Entry]) -> str | None:
    return entries[-1].id if entries else None


def _walk(by_id: dict[str, Entry], entry_id: str | None) -> list[Entry]:
    """Return the entries from the root to one entry."""
    path: list[Entry] = []
    entry = by_id.get(entry_id) if entry_id is not None else None
    while entry is not None:
        path.append(entry)
        above = entry.parent_id
        entry = by_id.get(above) if above is not None and above != entry.id else None
    path.reverse()
    return path


def clean_name(name: str) -> str:
    """Return a session name on one line."""
    return " ".join(part for part in name.replace("\r", "\n").split("\n") if part).strip()


def new_session(
    cwd: str,
    directory: Path | None,
    warn: Warn,
    *,
    session_id: str | None = None,
    parent_session: str | None = None,
) -> Session:
    """Create an empty session; without a directory it is in memory only."""
    header = new_header(cwd, session_id=session_id, parent_session=parent_session)
    path = None if directory is None else directory / file_name(header)
    return Session(header, path, warn)


def new_header(
    cwd: str, *, session_id: str | None = None, parent_session: str | None = None
) -> SessionHeader:
    return SessionHeader(
        version=VERSION,
        id=session_id or uuid7(),
        timestamp=iso_time(),
        cwd=cwd,
        parent_session=parent_session,
    )


def file_name(header: SessionHeader) -> str:
    stamp = header.timestamp.replace(":", "-").replace(".", "-")
    return f"{stamp}_{header.id}.jsonl"


def load_session(path: Path) -> LoadedSession:
    """Read a session file for `open_session`; any thread may do so. Changes and locks nothing.

    Raises:
        NotASession: the file is not a session, or its version is invalid.
        OSError: it cannot be read.
    """
    loaded = _load(path)
    loaded.active = _walk(loaded.by_id, _last_id(loaded.content.entries))
    loaded.view = ContextView()
    loaded.view.follow(loaded.active, frozenset())
    return loaded


def open_session(
    path: Path,
    cwd: str,
    warn: Warn,
    *,
    write: bool = True,
    loaded: LoadedSession | None = None,
) -> Session:
    """Open a session file; a missing or empty file gives a new session with that path.

    Files of version 1 and 2 are converted, and the old file is kept. With `write=False` nothing is
    written. `loaded` saves reading that file and becomes part of the session; with `write`, a file
    that has changed since is read again.

    Raises:
        NotASession: the file is not a session, or its version is invalid; it was not changed.
        OSError: it cannot be read.
    """
    if loaded is None or loaded.path != path:
        try:
            loaded = _load(path)
        except FileNotFoundError:
            loaded = None
    if loaded is None or loaded.content.header is None:
        return Session(new_header(cwd), path, warn)
    version = loaded.content.header.version or 1
    if version < VERSION:
        return _open_old(path, version, warn, write=write)
    return _opened(loaded, warn, write=write)


def _load(path: Path) -> LoadedSession:
    return _index(path, read_session(path))


def _index(path: Path, content: Loaded) -> LoadedSession:
    remarks: list[str] = []
    repair(content.entries, content.bad_lines, path, remarks.append)
    return LoadedSession(
        path=path,
        content=content,
        by_id={entry.id: entry for entry in content.entries},
        notes=[entry for entry in content.entries if entry.type in _NOTES],
        remarks=remarks,
    )


def _opened(loaded: LoadedSession, warn: Warn, *, write: bool) -> Session:
    header, path = loaded.content.header, loaded.path
    assert header is not None
    for text in loaded.remarks:
        warn(text)
    session = Session(header, path, warn)
    session._restore(loaded)
    version = header.version or 1
    if version > VERSION:
        session.read_only = (
            f"Session file has version {version}, newer than this program supports ({VERSION}): "
            f"{path}. It can be read but not continued."
        )
    elif write:
        session._attach()
    else:
        session.read_only = f"Session was opened for reading only: {path}"
    return session


def _open_old(path: Path, version: int, warn: Warn, *, write: bool) -> Session:
    from ludolf.session.migrate import migrate

    problem: OSError | None = None
    lines: list[bytes] | None = None
    if write:
        try:
            lines, kept = rewrite(path, migrate, version)
            warn(
                f"Session file was converted from version {version} to {VERSION}: {path}. "
                f"The old file is kept as {kept}"
            )
        except OSError as error:
            problem = error
    content = parse_lines(migrate(read_lines(path)) if lines is None else lines, path)
    session = _opened(_index(path, content), warn, write=write and problem is None)
    if problem is not None:
        session.read_only = (
            f"Session file cannot be converted to version {VERSION}: {path}: {problem.strerror}"
        )
    return session
