"""Messages and models as oh-my-pi and xcsh write them."""

from typing import Any, Literal

from ludolf.ai.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    Part,
    Spoken,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ludolf.ai.models import Model
from ludolf.base import Value


class OmpToolCall(ToolCall, kw_only=True):
    """`partialArgs` are the arguments as the model wrote them; `streamIndex` counts the calls."""

    partial_args: str
    stream_index: int


class OmpUserMessage(UserMessage, kw_only=True):
    """`steering`: it came while the agent worked."""

    steering: bool = False
    attribution: Literal["user"]


class ContextSnapshot(Value):
    """The size of the context of an answer, in tokens."""

    prompt_tokens: int
    non_message_tokens: int


class StopDetails(Value):
    """The reason why an answer was cut after content."""

    type: str
    category: str | None
    explanation: str


class OmpAssistantMessage(AssistantMessage, kw_only=True):
    """With times in milliseconds, and for a failed one the kind of failure as a number."""

    content: tuple[Text | Thinking | OmpToolCall, ...]
    error_id: int | None = None
    error_status: int | None = None
    stop_details: StopDetails | None = None
    duration: float | None = None
    ttft: float | None = None
    context_snapshot: ContextSnapshot | None = None


class OmpToolResultMessage(ToolResultMessage, kw_only=True):
    """`isWarning` is there in xcsh only."""

    is_warning: bool = False


class OmpBashMessage(BashExecutionMessage, kw_only=True):
    """`meta` describes the part of a long output that was cut."""

    meta: dict[str, Any] | None = None


class OmpCustomMessage(CustomMessage, kw_only=True):
    attribution: Literal["agent"]


class DeveloperMessage(Spoken, tag_field="role", tag="developer"):
    """A reminder that the program itself put into the conversation."""

    content: tuple[Part, ...]
    attribution: Literal["agent"]
    timestamp: int


class OmpCompactionSummary(CompactionSummaryMessage):
    short_summary: str


OmpMessage = (
    OmpUserMessage
    | OmpAssistantMessage
    | OmpToolResultMessage
    | OmpBashMessage
    | OmpCustomMessage
    | DeveloperMessage
    | BranchSummaryMessage
    | OmpCompactionSummary
)


class OmpThinking(Value):
    """The thinking levels of a model, in the spellings of all clients of the family."""

    mode: Literal["budget", "effort"]
    efforts: tuple[str, ...]
    min_level: str
    max_level: str


class OmpModel(Model, kw_only=True):
    """`thinking` is there for models that think."""

    compat: dict[str, Any]
    supports_computer_use: bool
    is_o_auth: bool = False
    thinking: OmpThinking | None = None
