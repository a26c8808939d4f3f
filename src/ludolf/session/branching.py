"""Fork, clone, copy, import and export sessions."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ludolf.base import CommandError, Warn, dumps, unused_id
from ludolf.session.entries import (
    Entry,
    LabelBody,
    entry_of,
    fields,
    make_entry,
    role_of,
    text_field,
)
from ludolf.session.finder import with_id
from ludolf.session.reader import read_lines, require_header
from ludolf.session.store import make_folders, numbered, write_replacing
from ludolf.session.tree import Session, new_header, new_session, open_session
from ludolf.session.views import user_text


def fork(
    session: Session, entry_id: str, directory: Path | None, warn: Warn
) -> tuple[Session, str]:
    """Return a new session that ends before a user message, and the text of that message.

    Raises:
        CommandError: the entry is not a user message.
    """
    entry = session.get(entry_id)
    if entry is None or role_of(entry) != "user":
        raise CommandError("Invalid entry ID for forking", code="invalid_fork_entry")
    _check_saved(session)
    parent = session.parent(entry)
    path = session.path_to(parent.id if parent is not None else None)
    return _branch(session, path, directory, warn), user_text(entry)


def clone(session: Session, directory: Path | None, warn: Warn) -> Session:
    """Return a new session with the path to the leaf.

    Raises:
        CommandError: the session has no leaf, or nothing is stored yet.
    """
    if session.leaf is None:
        raise CommandError("Cannot clone session: no current entry selected")
    _check_saved(session)
    return _branch(session, session.path_to_leaf(), directory, warn)


def fork_file(source: Path, cwd: str, directory: Path | None, warn: Warn) -> Session:
    """Copy a session file with all its branches into a new session of this project.

    Raises:
        NotASession: the source is not a session file.
        OSError: it cannot be read.
    """
    if not source.exists():
        raise CommandError(f"File not found: {source}")
    old = open_session(source, cwd, warn, write=False)
    session = new_session(cwd, directory, warn, parent_session=str(source))
    session.adopt(old.entries())
    return session


def import_file(source: Path, directory: Path) -> Path:
    """Copy a session file into a folder under its own name, or that name with a number.

    Returns the file that is there already if it has the same content.

    Raises:
        CommandError: the file is missing, or the folder has other content under the same id.
        NotASession: the file is not a session file.
    """
    if not source.exists():
        raise CommandError(f"File not found: {source}")
    header, lines = require_header(source), read_lines(source)
    present = with_id(directory, header.id)
    if present is not None:
        if read_lines(present) == lines:
            return present
        raise CommandError(
            f"Cannot import {source}: the session {header.id} is already there, with other "
            f"content: {present}. To replace it, delete it with `ludolf sessions delete` first; "
            f"to continue a copy, use --fork {source}."
        )
    make_folders(directory)
    for target in numbered(directory / source.name):
        try:
            _write_new(target, lines)
        except FileExistsError:
            continue
        return target
    raise AssertionError("unreachable")


def export_jsonl(session: Session, target: Path | None = None, *, overwrite: bool = False) -> Path:
    """Write the active branch to a new session file, by default in the current folder.

    Raises:
        CommandError: the target exists, or cannot be written.
    """
    header = new_header(session.header.cwd, session_id=session.id)
    if target is None:
        stamp = header.timestamp.replace(":", "-").replace(".", "-")
        target = Path(f"session-{stamp}.jsonl")
    lines = [dumps(header) + b"\n", *(entry.line for entry in _chained(session.path_to_leaf()))]
    try:
        if overwrite:
            write_replacing(target, lines)
        else:
            _write_new(target, lines)
    except FileExistsError:
        text = f"File exists: {target}. Choose another name or ask to overwrite it."
        raise CommandError(text) from None
    except OSError as error:
        raise CommandError(f"Cannot write {target}: {error.strerror}") from error
    return target


def _check_saved(session: Session) -> None:
    if session.path is not None and not session.saved:
        raise CommandError(
            "This session has not been saved yet. Wait for the first assistant response before "
            "cloning or forking it."
        )


def _branch(session: Session, path: Sequence[Entry], directory: Path | None, warn: Warn) -> Session:
    parent = str(session.path) if session.path is not None else None
    copy = new_session(session.header.cwd, directory, warn, parent_session=parent)
    plain = [entry for entry in path if entry.type != "label"]
    chained = _chained(plain, _moved_marks(path))
    copy.adopt([*chained, *_labels(session, chained)])
    for entry in chained:
        if entry.id in session.omitted:
            copy.omit(entry.id)
    return copy


def _chained(entries: Iterable[Entry], moved: dict[str, str] | None = None) -> list[Entry]:
    """Make each entry the child of the one before; unchanged entries keep their lines."""
    chain: list[Entry] = []
    parent: str | None = None
    for entry in entries:
        mark = _new_mark(entry, moved or {})
        if entry.parent_id == parent and mark is None:
            chain.append(entry)
        else:
            chain.append(_changed(entry, parent, mark))
        parent = entry.id
    return chain


def _new_mark(entry: Entry, moved: dict[str, str]) -> str | None:
    if entry.type != "compaction" or not moved:
        return None
    return moved.get(text_field(fields(entry), "firstKeptEntryId"))


def _changed(entry: Entry, parent: str | None, mark: str | None) -> Entry:
    body = {**fields(entry), "parentId": parent}
    if mark is not None:
        body["firstKeptEntryId"] = mark
    changed = entry_of(body)
    assert changed is not None
    changed.decoded = entry.decoded
    return changed


def _moved_marks(path: Sequence[Entry]) -> dict[str, str]:
    """Map each label, which is not copied, to the next copied entry."""
    moved: dict[str, str] = {}
    following: str | None = None
    for entry in reversed(path):
        if entry.type != "label":
            following = entry.id
        elif following is not None:
            moved[entry.id] = following
    return moved


def _labels(session: Session, chained: list[Entry]) -> list[Entry]:
    used = {entry.id for entry in session.entries()}
    parent = chained[-1].id if chained else None
    labels: list[Entry] = []
    for entry in chained:
        label = session.label(entry.id)
        if label is None:
            continue
        body = LabelBody(target_id=entry.id, label=label[0])
        name = unused_id(used)
        used.add(name)
        labels.append(make_entry(body, entry_id=name, parent_id=parent, timestamp=label[1]))
        parent = name
    return labels


def _write_new(target: Path, lines: Iterable[bytes]) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.writelines(lines)
