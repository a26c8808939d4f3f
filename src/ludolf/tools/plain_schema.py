"""Accept arguments that fit a simple schema, as those of the built-in tools have.

`tools/schema.py` asks a full validator for all else and for the text of every error; that library
takes 6 MiB and is loaded when it is first needed.
"""

import math
from collections.abc import Mapping
from typing import Any

from ludolf.base import ReadOnlySchema

_KEYWORDS = frozenset(
    ("additionalProperties", "default", "description", "items", "properties", "required", "type")
)
_SCALARS: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "string": (str,),
}


def is_plain(schema: Any) -> bool:
    """Return whether the schema has only types, properties and items, so that `fits` can judge."""
    if not isinstance(schema, Mapping) or not _KEYWORDS.issuperset(schema):
        return False
    kind, properties = schema.get("type"), schema.get("properties", {})
    required, items = schema.get("required", ()), schema.get("items")
    return (
        isinstance(kind, str)
        and (kind in _SCALARS or kind == "object" or (kind == "array" and items is not None))
        and (items is None or is_plain(items))
        and isinstance(properties, Mapping)
        and all(map(is_plain, properties.values()))
        and isinstance(required, list | tuple)
        and all(isinstance(name, str) for name in required)
        and isinstance(schema.get("additionalProperties", True), bool)
    )


def fits(value: Any, schema: ReadOnlySchema) -> bool:
    """Return whether a value certainly fits a plain schema."""
    kind = schema["type"]
    if kind == "object":
        return isinstance(value, dict) and _is_fitting_object(value, schema)
    if kind == "array":
        return isinstance(value, list) and all(fits(item, schema["items"]) for item in value)
    if type(value) is float and not math.isfinite(value):
        return False
    return type(value) in _SCALARS[kind]


def _is_fitting_object(value: dict[Any, Any], schema: ReadOnlySchema) -> bool:
    if not all(name in value for name in schema.get("required", ())):
        return False
    properties = schema.get("properties", {})
    for key, item in value.items():
        if key in properties:
            if not fits(item, properties[key]):
                return False
        elif not schema.get("additionalProperties", True) or not _is_harmless(key, item):
            return False
    return True


def _is_harmless(key: Any, item: Any) -> bool:
    """Return whether no validator refuses a property that the schema does not name."""
    return isinstance(key, str) and key.isascii() and type(item) in (bool, int, str, type(None))
