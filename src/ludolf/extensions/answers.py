"""Combined answers of handlers, as the engine uses them."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from ludolf.ai.messages import Part, Usage
from ludolf.base import Value


class TrustDecision(Value):
    """Decision of an extension whether to trust a project; `remember` stores it."""

    trusted: bool
    remember: bool = False


class ToolCallDecision(Value, kw_only=True):
    """Arguments to use, or a block with its reason; `terminate` ends the run."""

    input: Mapping[str, Any]
    block: bool = False
    reason: str | None = None
    terminate: bool = False


class ToolResultChange(Value, kw_only=True):
    content: tuple[Part, ...]
    details: Any = UNSET
    is_error: bool
    usage: Usage | None = None


class BashAnswer(Value, kw_only=True):
    """Result of a shell command that an extension ran."""

    output: str
    exit_code: int | None = None
    cancelled: bool = False
    truncated: bool = False
    full_output_path: str | None = None


class BashElsewhere(msgspec.Struct, frozen=True):
    """Operations that run the command: `await operations.exec(command, cwd, on_data)`."""

    operations: Any


class CompactionAnswer(Value, kw_only=True):
    """Compaction summary from an extension."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    usage: Usage | None = None
    details: Any = UNSET


class CompactDecision(Value):
    cancel: bool = False
    compaction: CompactionAnswer | None = None


class SummaryAnswer(Value):
    summary: str
    details: Any = UNSET
    usage: Usage | None = None


class TreeDecision(Value):
    """A veto, a summary of the abandoned branch, or instructions for one."""

    cancel: bool = False
    summary: SummaryAnswer | None = None
    custom_instructions: str | None = None
    replace_instructions: bool | None = None
    label: str | None = None


class ForkDecision(Value):
    cancel: bool = False
    skip_conversation_restore: bool = False


class SwitchAnswer(Value):
    cancel: bool = False


# ---------------------------------------------------------------- boundary drafts


class CustomDraft(Value, tag_field="type", tag="custom"):
    custom_type: str
    data: Any = UNSET


class CustomMessageDraft(Value, tag_field="type", tag="custom_message"):
    custom_type: str
    content: str | tuple[Part, ...]
    display: bool
    details: Any = UNSET


class ContextEditDraft(Value, tag_field="type", tag="context_edit"):
    """Replacement of an entry's message; None removes the entry from the context."""

    target_id: str
    replacement: Any


class CompactionDraft(Value, kw_only=True, tag_field="type", tag="compaction"):
    summary: str
    first_kept_entry_id: str
    tokens_before: int
    usage: Usage | None = None
    details: Any = UNSET


EntryDraft = CustomDraft | CustomMessageDraft | ContextEditDraft | CompactionDraft
