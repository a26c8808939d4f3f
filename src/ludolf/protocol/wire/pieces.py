"""Pieces of an answer while it streams: `assistantMessageEvent`, alone or with the whole so far."""

from ludolf.ai.messages import AssistantMessage, ToolCall
from ludolf.base import Value


class TextStart(Value, tag_field="type", tag="text_start"):
    """A text begins; `contentIndex` is its place among the blocks of the message."""

    content_index: int


class TextDelta(Value, tag_field="type", tag="text_delta"):
    """Text to append."""

    content_index: int
    delta: str


class TextEnd(Value, tag_field="type", tag="text_end"):
    """The whole text."""

    content_index: int
    content: str


class ThinkingStart(Value, tag_field="type", tag="thinking_start"):
    content_index: int


class ThinkingDelta(Value, tag_field="type", tag="thinking_delta"):
    """Thinking to append."""

    content_index: int
    delta: str


class ThinkingEnd(Value, tag_field="type", tag="thinking_end"):
    """The whole thought."""

    content_index: int
    content: str


class ToolcallStart(Value, tag_field="type", tag="toolcall_start"):
    """A call begins. Programs other than this one may leave out its id and name."""

    content_index: int
    id: str = ""
    tool_name: str = ""


class ToolcallDelta(Value, tag_field="type", tag="toolcall_delta"):
    """More of the JSON text of the arguments."""

    content_index: int
    delta: str


class ToolcallEnd(Value, tag_field="type", tag="toolcall_end"):
    """The whole call."""

    content_index: int
    tool_call: ToolCall


Piece = (
    TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolcallStart
    | ToolcallDelta
    | ToolcallEnd
)

# ---------------------------------------------------------------- with the whole answer so far


class WholeTextStart(TextStart):
    partial: AssistantMessage


class WholeTextDelta(TextDelta):
    partial: AssistantMessage


class WholeTextEnd(TextEnd):
    partial: AssistantMessage


class WholeThinkingStart(ThinkingStart):
    partial: AssistantMessage


class WholeThinkingDelta(ThinkingDelta):
    partial: AssistantMessage


class WholeThinkingEnd(ThinkingEnd):
    partial: AssistantMessage


class WholeToolcallStart(ToolcallStart, kw_only=True):
    partial: AssistantMessage


class WholeToolcallDelta(ToolcallDelta):
    partial: AssistantMessage


class WholeToolcallEnd(ToolcallEnd):
    partial: AssistantMessage


WholePiece = (
    WholeTextStart
    | WholeTextDelta
    | WholeTextEnd
    | WholeThinkingStart
    | WholeThinkingDelta
    | WholeThinkingEnd
    | WholeToolcallStart
    | WholeToolcallDelta
    | WholeToolcallEnd
)
