"""The ground floor: the value base class, ids, clock, root errors, JSON that survives odd text."""

import json
import math
import os
import time
from typing import Any, Self, dataclass_transform

import msgspec


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An immutable record: snake_case in Python, camelCase on the wire.

    A field that must always appear has no default; a field that is absent when unset has one.
    """

    def replace(self, **changes: Any) -> Self:
        """A copy with other values in some fields."""
        return msgspec.structs.replace(self, **changes)


class LudolfError(Exception):
    """The root of every error that this package raises on purpose."""


class CommandError(LudolfError):
    """A command was refused; its text goes to the host as it is, a code where there is one."""

    code: str | None = None


class ConfigError(LudolfError):
    """A file of the user's configuration cannot be used; the text names the file."""


def now_ms() -> int:
    """Wall clock in Unix milliseconds, the unit of message timestamps."""
    return time.time_ns() // 1_000_000


def iso_time(ms: int | None = None) -> str:
    """ISO 8601 UTC with milliseconds and Z, the form of session entry timestamps."""
    stamp = now_ms() if ms is None else ms
    seconds, rest = divmod(stamp, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"


def short_id() -> str:
    """Eight random hex digits: the id of a session entry."""
    return os.urandom(4).hex()


def uuid4() -> str:
    """A random UUID, without the cost of importing the uuid module."""
    return _shape_uuid(bytearray(os.urandom(16)), version=4)


def uuid7() -> str:
    """A UUID that sorts by time: the id of a session."""
    return _shape_uuid(bytearray(now_ms().to_bytes(6, "big") + os.urandom(10)), version=7)


def _shape_uuid(raw: bytearray, *, version: int) -> str:
    raw[6] = (raw[6] & 0x0F) | (version << 4)
    raw[8] = (raw[8] & 0x3F) | 0x80
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


# ---------------------------------------------------------------- JSON

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()
_PLAIN = (str, int, bool, type(None))


def dumps(value: Any) -> bytes:
    """Encode to JSON bytes; lone surrogates become escapes, as JavaScript writes them."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return json.dumps(_finite(msgspec.to_builtins(value)), separators=(",", ":")).encode()


def loads(data: bytes | bytearray | memoryview | str) -> Any:
    """Decode JSON; repair what JavaScript takes but msgspec refuses: lone surrogates, bad UTF-8.

    Raises:
        ValueError: the text is not JSON, or is nested too deeply.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(as_text(data))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def as_text(data: bytes | bytearray | memoryview | str) -> str:
    """Text of JSON bytes: invalid UTF-8 replaced, a leading BOM dropped."""
    text = data if isinstance(data, str) else bytes(data).decode("utf-8", "replace")
    return text.removeprefix("\ufeff")


def escape(text: str) -> bytes:
    """The text as the inside of a JSON string, without the quotes."""
    try:
        return _encoder.encode(text)[1:-1]
    except UnicodeEncodeError:
        return json.dumps(text).encode()[1:-1]


def join_surrogates(text: str) -> str:
    """Join surrogate pairs that came in two pieces; lone ones stay as they are."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def without_surrogates(text: str) -> str:
    """Text that every model provider accepts: pairs joined, lone surrogates removed."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return text


def _finite(value: Any) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value]
