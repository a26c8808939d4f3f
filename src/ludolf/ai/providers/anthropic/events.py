"""Events of an Anthropic stream; unknown events and fields are ignored."""

from typing import Any

import msgspec

from ludolf.base import loads


class _Wire(msgspec.Struct, frozen=True, gc=False, tag_field="type"):
    """The fields of the events that are used; others are ignored."""


class TextDelta(_Wire, frozen=True, tag="text_delta"):
    text: str


class ThinkingDelta(_Wire, frozen=True, tag="thinking_delta"):
    thinking: str


class InputDelta(_Wire, frozen=True, tag="input_json_delta"):
    partial_json: str


class SignatureDelta(_Wire, frozen=True, tag="signature_delta"):
    signature: str


class BlockDelta(_Wire, frozen=True, tag="content_block_delta"):
    index: int
    delta: TextDelta | ThinkingDelta | InputDelta | SignatureDelta


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


class BlockStart(_Wire, frozen=True, tag="content_block_start"):
    index: int
    content_block: TextBlock | ThinkingBlock | RedactedBlock | ToolBlock


class BlockStop(_Wire, frozen=True, tag="content_block_stop"):
    index: int


class _CacheCreation(msgspec.Struct, frozen=True):
    ephemeral_1h_input_tokens: int | None = None


class _OutputDetails(msgspec.Struct, frozen=True):
    thinking_tokens: int | None = None


class Counts(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _CacheCreation | None = None
    output_tokens_details: _OutputDetails | None = None


class Head(msgspec.Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    usage: Counts | None = None


class MessageStart(_Wire, frozen=True, tag="message_start"):
    message: Head


class _StopDetails(msgspec.Struct, frozen=True):
    explanation: str | None = None


class Stop(msgspec.Struct, frozen=True):
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class MessageDelta(_Wire, frozen=True, tag="message_delta"):
    delta: Stop
    usage: Counts | None = None


class MessageStop(_Wire, frozen=True, tag="message_stop"):
    pass


class Error(_Wire, frozen=True, tag="error"):
    pass


Event = BlockDelta | BlockStart | BlockStop | MessageStart | MessageDelta | MessageStop | Error
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)
_INNER = {"content_block_delta": "delta", "content_block_start": "content_block"}
_KNOWN = frozenset(
    (
        *("content_block_delta", "content_block_start", "content_block_stop"),
        *("message_start", "message_delta", "message_stop", "error"),
        *("text_delta", "thinking_delta", "input_json_delta", "signature_delta"),
        *("text", "thinking", "redacted_thinking", "tool_use"),
    )
)


def read_event(data: bytes) -> Event | None:
    """Parse an event; None if its type is unknown.

    Raises:
        ValueError: the data is not JSON, or lacks a required field.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = loads(data)
    try:
        event: Event = msgspec.convert(value, Event)
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
