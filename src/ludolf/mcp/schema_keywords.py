"""Read the keywords of a schema that contain no schemas; drop those with invalid values."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ludolf.mcp.cleaning import clean_text, is_clean
from ludolf.mcp.schema_limits import children, is_deeper

MAX_DESCRIPTION = 2048
MAX_ENUM = 500
_MAX_TITLE = 200
_MAX_PATTERN = 500
_MAX_VALUE_LEVELS = 6
_MAX_INTEGER = 2**53 - 1
_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")


def plain_keywords(raw: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield each keyword with its value, which is None if it is invalid.

    `pattern` is not among them, because compiling it takes time: see `valid_pattern`.
    """
    for key, read in _PLAIN.items():
        if key in raw:
            yield key, read(raw[key])
    if "const" in raw and "enum" not in raw:
        yield "enum", _enum([raw["const"]])


def _type(value: Any) -> Any:
    if isinstance(value, str):
        return value if value in _TYPES else None
    if not isinstance(value, list):
        return None
    known = [kind for kind in _TYPES if kind in value]
    return known[0] if len(known) == 1 else known or None


def _description(value: Any) -> str | None:
    return clean_text(value, MAX_DESCRIPTION) or None if isinstance(value, str) else None


def _title(value: Any) -> str | None:
    return clean_text(value, _MAX_TITLE) or None if isinstance(value, str) else None


def _enum(value: Any) -> list[Any] | None:
    """Keep the values that a model can repeat exactly."""
    if not isinstance(value, list):
        return None
    return [each for each in value[:MAX_ENUM] if _is_plain_value(each)] or None


def _examples(value: Any) -> list[Any] | None:
    return _enum(value[:8]) if isinstance(value, list) else None


def _default(value: Any) -> Any:
    return value if _is_plain_value(value) else None


def _is_plain_value(value: Any) -> bool:
    return not is_deeper(value, _MAX_VALUE_LEVELS) and all(map(_is_plain_leaf, _leaves(value)))


def _is_plain_leaf(value: Any) -> bool:
    if isinstance(value, str):
        return is_clean(value)
    return value is None or isinstance(value, bool) or _number(value) is not None


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the values that are not arrays or objects, and the names in objects."""
    if not isinstance(value, dict | list):
        yield value
        return
    if isinstance(value, dict):
        yield from value
    for inner in children(value):
        yield from _leaves(inner)


def _number(value: Any) -> float | None:
    """Return a number that every reader of JSON keeps."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    is_kept = math.isfinite(value) if isinstance(value, float) else abs(value) <= _MAX_INTEGER
    return value if is_kept else None


def _positive(value: Any) -> float | None:
    number = _number(value)
    return number if number is not None and number > 0 else None


def _count(value: Any) -> int | None:
    number = _number(value)
    return int(number) if number is not None and number >= 0 and number == int(number) else None


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


def valid_pattern(value: Any) -> str | None:
    """Return a regular expression that the validator accepts."""
    if not isinstance(value, str) or len(value) > _MAX_PATTERN or not is_clean(value):
        return None
    # Loaded here: few schemas have patterns.
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for({"pattern": value}, offline=True)
    except ValueError:
        return None
    return value


def _format(value: Any) -> str | None:
    return value if isinstance(value, str) and re.fullmatch(r"[\w.:-]{1,64}", value) else None


_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    "type": _type,
    "title": _title,
    "description": _description,
    "default": _default,
    "enum": _enum,
    "examples": _examples,
    "format": _format,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _number),
    "multipleOf": _positive,
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _count),
    **dict.fromkeys(("minProperties", "maxProperties"), _count),
    "uniqueItems": _flag,
}
