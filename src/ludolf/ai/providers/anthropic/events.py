"""Events of an Anthropic stream; unknown events and fields are ignored."""

from typing import Any

import msgspec

from ludolf.base import loads


class _Wire(msgspec.Struct, frozen=True, gc=False, tag_field="type"):
    """The fields of the events that are used; others are ignored."""


class AnthropicTextDelta(_Wire, frozen=True, tag="text_delta"):
    text: str


class AnthropicThinkingDelta(_Wire, frozen=True, tag="thinking_delta"):
    thinking: str


class InputDelta(_Wire, frozen=True, tag="input_json_delta"):
    partial_json: str


class SignatureDelta(_Wire, frozen=True, tag="signature_delta"):
    signature: str


class ContentBlockDelta(_Wire, frozen=True, tag="content_block_delta"):
    index: int
    delta: AnthropicTextDelta | AnthropicThinkingDelta | InputDelta | SignatureDelta


class TextBlock(_Wire, frozen=True, tag="text"):
    text: str | None = None


class ThinkingBlock(_Wire, frozen=True, tag="thinking"):
    thinking: str | None = None
    signature: str | None = None


class RedactedBlock(_Wire, frozen=True, tag="redacted_thinking"):
    data: str


class ToolBlock(_Wire, frozen=True, tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any] | None = None


class ContentBlockStart(_Wire, frozen=True, tag="content_block_start"):
    index: int
    content_block: TextBlock | ThinkingBlock | RedactedBlock | ToolBlock


class ContentBlockStop(_Wire, frozen=True, tag="content_block_stop"):
    index: int


class _CacheCreation(msgspec.Struct, frozen=True):
    ephemeral_1h_input_tokens: int | None = None


class _OutputDetails(msgspec.Struct, frozen=True):
    thinking_tokens: int | None = None


class AnthropicUsage(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _CacheCreation | None = None
    output_tokens_details: _OutputDetails | None = None


class MessageHead(msgspec.Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    usage: AnthropicUsage | None = None


class AnthropicMessageStart(_Wire, frozen=True, tag="message_start"):
    message: MessageHead


class _StopDetails(msgspec.Struct, frozen=True):
    explanation: str | None = None


class StopFields(msgspec.Struct, frozen=True):
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class MessageDelta(_Wire, frozen=True, tag="message_delta"):
    delta: StopFields
    usage: AnthropicUsage | None = None


class AnthropicMessageStop(_Wire, frozen=True, tag="message_stop"):
    pass


class Error(_Wire, frozen=True, tag="error"):
    pass


AnthropicEvent = (
    ContentBlockDelta
    | ContentBlockStart
    | ContentBlockStop
    | AnthropicMessageStart
    | MessageDelta
    | AnthropicMessageStop
    | Error
)
_decoder: msgspec.json.Decoder[AnthropicEvent] = msgspec.json.Decoder(AnthropicEvent)
_INNER = {"content_block_delta": "delta", "content_block_start": "content_block"}
_KNOWN = frozenset(
    (
        *("content_block_delta", "content_block_start", "content_block_stop"),
        *("message_start", "message_delta", "message_stop", "error"),
        *("text_delta", "thinking_delta", "input_json_delta", "signature_delta"),
        *("text", "thinking", "redacted_thinking", "tool_use"),
    )
)


def read_event(data: bytes) -> AnthropicEvent | None:
    """Parse an event; None if its type is unknown.

    Raises:
        ValueError: the data is not JSON, or lacks a required field.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = loads(data)
    try:
        event: AnthropicEvent = msgspec.convert(value, AnthropicEvent)
    except msgspec.ValidationError:
        if _is_known(value):
            raise
        return None
    return event


def _is_known(value: Any) -> bool:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind not in _INNER:
        return kind in _KNOWN
    inner = value.get(_INNER[kind])
    return not isinstance(inner, dict) or inner.get("type") in _KNOWN
