"""Messages and their content blocks, in the form that sessions store and hosts receive."""

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType, field

from ludolf.base import Value, loads

StopReason = Literal["stop", "length", "toolUse", "error", "aborted"]
ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
THINKING_LEVELS: tuple[ThinkingLevel, ...] = (
    "off",
    "minimal",
    "low",
    "medium",
    "high",
    "xhigh",
    "max",
)


# ---------------------------------------------------------------- content blocks


class Text(Value, tag_field="type", tag="text"):
    text: str
    text_signature: str | None = None
    is_document: bool = False


class Image(Value, tag_field="type", tag="image"):
    data: str
    mime_type: str


class Thinking(Value, tag_field="type", tag="thinking"):
    thinking: str
    thinking_signature: str | None = None
    redacted: bool = False


class ToolCall(Value, tag_field="type", tag="toolCall"):
    id: str
    name: str
    arguments: Any
    thought_signature: str | None = None
    namespace: str | None = None


Block = Text | Thinking | ToolCall
Part = Text | Image


# ---------------------------------------------------------------- usage


class Cost(Value, omit_defaults=False):
    """US dollars."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    total: float = 0


class Usage(Value, omit_defaults=False):
    """Tokens of one answer; `input` excludes tokens read from or written to the cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost = Cost()
    cache_write_1h: int | UnsetType = field(default=UNSET, name="cacheWrite1h")
    reasoning: int | UnsetType = UNSET

    @property
    def context(self) -> int:
        """Return the number of tokens of the request and its answer in the context window."""
        return self.total_tokens or self.input + self.output + self.cache_read + self.cache_write


NO_USAGE = Usage()


# ---------------------------------------------------------------- messages


class Spoken(Value):
    """A message of any role."""

    @property
    def role(self) -> str:
        return str(self.__struct_config__.tag)


class UserMessage(Spoken, tag_field="role", tag="user"):
    """A user message. `attachments` are what a host of early pi sent, besides the content."""

    content: str | tuple[Part, ...]
    timestamp: int
    attachments: Any = UNSET

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Text(text=self.content),) if isinstance(self.content, str) else self.content


class Diagnostic(Value, kw_only=True):
    """Facts about an answer for support; not part of the answer."""

    type: str
    timestamp: int
    error: Any = UNSET
    details: Any = UNSET


class AssistantMessage(Spoken, tag_field="role", tag="assistant"):
    content: tuple[Block, ...]
    api: str
    provider: str
    model: str
    usage: Usage
    stop_reason: StopReason
    timestamp: int
    response_model: str | None = None
    response_id: str | None = None
    error_message: str | None = None
    raw_stop_reason: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple([block for block in self.content if isinstance(block, ToolCall)])

    @property
    def failed(self) -> bool:
        return self.stop_reason in ("error", "aborted")


class ToolResultMessage(Spoken, tag_field="role", tag="toolResult", kw_only=True):
    tool_call_id: str
    tool_name: str
    content: tuple[Part, ...]
    details: Any = UNSET
    usage: Usage | None = None
    is_error: bool
    timestamp: int


class BashExecutionMessage(Spoken, tag_field="role", tag="bashExecution", kw_only=True):
    """A shell command that the host ran outside the conversation."""

    command: str
    output: str
    exit_code: int | None = None
    cancelled: bool
    truncated: bool
    full_output_path: str | None = None
    exclude_from_context: bool = False
    timestamp: int


class CustomMessage(Spoken, tag_field="role", tag="custom", kw_only=True):
    """A message that an extension added to the conversation."""

    custom_type: str
    content: str | tuple[Part, ...]
    display: bool
    details: Any = UNSET
    timestamp: int


class BranchSummaryMessage(Spoken, tag_field="role", tag="branchSummary"):
    summary: str
    from_id: str | None
    timestamp: int


class CompactionSummaryMessage(Spoken, tag_field="role", tag="compactionSummary"):
    summary: str
    tokens_before: int
    timestamp: int


class OpaqueMessage(msgspec.Struct, frozen=True):
    """A message of unknown role or shape: hosts receive it unchanged, models never do."""

    role: str
    raw: msgspec.Raw


Message = (
    UserMessage
    | AssistantMessage
    | ToolResultMessage
    | BashExecutionMessage
    | CustomMessage
    | BranchSummaryMessage
    | CompactionSummaryMessage
)
AnyMessage = Message | OpaqueMessage

_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


def decode_message(raw: bytes | msgspec.Raw) -> Message | OpaqueMessage:
    """Decode a stored message; keep a message of unknown shape unchanged."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_odd(bytes(raw))


def _decode_odd(raw: bytes) -> Message | OpaqueMessage:
    try:
        value = loads(raw)
    except (ValueError, RecursionError):
        return OpaqueMessage(role="unknown", raw=msgspec.Raw(raw))
    role = value.get("role") if isinstance(value, dict) else None
    if not isinstance(role, str):
        return OpaqueMessage(role="unknown", raw=msgspec.Raw(raw))
    if value.get("content") is None:
        value["content"] = []
    try:
        message: Message = msgspec.convert(value, Message, strict=False)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return OpaqueMessage(role=role, raw=msgspec.Raw(raw))
    return message


def text_of(content: str | tuple[Part, ...] | tuple[Block, ...], joiner: str = "") -> str:
    """Join the text blocks of a message's content."""
    if isinstance(content, str):
        return content
    # Most messages have one block, which needs no joining.
    if len(content) == 1 and isinstance(block := content[0], Text):
        return block.text
    return joiner.join([block.text for block in content if isinstance(block, Text)])
