"""The conversation tree, kept in a JSONL file, and the context computed from it."""

from ludolf.session.context import Context, ContextView, build_context
from ludolf.session.entries import (
    BranchSummary,
    Compaction,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    EntryBody,
    Header,
    Label,
    MessageBody,
    ModelChange,
    SessionInfo,
    ThinkingLevelChange,
    entry_json,
    fields,
    message_json,
    message_of,
    role_of,
)
from ludolf.session.reader import NotASession
from ludolf.session.tree import Session, SessionReadOnly, new_session, open_session

__all__ = [
    "BranchSummary",
    "Compaction",
    "Context",
    "ContextView",
    "CustomEntry",
    "CustomMessageEntry",
    "Entry",
    "EntryBody",
    "Header",
    "Label",
    "MessageBody",
    "ModelChange",
    "NotASession",
    "Session",
    "SessionInfo",
    "SessionReadOnly",
    "ThinkingLevelChange",
    "build_context",
    "entry_json",
    "fields",
    "message_json",
    "message_of",
    "new_session",
    "open_session",
    "role_of",
]
