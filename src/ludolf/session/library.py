"""Rename, trash and search stored sessions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ludolf.ai.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Message,
    Thinking,
    ToolCall,
    text_of,
)
from ludolf.base import CommandError, Value, Warn, check_path, dumps, expand_user, now_ms
from ludolf.session.entries import Entry, message_of
from ludolf.session.finder import SessionFolder
from ludolf.session.reader import NotASession, read_header, read_session
from ludolf.session.store import check_not_held, is_written_elsewhere
from ludolf.session.tree import open_session

AROUND = 60


class SearchHit(Value):
    """A match of a search, with the words around it."""

    entry_id: str
    role: str
    excerpt: str


def rename(place: SessionFolder, path: str, name: str, warn: Warn) -> None:
    """Name a stored session.

    Raises:
        CommandError: the session is missing or in use, or the name is empty.
    """
    if not name.strip():
        raise CommandError("Session name cannot be empty")
    try:
        session = open_session(_existing(place, path), place.cwd, warn)
    except NotASession as error:
        raise CommandError(str(error)) from error
    try:
        session.set_name(name)
    finally:
        session.close()


def trash(place: SessionFolder, path: str, warn: Warn) -> Path:
    """Move a session file and its subagents' files to the trash folder; return the new path.

    Raises:
        CommandError: the session is missing, in use, or cannot be moved.
    """
    import shutil

    target = _existing(place, path)
    folder = place.agent_dir / "trash"
    try:
        open_session(target, place.cwd, warn, write=False)
        if is_written_elsewhere(target):
            raise CommandError(
                f"Session is in use by another process: {target}. "
                "End that process, then delete the session.",
                code="session_in_use",
            )
        check_not_held(target)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = folder / target.name
        if kept.exists():
            kept = folder / f"{target.stem}-{now_ms()}{target.suffix}"
        shutil.move(target, kept)  # the trash may be on another disk
        _trash_agents(target, kept.with_suffix(""))
    except NotASession as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"Cannot move {path} to {folder}: {error.strerror}") from error
    return kept


def resolve(place: SessionFolder, path: str) -> Path:
    return Path(place.cwd, expand_user(check_path(path), place.home))


def search(path: Path, wanted: str) -> Iterator[SearchHit]:
    """Return messages that contain the text, ignoring case; none if the file is unreadable."""
    try:
        entries = read_session(path).entries
    except (NotASession, OSError):
        return
    needle = wanted.casefold()
    for entry in entries:
        hit = _look(entry, needle)
        if hit is not None:
            yield hit


# ---------------------------------------------------------------- private


def _trash_agents(session: Path, kept: Path) -> None:
    """Move the files of subagents; other files in a folder of that name stay."""
    import shutil

    folder = session.with_suffix("")
    for path in folder.glob("*.jsonl") if folder != session and folder.is_dir() else ():
        header = read_header(path)
        parent = Path(header.parent_session or "") if header is not None else Path()
        if parent.name == session.name or parent.parent.name == folder.name:
            kept.mkdir(mode=0o700, exist_ok=True)
            shutil.move(path, kept / path.name)
    if kept.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _existing(place: SessionFolder, path: str) -> Path:
    target = resolve(place, path)
    if not target.is_file():
        raise CommandError(f"File not found: {path}")
    return target


def _look(entry: Entry, needle: str) -> SearchHit | None:
    if entry.type != "message":
        return None
    message = message_of(entry)
    text = spoken_text(message) if isinstance(message, Message) else ""
    at = text.casefold().find(needle)
    if at < 0:
        return None
    start, end = max(0, at - AROUND), at + len(needle) + AROUND
    excerpt = ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
    return SearchHit(entry_id=entry.id, role=message.role, excerpt=" ".join(excerpt.split()))


def spoken_text(message: Message) -> str:
    """Return all text of a message, with thinking, tool calls and command output."""
    if isinstance(message, BashExecutionMessage):
        return f"{message.command}\n{message.output}"
    if not isinstance(message, AssistantMessage):
        content: Any = getattr(message, "content", None) or getattr(message, "summary", "")
        return text_of(content, "\n")
    pieces = []
    for block in message.content:
        if isinstance(block, Thinking):
            pieces.append(block.thinking)
        elif isinstance(block, ToolCall):
            pieces.append(f"{block.name} {dumps(block.arguments).decode()}")
        else:
            pieces.append(block.text)
    return "\n".join(pieces)
