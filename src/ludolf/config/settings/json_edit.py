"""Change one value in the text of a JSON object; everything else stays as it is written."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ludolf.base.patterns import lazy_pattern

_SPACE = lazy_pattern(r"[ \t\r\n]*")
_INDENT = lazy_pattern(r"\{[ \t]*\r?\n([ \t]+)\"")


class _Member(NamedTuple):
    """Positions of one member of an object; `after` is the end of the sign before it."""

    name: str
    after: int
    start: int
    value: int
    end: int


def with_value(text: str, path: Sequence[str], value: Any) -> str:
    """Return the text with the value at a path, replaced or added.

    The text must be a valid JSON object, or blank.
    """
    text = text if text.strip() else "{}\n"
    at = _SPACE.match(text).end()  # type: ignore[union-attr]  # matches everywhere
    for depth, name in enumerate(path):
        members = _members(text, at)
        found = next((one for one in reversed(members) if one.name == name), None)
        rest = path[depth + 1 :]
        if found is None:
            return _added(text, at, members, (name, _nested(rest, value), depth))
        if not rest or text[found.value] != "{":
            new = _written(text, _nested(rest, value), depth + 1)
            return text[: found.value] + new + text[found.end :]
        at = found.value
    return text


def without(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at a path, and without objects that it leaves empty."""
    if not text.strip():
        return text
    at = _SPACE.match(text).end()  # type: ignore[union-attr]  # matches everywhere
    cut: tuple[int, int] | None = None
    for depth, name in enumerate(path):
        members = _members(text, at)
        places = [place for place, one in enumerate(members) if one.name == name]
        if not places:
            return text
        place = places[-1]
        if cut is None or len(members) > 1:
            cut = _cut(text, at, members, place)
        if depth + 1 < len(path) and text[members[place].value] != "{":
            return text
        at = members[place].value
    return text if cut is None else text[: cut[0]] + text[cut[1] :]


def edited(text: str, changes: Mapping[str, Any], path: tuple[str, ...] = ()) -> str:
    """Return the text with changes; None removes a key, an object changes only its keys.

    The text must be a valid JSON object, or blank.
    """
    for name, value in changes.items():
        place = (*path, name)
        if value is None:
            text = without(text, place)
        elif isinstance(value, Mapping) and value:
            text = edited(text, value, place)
        else:
            text = with_value(text, place, value)
    return text


# ---------------------------------------------------------------- private


def _members(text: str, at: int) -> list[_Member]:
    """Return the members of the object that begins at a position."""
    decoder, after = json.JSONDecoder(), at + 1
    members: list[_Member] = []
    while True:
        start = _skip(text, after)
        if text[start] == "}":
            return members
        name, end = decoder.raw_decode(text, start)
        value = _skip(text, _skip(text, end) + 1)
        _, end = decoder.raw_decode(text, value)
        members.append(_Member(name, after, start, value, end))
        after = _skip(text, end)
        if text[after] == ",":
            after += 1


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    assert found is not None
    return found.end()


def _added(text: str, at: int, members: list[_Member], new: tuple[str, Any, int]) -> str:
    name, value, depth = new
    member = f"{json.dumps(name, ensure_ascii=False)}: {_written(text, value, depth + 1)}"
    if members:
        last = members[-1]
        return f"{text[: last.end]},{text[last.after : last.start]}{member}{text[last.end :]}"
    unit = _unit(text)
    end = _skip(text, at + 1)
    inside = f"\n{unit * (depth + 1)}{member}\n{unit * depth}"
    return text[: at + 1] + inside + text[end:]


def _cut(text: str, at: int, members: list[_Member], place: int) -> tuple[int, int]:
    own = members[place]
    if place:
        return members[place - 1].end, own.end
    if len(members) > 1:
        return own.start, members[1].start
    return at + 1, _skip(text, own.end)


def _nested(names: Sequence[str], value: Any) -> Any:
    for name in reversed(names):
        value = {name: value}
    return value


def _written(text: str, value: Any, depth: int) -> str:
    unit = _unit(text)
    written = json.dumps(value, indent=unit, ensure_ascii=False)
    return written.replace("\n", "\n" + unit * depth)


def _unit(text: str) -> str:
    found = _INDENT.search(text)
    return found[1] if found else "  "
