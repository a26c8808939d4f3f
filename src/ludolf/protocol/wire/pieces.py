"""Pieces of an answer while it streams: `assistantMessageEvent`, alone or with the whole so far."""

from typing import TYPE_CHECKING, Union, get_args

import msgspec

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

if TYPE_CHECKING:
    WholePiece = Piece
else:
    _PARTIAL = [("partial", AssistantMessage)]
    WholePiece = Union[  # noqa: UP007  # made of a tuple
        tuple(
            msgspec.defstruct(f"Whole{kind.__name__}", _PARTIAL, bases=(kind,), kw_only=True)
            for kind in get_args(Piece)
        )
    ]
