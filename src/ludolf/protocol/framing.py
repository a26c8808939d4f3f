"""From a line of bytes to the head of a command, and the words for lines that are none."""

import json
import re
from typing import Any

import msgspec

from ludolf.base import LudolfError, as_text, dumps

NO_ID = msgspec.Raw(b"")
# Enough for a line that cannot be read as a whole: most hosts write the id first.
_FIRST_ID = re.compile(rb'\s*\{\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9.eE+-]+)\s*,')
_SHAPE = 'expected a JSON object with a string "type"'


class Head(msgspec.Struct, frozen=True):
    """What every command has. The id is kept as its own bytes, so that it returns unchanged."""

    type: str
    id: msgspec.Raw = NO_ID


class _Id(msgspec.Struct):
    id: msgspec.Raw = NO_ID


class BadFrame(LudolfError):
    """A line is no command; it is answered as `parse`.

    `untyped`: it is JSON and not null, but names no command; some hosts know another answer.
    """

    def __init__(self, reason: str, id: msgspec.Raw = NO_ID, *, untyped: bool = False) -> None:
        super().__init__(f"Failed to parse command: {reason}")
        self.id = id
        self.untyped = untyped


_heads = msgspec.json.Decoder(Head)
_ids = msgspec.json.Decoder(_Id)


Body = bytes | dict[str, Any]


def read_head(line: bytes) -> tuple[Head, Body]:
    """The head of a line, and its body: the bytes, or the object where bytes need repair.

    Raises:
        BadFrame: the line is not JSON, not an object, or has no type.
    """
    try:
        return _heads.decode(line), line
    except msgspec.ValidationError:
        untyped = line.strip() != b"null"
        raise BadFrame(_SHAPE, _find_id(line), untyped=untyped) from None
    except RecursionError:
        raise BadFrame("nested too deeply", _first_id(line)) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = repair(line)
    found = dumps(value["id"]) if "id" in value else b""
    return Head(value["type"], msgspec.Raw(found)), value


def repair(line: bytes) -> dict[str, Any]:
    """Read what JavaScript accepts and msgspec does not: a BOM, bad UTF-8, lone surrogates.

    Raises:
        BadFrame: the line is no command after all.
    """
    try:
        value = json.loads(as_text(line))
    except RecursionError:
        raise BadFrame("nested too deeply", _first_id(line)) from None
    except ValueError as error:
        raise BadFrame(str(error)) from None
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise BadFrame(_SHAPE)
    return value


def _find_id(line: bytes) -> msgspec.Raw:
    try:
        return _ids.decode(line).id
    except msgspec.DecodeError:
        return NO_ID


def _first_id(line: bytes) -> msgspec.Raw:
    found = _FIRST_ID.match(line)
    try:
        return msgspec.Raw(dumps(json.loads(found[1]))) if found else NO_ID
    except ValueError:
        return NO_ID
