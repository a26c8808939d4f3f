"""What handlers may answer with, as types of plain dicts. None is always allowed and says nothing.

Keys are in snake_case. Keys that are not listed here are ignored.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict

Content = str | Sequence[Any]


class TrustAnswer(TypedDict, total=False):
    """project_trust: the first that says yes or no decides; `remember` stores it."""

    trusted: Literal["yes", "no", "undecided"]
    remember: bool


class ResourcesAnswer(TypedDict, total=False):
    """resources_discover: further places; relative paths belong to the extension's folder."""

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
    """A summary made by the extension, in place of the model's."""

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
    """input: transforms follow each other; "handled" ends the matter, nothing is sent."""

    action: Literal["continue", "transform", "handled"]
    text: str
    images: Sequence[Any]


class CustomMessageAnswer(TypedDict, total=False):
    custom_type: str
    content: Content
    display: bool
    details: Any


class BeforeAgentStartAnswer(TypedDict, total=False):
    """before_agent_start: a message beside the prompt, a whole system prompt for this run, or
    changed parts of what it is made of (the fields of `PromptOptions`)."""

    message: CustomMessageAnswer
    system_prompt: str
    system_prompt_options: Mapping[str, Any]


class MessageEndAnswer(TypedDict, total=False):
    """message_end: another message of the same role, for example `message.replace(content=…)`."""

    message: Any


# `continue` is a word of the language, so this one is written as a call.
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
    """tool_result: the fields that shall change."""

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
    """Runs a command somewhere else; gives the exit code, None when it was killed."""

    async def exec(
        self, command: str, cwd: str, on_data: Callable[[bytes], None]
    ) -> int | None: ...


class UserBashAnswer(TypedDict, total=False):
    """user_bash: the result of the command, or who shall run it."""

    result: BashResult
    operations: BashOperations


class ContextAnswer(TypedDict, total=False):
    """context, context_with_system: other messages for this request; for the latter also another
    system prompt."""

    messages: Sequence[Any]
    system_prompt: str


class HeadersAnswer(TypedDict, total=False):
    """before_provider_headers: headers to set; None removes one."""

    headers: Mapping[str, str | None]


class CacheWarmingAnswer(TypedDict, total=False):
    """cache_warming_decision: the last one counts."""

    action: Literal["warm", "stop"]
