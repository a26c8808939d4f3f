"""Read the head of a command from a line of bytes; refuse lines that are not commands."""

from codecs import BOM_UTF8
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from ludolf.base import ErrorCode, LudolfError, as_text, dumps, is_nested_deeper, loads
from ludolf.base.patterns import lazy_pattern

NO_ID = msgspec.Raw(b"")
# Enough for a line that cannot be read as a whole: most hosts write the id first.
_FIRST_ID = lazy_pattern(rb'\s*\{\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9.eE+-]+)\s*,')
# By default Python refuses to convert integers with more digits.
_MAX_DIGITS = 4300
PARSE_FAILED = "Failed to parse command: "
_SHAPE = 'expected a JSON object with a string "type"'


class Head(msgspec.Struct, frozen=True):
    """The type and id of a command. The id is kept as bytes, so that it returns unchanged."""

    type: str
    id: msgspec.Raw = NO_ID


class _Id(msgspec.Struct):
    id: msgspec.Raw = NO_ID


class BadFrame(LudolfError):
    """A line is not a command; the reply names the command `parse`.

    `untyped`: the line is JSON and not null, but names no command; some dialects reply differently.
    """

    def __init__(self, reason: str, id: msgspec.Raw = NO_ID, *, untyped: bool = False) -> None:
        super().__init__(PARSE_FAILED + reason)
        self.id = id
        self.untyped = untyped


_heads = msgspec.json.Decoder(Head)
_ids = msgspec.json.Decoder(_Id)


Body = bytes | dict[str, Any]


def read_head(line: bytes) -> tuple[Head, Body]:
    """Return the head of a line and its body: the bytes, or an object if they need repair.

    The id of the head is always valid UTF-8 JSON, so that a reply can carry it as it is.

    Raises:
        BadFrame: the line is not JSON, not an object, has no type, or is nested too deeply.
    """
    try:
        if is_nested_deeper(line):
            raise RecursionError
        head = _heads.decode(line)
        if line.isascii() or _is_text(head.id):
            return head, line
        value = repair(line)
    except msgspec.ValidationError:
        untyped = line.strip() != b"null"
        raise BadFrame(_SHAPE, _find_id(line), untyped=untyped) from None
    except RecursionError:
        raise BadFrame("nested too deeply", _first_id(line)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        if line.startswith(BOM_UTF8):
            return read_head(line[len(BOM_UTF8) :])
        value = repair(line)
    return Head(value["type"], _id_of(value, line)), value


def repair(line: bytes) -> dict[str, Any]:
    """Parse JSON that JavaScript accepts and msgspec does not: a BOM, bad UTF-8, lone surrogates.

    Raises:
        BadFrame: the line is not a command after all.
    """
    import json

    try:
        value = json.loads(as_text(line), parse_constant=_refuse_constant, parse_int=_integer)
    except RecursionError:
        raise BadFrame("nested too deeply", _first_id(line)) from None
    except ValueError as error:
        raise BadFrame(str(error)) from None
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        found = _id_of(value, line) if isinstance(value, dict) else NO_ID
        raise BadFrame(_SHAPE, found, untyped=value is not None)
    return value


def _id_of(value: dict[str, Any], line: bytes) -> msgspec.Raw:
    """Return the id of a repaired line, byte for byte unless it stands next to a lone surrogate."""
    try:
        return _ids.decode(as_text(line)).id
    except msgspec.DecodeError:
        return msgspec.Raw(dumps(value["id"])) if "id" in value else NO_ID


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _integer(digits: str) -> int | float:
    """Convert as JavaScript does where Python refuses the number of digits."""
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)


def _is_text(data: msgspec.Raw) -> bool:
    try:
        bytes(data).decode()
    except UnicodeDecodeError:
        return False
    return True


def _find_id(line: bytes) -> msgspec.Raw:
    try:
        found = _ids.decode(line).id
    except (ValueError, RecursionError):
        return _first_id(line)
    return found if _is_text(found) else _as_text(bytes(found))


def _first_id(line: bytes) -> msgspec.Raw:
    found = _FIRST_ID.match(line)
    return _as_text(found[1]) if found else NO_ID


def _as_text(data: bytes) -> msgspec.Raw:
    """Write an id again, its invalid UTF-8 replaced."""
    try:
        return msgspec.Raw(dumps(loads(data)))
    except ValueError:
        return NO_ID


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply: success with optional data, or an error. Data may be JSON already (`Raw`).

    `code` is the reason of an error, and `field` the parameter that was wrong. `more` computes
    fields that only some dialects write. `untyped`: the line named no command.
    """

    command: str
    id: msgspec.Raw = NO_ID
    data: Any = UNSET
    error: str | None = None
    code: ErrorCode | None = None
    field: str | None = None
    more: Callable[[], dict[str, Any]] | None = None
    untyped: bool = False


Frame = bytes | list[bytes]
# Codes that every dialect writes into replies, and those that the open dialects of pi write; the
# others only choose the wording of a dialect.
PUBLIC_CODES: frozenset[ErrorCode] = frozenset(("session_busy", "stale_cursor"))
MORE_CODES: frozenset[ErrorCode] = PUBLIC_CODES | {
    *("busy", "no_key", "no_model", "session_in_use"),
    *("shared", "view_only"),  # of sessions of a server
}


def line(record: Any) -> bytes:
    """Return a record as one line of JSON."""
    return dumps(record) + b"\n"


def render_reply(
    reply: Reply, *, with_id: bool = True, codes: frozenset[ErrorCode] = PUBLIC_CODES
) -> Frame:
    """The `response` record of the pi family; an error has its code if it is one of `codes`."""
    head = (
        b'{"id":%b,"type":"response","command":' % reply.id
        if reply.id and with_id
        else (b'{"type":"response","command":')
    )
    head += dumps(reply.command)
    if reply.error is not None:
        code = b"" if reply.code not in codes else b',"code":' + dumps(reply.code)
        return head + b',"success":false,"error":' + dumps(reply.error) + code + b"}\n"
    if reply.data is UNSET:
        return head + b',"success":true}\n'
    if isinstance(reply.data, list) and all(isinstance(part, bytes) for part in reply.data):
        return [head + b',"success":true,"data":', *reply.data, b"}\n"]
    return head + b',"success":true,"data":' + dumps(reply.data) + b"}\n"
