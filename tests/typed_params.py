"""Holds JSON against the parameter types of a vendor's SDK: what it does not know is named."""

import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin
from typing import get_type_hints as hints_of

_WRAPPERS = (Required, NotRequired, Annotated)
_UNIONS = (Union, types.UnionType)


def misfits(value: Any, hint: Any, where: str = "$") -> list[str]:
    """Where a value does not fit a type: fields that it does not know, lacks, or of another type.

    Of a union the member that fits best counts.
    """
    origin = get_origin(hint)
    if origin in _WRAPPERS:
        return misfits(value, get_args(hint)[0], where)
    if origin in _UNIONS:
        return min((misfits(value, each, where) for each in get_args(hint)), key=_weight)
    if hint is Any or hint is object:
        return []
    if origin is Literal:
        return [] if value in get_args(hint) else [f"{where}: {value!r} is none of {hint}"]
    if _is_record(hint):
        return _record(value, hint, where)
    if origin is not None:
        return list(_items(value, origin, get_args(hint), where))
    return [] if _is_a(value, hint) else [f"{where}: {type(value).__name__} for {hint}"]


def _weight(complaints: list[str]) -> tuple[int, int]:
    # A member of another kind complains of its tag: that weighs more than a field too many.
    return sum(" is none of " in each or " for " in each for each in complaints), len(complaints)


def _is_record(hint: Any) -> bool:
    return isinstance(hint, type) and hasattr(hint, "__required_keys__")


@cache
def _fields(hint: Any) -> dict[str, Any]:
    return hints_of(hint, include_extras=True)


def _record(value: Any, hint: Any, where: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{where}: {type(value).__name__} for {hint.__name__}"]
    fields = _fields(hint)
    open_ended = getattr(hint, "__pydantic_config__", {}).get("extra") == "allow"
    missing = [key for key, each in fields.items() if get_origin(each) is Required]
    found = [f"{where}.{key} is missing" for key in missing if key not in value]
    for key, item in value.items():
        if key in fields:
            found += misfits(item, fields[key], f"{where}.{key}")
        elif not open_ended:
            found.append(f"{where}.{key} is unknown")
    return found


def _items(value: Any, origin: Any, parts: tuple[Any, ...], where: str) -> Iterator[str]:
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(value, dict):
            yield f"{where}: {type(value).__name__} for a mapping"
            return
        for key, item in value.items():
            yield from misfits(item, parts[1], f"{where}.{key}")
    elif _is_list(origin):
        if not isinstance(value, list):
            yield f"{where}: {type(value).__name__} for a list"
            return
        for place, item in enumerate(value):
            yield from misfits(item, parts[0], f"{where}[{place}]")
    else:
        yield f"{where}: {type(value).__name__} for {origin}"


def _is_list(origin: Any) -> bool:
    named = getattr(origin, "__name__", "") == "SequenceNotStr"
    return named or origin in (Iterable, list, Sequence)


def _is_a(value: Any, hint: Any) -> bool:
    if hint is None:
        return value is None
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)
