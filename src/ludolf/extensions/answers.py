"""Answers of handlers: the dicts that they may return, and the decisions made from them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict

import msgspec
from msgspec import UNSET

from ludolf.ai.messages import Usage
from ludolf.base import Value
from ludolf.session.entries import CompactionBody, CustomBody, CustomMessageBody

# ---------------------------------------------------------------- dicts

# Keys are in snake_case. Other keys have no effect and are reported; in tool_call and user_bash
# they deny the action. None is always allowed and changes nothing.
Content = str | Sequence[Any]


class TrustAnswer(TypedDict, total=False):
    """project_trust: the first yes or no decides; `remember` stores the decision."""

    trusted: Literal["yes", "no", "undecided"]
    remember: bool


class ResourcesAnswer(TypedDict, total=False):
    """resources_discover: additional paths, relative to the extension's folder."""

    skill_paths: list[str]
    prompt_paths: list[str]
    theme_paths: list[str]


class CancelAnswer(TypedDict, total=False):
    """session_before_switch: a veto."""

    cancel: bool


class ForkAnswer(TypedDict, total=False):
    """session_before_fork."""

    cancel: bool
    skip_conversation_restore: bool


class Compaction(TypedDict, total=False):
    """Summary from the extension, used instead of the model's."""

    summary: str
    first_kept_entry_id: str
    tokens_before: int
    usage: Mapping[str, Any]
    details: Any


class CompactAnswer(TypedDict, total=False):
    """session_before_compact."""

    cancel: bool
    compaction: Compaction


class TreeSummary(TypedDict, total=False):
    summary: str
    details: Any
    usage: Mapping[str, Any]


class TreeAnswer(TypedDict, total=False):
    """session_before_tree."""

    cancel: bool
    summary: TreeSummary
    custom_instructions: str
    replace_instructions: bool
    label: str


class InputAnswer(TypedDict, total=False):
    """input: transforms are chained; "handled" stops the processing, and nothing is sent."""

    action: Literal["continue", "transform", "handled"]
    text: str
    images: Sequence[Any]


class CustomMessageAnswer(TypedDict, total=False):
    custom_type: str
    content: Content
    display: bool
    details: Any


class BeforeAgentStartAnswer(TypedDict, total=False):
    """before_agent_start: a message in addition to the prompt, a complete system prompt for this
    run, or changed parts of it (the fields of `PromptOptions`)."""

    message: CustomMessageAnswer
    system_prompt: str
    system_prompt_options: Mapping[str, Any]


class MessageEndAnswer(TypedDict, total=False):
    """message_end: another message of the same role, for example `message.replace(content=…)`."""

    message: Any


# `continue` is a keyword, so this type is written as a call.
BoundaryAnswer = TypedDict(
    "BoundaryAnswer", {"entries": Sequence[Mapping[str, Any]], "continue": bool}, total=False
)


class ToolCallAnswer(TypedDict, total=False):
    """tool_call: other arguments, or a block with its reason for the model."""

    input: Mapping[str, Any]
    block: bool
    reason: str
    terminate: bool


class ToolResultAnswer(TypedDict, total=False):
    """tool_result: the fields to change."""

    content: Content
    details: Any
    is_error: bool
    usage: Mapping[str, Any]


class BashResult(TypedDict, total=False):
    output: str
    exit_code: int | None
    cancelled: bool
    truncated: bool
    full_output_path: str


class BashOperations(Protocol):
    """Runs a command elsewhere; returns the exit code, or None if it was killed."""

    async def exec(
        self, command: str, cwd: str, on_data: Callable[[bytes], None]
    ) -> int | None: ...


class UserBashAnswer(TypedDict, total=False):
    """user_bash: the result of the command, or operations that run it."""

    result: BashResult
    operations: BashOperations


class MessagesAnswer(TypedDict, total=False):
    """context: messages for this request."""

    messages: Sequence[Any]


class ContextAnswer(MessagesAnswer, total=False):
    """context, context_with_system: the latter also takes a system prompt."""

    system_prompt: str


class HeadersAnswer(TypedDict, total=False):
    """before_provider_headers: headers to set; None removes one."""

    headers: Mapping[str, str | None]


class CacheWarmingAnswer(TypedDict, total=False):
    """cache_warming_decision: the last answer is used."""

    action: Literal["warm", "stop"]


# ---------------------------------------------------------------- decisions


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


class CompactDecision(Value):
    cancel: bool = False
    compaction: CompactionBody | None = None


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


class ContextEditDraft(Value, tag_field="type", tag="context_edit"):
    """Replacement of an entry's message; None removes the entry from the context."""

    target_id: str
    replacement: Any


# Entries that handlers of turn_end and agent_before_settle add.
EntryDraft = CustomBody | CustomMessageBody | CompactionBody | ContextEditDraft
