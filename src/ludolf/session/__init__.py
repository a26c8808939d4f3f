"""The conversation tree, kept in a JSONL file, and the context computed from it."""

from ludolf.session.context import ContextView, SessionContext, build_context
from ludolf.session.entries import (
    BranchSummaryBody,
    CompactionBody,
    CustomBody,
    CustomMessageBody,
    Entry,
    EntryBody,
    LabelBody,
    MessageBody,
    ModelChangeBody,
    SessionHeader,
    SessionInfoBody,
    ThinkingLevelChangeBody,
    entry_json,
    fields,
    message_json,
    message_of,
    role_of,
)
from ludolf.session.reader import NotASession
from ludolf.session.tree import Session, SessionReadOnly, new_session, open_session

__all__ = [
    "BranchSummaryBody",
    "CompactionBody",
    "ContextView",
    "CustomBody",
    "CustomMessageBody",
    "Entry",
    "EntryBody",
    "LabelBody",
    "MessageBody",
    "ModelChangeBody",
    "NotASession",
    "Session",
    "SessionContext",
    "SessionHeader",
    "SessionInfoBody",
    "SessionReadOnly",
    "ThinkingLevelChangeBody",
    "build_context",
    "entry_json",
    "fields",
    "message_json",
    "message_of",
    "new_session",
    "open_session",
    "role_of",
]
