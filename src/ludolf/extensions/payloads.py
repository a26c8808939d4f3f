"""Payloads of extension events: one frozen value per event, with the wire names in snake_case."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET

from ludolf.agent.tool import ToolOutput
from ludolf.ai.draft import BlockDelta, BlockEnd, StreamEvent
from ludolf.ai.messages import (
    AnyMessage,
    AssistantMessage,
    CustomMessage,
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ThinkingLevel,
    ToolCall,
    ToolResultMessage,
    Usage,
)
from ludolf.ai.models import Model
from ludolf.base import Value
from ludolf.extensions.session_view import EntryView
from ludolf.protocol.events import CompactionReason

if TYPE_CHECKING:
    from ludolf.session.compaction import Preparation


class Payload(Value, tag_field="type"):
    """First argument of every handler."""

    @property
    def type(self) -> str:
        """Return the name of the event."""
        return str(self.__struct_config__.tag)


# ---------------------------------------------------------------- before a session


class ProjectTrust(Payload, tag="project_trust"):
    cwd: str


class ResourcesDiscover(Payload, tag="resources_discover"):
    """The paths are those that earlier handlers added."""

    cwd: str
    reason: Literal["startup", "reload"]
    skill_paths: tuple[str, ...] = ()
    prompt_paths: tuple[str, ...] = ()
    theme_paths: tuple[str, ...] = ()


# ---------------------------------------------------------------- the session


class SessionStart(Payload, tag="session_start"):
    reason: Literal["startup", "reload", "new", "resume", "fork"]
    previous_session_file: str | None = None


class SessionInfoChanged(Payload, tag="session_info_changed"):
    name: str | None = None


class SessionBeforeSwitch(Payload, tag="session_before_switch"):
    reason: Literal["new", "resume"]
    target_session_file: str | None = None


class SessionBeforeFork(Payload, tag="session_before_fork"):
    entry_id: str
    position: Literal["before", "at"]


class CompactionPlan(Value, kw_only=True):
    """Plan of a compaction: the messages to summarise and the first entry to keep."""

    first_kept_entry_id: str
    tokens_before: int
    messages_to_summarize: tuple[Message, ...]
    turn_prefix_messages: tuple[Message, ...]
    is_split_turn: bool
    previous_summary: str | None = None
    read_files: tuple[str, ...] = ()
    modified_files: tuple[str, ...] = ()


def compaction_plan(prepared: "Preparation") -> CompactionPlan:
    """Convert a prepared compaction to the payload form."""
    return CompactionPlan(
        first_kept_entry_id=prepared.first_kept_id,
        tokens_before=prepared.tokens_before,
        messages_to_summarize=prepared.history,
        turn_prefix_messages=prepared.prefix,
        is_split_turn=prepared.split,
        previous_summary=prepared.previous_summary,
        read_files=prepared.files.read_files,
        modified_files=prepared.files.modified_files,
    )


class SessionBeforeCompact(Payload, kw_only=True, tag="session_before_compact"):
    preparation: CompactionPlan
    branch_entries: tuple[EntryView, ...] = ()
    custom_instructions: str | None = None
    reason: CompactionReason
    will_retry: bool = False


class SessionCompact(Payload, tag="session_compact"):
    compaction_entry: EntryView
    from_extension: bool
    reason: CompactionReason
    will_retry: bool = False


class SessionCompactFailed(Payload, tag="session_compact_failed"):
    reason: CompactionReason
    aborted: bool
    will_retry: bool = False
    from_extension: bool = False
    error_message: str | None = None


class TreePlan(Value, kw_only=True):
    """Navigation to another entry of the tree, and the entries of the abandoned branch."""

    target_id: str
    old_leaf_id: str | None
    common_ancestor_id: str | None
    entries_to_summarize: tuple[EntryView, ...] = ()
    user_wants_summary: bool = False
    custom_instructions: str | None = None
    replace_instructions: bool = False
    label: str | None = None


class SessionBeforeTree(Payload, tag="session_before_tree"):
    preparation: TreePlan


class SessionTree(Payload, tag="session_tree"):
    new_leaf_id: str | None
    old_leaf_id: str | None
    summary_entry: EntryView | None = None
    from_extension: bool = False


class SessionShutdown(Payload, tag="session_shutdown"):
    reason: Literal["quit", "reload", "new", "resume", "fork"]
    target_session_file: str | None = None


# ---------------------------------------------------------------- a prompt


class Input(Payload, tag="input"):
    text: str
    images: tuple[Image, ...] = ()
    source: Literal["interactive", "rpc", "extension"] = "rpc"
    streaming_behavior: Literal["steer", "followUp"] | None = None


class PromptOptions(Value):
    """Parts of the system prompt; a handler returns the ones to change."""

    cwd: str
    custom_prompt: str | None = None
    append_system_prompt: tuple[str, ...] = ()
    selected_tools: tuple[str, ...] = ()
    tool_snippets: Mapping[str, str] = {}
    tool_guidelines: Mapping[str, tuple[str, ...]] = {}
    prompt_guidelines: tuple[str, ...] = ()
    sections: Mapping[str, str] = {}
    context_files: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()


class BeforeAgentStart(Payload, tag="before_agent_start"):
    """`messages` are those that earlier handlers added."""

    prompt: str
    system_prompt: str
    system_prompt_options: PromptOptions
    images: tuple[Image, ...] = ()
    messages: tuple[CustomMessage, ...] = ()
    forced: bool = False


# ---------------------------------------------------------------- a run


class AgentStart(Payload, tag="agent_start"):
    pass


class AgentEnd(Payload, tag="agent_end"):
    messages: tuple[Message, ...]


class Boundary(Value, kw_only=True):
    """The conversation at the end of a turn or run, and the messages to send next."""

    context_entries: tuple[EntryView, ...] = ()
    context_messages: tuple[AnyMessage, ...] = ()
    pending_messages: tuple[AnyMessage, ...] = ()
    can_continue: bool = True


class AgentBeforeSettle(Payload, tag="agent_before_settle"):
    """`entries` and `continue_` are those that earlier handlers requested."""

    outcome: Literal["completed", "aborted", "error"]
    context: Boundary = Boundary()
    entries: tuple[Any, ...] = ()
    continue_: bool = False


class AgentSettled(Payload, tag="agent_settled"):
    pass


class TurnStart(Payload, tag="turn_start"):
    turn_index: int
    timestamp: int


class TurnEnd(Payload, tag="turn_end"):
    """`entries` and `continue_` are those that earlier handlers requested."""

    turn_index: int
    message: AssistantMessage
    tool_results: tuple[ToolResultMessage, ...]
    message_entry_id: str | None = None
    tool_result_entry_ids: tuple[str, ...] = ()
    context: Boundary = Boundary()
    entries: tuple[Any, ...] = ()
    continue_: bool = False


class MessageStart(Payload, tag="message_start"):
    message: AnyMessage


class AnswerPiece(Value, kw_only=True):
    """Stream event of an answer: `text_start`, `text_delta`, `text_end`, `thinking_start`, ….

    The kinds are text, thinking and toolcall.
    """

    type: str
    content_index: int
    delta: str | None = None
    content: str | None = None
    tool_call: ToolCall | None = None


def answer_piece(event: StreamEvent) -> AnswerPiece:
    """Convert a stream event to the payload form."""
    if isinstance(event, BlockDelta):
        return AnswerPiece(type=f"{event.kind}_delta", content_index=event.index, delta=event.delta)
    if not isinstance(event, BlockEnd):
        return AnswerPiece(type=f"{event.kind}_start", content_index=event.index)
    end = AnswerPiece(type=f"{event.kind}_end", content_index=event.index)
    match event.block:
        case ToolCall():
            return end.replace(tool_call=event.block)
        case Text(text=text) | Thinking(thinking=text):
            return end.replace(content=text)


class MessageUpdate(Payload, tag="message_update"):
    message: AssistantMessage
    assistant_message_event: AnswerPiece


class MessageEnd(Payload, tag="message_end"):
    message: AnyMessage


# ---------------------------------------------------------------- tools


class ToolExecutionStart(Payload, tag="tool_execution_start"):
    tool_call_id: str
    tool_name: str
    args: Any


class ToolExecutionUpdate(Payload, tag="tool_execution_update"):
    tool_call_id: str
    tool_name: str
    args: Any
    partial_result: ToolOutput


class ToolExecutionEnd(Payload, tag="tool_execution_end"):
    tool_call_id: str
    tool_name: str
    result: ToolOutput
    is_error: bool


class ToolCalled(Payload, tag="tool_call"):
    """A call with validated arguments; a handler may return another `input`."""

    tool_name: str
    tool_call_id: str
    input: Mapping[str, Any]


class ToolReturned(Payload, tag="tool_result"):
    tool_name: str
    tool_call_id: str
    input: Mapping[str, Any]
    content: tuple[Part, ...]
    is_error: bool
    details: Any = UNSET
    usage: Usage | None = None


class UserBash(Payload, tag="user_bash"):
    command: str
    exclude_from_context: bool
    cwd: str


# ---------------------------------------------------------------- the model


class ContextBuilt(Payload, tag="context"):
    messages: tuple[AnyMessage, ...]


class ContextWithSystem(Payload, tag="context_with_system"):
    system_prompt: str
    messages: tuple[AnyMessage, ...]


class BeforeProviderRequest(Payload, tag="before_provider_request"):
    payload: Any


class BeforeProviderHeaders(Payload, tag="before_provider_headers"):
    headers: Mapping[str, str]


class AfterProviderResponse(Payload, tag="after_provider_response"):
    status: int
    headers: Mapping[str, str]


class ModelSelect(Payload, tag="model_select"):
    model: Model
    source: Literal["set", "cycle", "restore"]
    previous_model: Model | None = None


class ThinkingLevelSelect(Payload, tag="thinking_level_select"):
    level: ThinkingLevel
    previous_level: ThinkingLevel


class CacheWarmingDecision(Payload, tag="cache_warming_decision"):
    """`inputs` are the values from which the proposed action was computed."""

    action: Literal["warm", "stop"]
    inputs: Mapping[str, Any] = {}


# ---------------------------------------------------------------- dialogs


class UiPromptStart(Payload, tag="ui_prompt_start"):
    kind: Literal["select", "confirm", "input", "editor", "custom"]
    title: str | None = None
    reason: Literal["ui_prompt"] = "ui_prompt"


class UiPromptEnd(Payload, tag="ui_prompt_end"):
    kind: Literal["select", "confirm", "input", "editor", "custom"]
    title: str | None = None
    reason: Literal["ui_prompt"] = "ui_prompt"
