"""Convert plain dicts from user code to typed values."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from ludolf.ai.messages import CustomMessage, Message, OpaqueMessage, Part
from ludolf.base import LudolfError, now_ms

T = TypeVar("T")
# Keys below these belong to others and are not renamed.
_JSON = frozenset(
    (
        *("arguments", "compat", "data", "details", "headers", "input", "parameters", "sections"),
        *("sampling_params", "samplingParams", "tool_guidelines", "tool_snippets"),
    )
)


class BadAnswer(LudolfError):
    """Raised when user code returned an invalid value; the text names the field."""


def read(kind: type[T], value: Any, what: str, *, rename: bool = True) -> T:
    """Convert a dict with snake_case or wire names to a value of this type.

    Without `rename`, all keys stay unchanged.

    Raises:
        BadAnswer: the value does not match the type.
    """
    try:
        return msgspec.convert(to_wire(value) if rename else value, kind)
    except (msgspec.ValidationError, TypeError, ValueError, RecursionError) as error:
        raise BadAnswer(f"{what}: {error}") from error


def to_wire(value: Any) -> Any:
    """Return plain data with camelCase keys; the keys of JSON such as `details` stay unchanged."""
    if isinstance(value, OpaqueMessage):
        return msgspec.json.decode(value.raw)
    if isinstance(value, msgspec.Struct):
        # A changed copy may contain dicts among its blocks, so its fields are converted too.
        return to_wire(_fields(value))
    if isinstance(value, Mapping):
        return {
            camel(key) if isinstance(key, str) else key: item if key in _JSON else to_wire(item)
            for key, item in value.items()
        }
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return value
    return [to_wire(item) for item in value]


def _fields(value: msgspec.Struct) -> dict[str, Any]:
    config = value.__struct_config__
    fields: dict[str, Any] = {}
    if config.tag_field is not None:
        fields[config.tag_field] = config.tag
    for name, wire in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        item = getattr(value, name)
        if item is not msgspec.UNSET:
            fields[wire] = item
    return fields


def camel(name: str) -> str:
    first, *more = name.split("_")
    if not first:
        return name
    return first + "".join(part[:1].upper() + part[1:] for part in more)


def read_message(value: Any, what: str) -> Message | OpaqueMessage:
    """Convert a dict to a message, or validate a message from an extension.

    Raises:
        BadAnswer: the value is not a message.
    """
    if isinstance(value, OpaqueMessage):
        return value
    message: Message = read(Message, value, what)  # type: ignore[arg-type]  # a union is not a type
    return message


def read_messages(value: Any, what: str) -> tuple[Message | OpaqueMessage, ...]:
    """Convert a list of messages; valid messages stay the same objects.

    Raises:
        BadAnswer: the value is not a list of messages.
    """
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable):
        raise BadAnswer(f"{what}: a list of messages is expected")
    return tuple(m if is_sound(m) else read_message(m, what) for m in value)


def is_sound(message: Any) -> bool:
    """Return whether the content blocks of a message have valid types."""
    if isinstance(message, OpaqueMessage):
        return True
    if not isinstance(message, msgspec.Struct):
        return False
    content = getattr(message, "content", ())
    if isinstance(content, str):
        return True
    return isinstance(content, tuple) and all(isinstance(b, msgspec.Struct) for b in content)


def read_parts(value: Any, what: str) -> tuple[Part, ...]:
    """Convert a string, one block, or a list of blocks and strings to content blocks.

    Raises:
        BadAnswer: an item is neither text nor an image.
    """
    if isinstance(value, str | Mapping | msgspec.Struct):
        value = [value]
    if not isinstance(value, Iterable):
        raise BadAnswer(f"{what}: {type(value).__name__} is not valid content")
    blocks = [{"type": "text", "text": b} if isinstance(b, str) else b for b in value]
    parts: tuple[Part, ...] = read(tuple[Part, ...], blocks, what)
    return parts


def read_custom(value: Any, what: str) -> CustomMessage:
    """Convert a dict with custom_type, content, display and details to a custom message.

    Raises:
        BadAnswer: a field is missing or invalid.
    """
    if not isinstance(value, Mapping):
        raise BadAnswer(f"{what}: a dict with custom_type, content and display is expected")
    content = value.get("content", "")
    if not isinstance(content, str):
        content = read_parts(content, what)
    return read(CustomMessage, {"timestamp": now_ms(), **value, "content": content}, what)
