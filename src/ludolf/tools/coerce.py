"""Convert arguments of the wrong type to the types that a schema requires."""

import math
from collections.abc import Mapping
from typing import Any

from ludolf.base import ReadOnlySchema


def without_nulls(value: Any, schema: Any, root: ReadOnlySchema) -> Any:
    """Return a copy without the null values of optional properties that must not be null."""
    shape = _resolved(schema, root)
    if isinstance(value, dict):
        required = shape.get("required") or ()
        return {
            key: without_nulls(item, _property(shape, key), root)
            for key, item in value.items()
            if item is not None or key in required or _accepts(_property(shape, key), None, root)
        }
    if isinstance(value, list):
        return [without_nulls(item, _item(shape, at), root) for at, item in enumerate(value)]
    return value


def coerce(value: Any, schema: Any, root: ReadOnlySchema) -> Any:
    """Return the value converted to the type of the schema, where that is unambiguous.

    The original is not changed.
    """
    shape = _resolved(schema, root)
    for keyword in ("anyOf", "oneOf"):
        if isinstance(shape.get(keyword), list):
            value = _for_union(value, shape[keyword], root)
    for part in shape.get("allOf") or ():
        value = coerce(value, part, root)
    if isinstance(value, dict):
        return {key: coerce(item, _property(shape, key), root) for key, item in value.items()}
    if isinstance(value, list):
        return [coerce(item, _item(shape, at), root) for at, item in enumerate(value)]
    types = _types(shape)
    if not types or any(_is_type(value, name) for name in types):
        return value
    if types == ["array"] and value is not None:
        return [coerce(value, _item(shape, 0), root)]
    return next((fit for name in types if (fit := _as_type(value, name)) is not _NO_FIT), value)


_NO_FIT = object()


def _for_union(value: Any, members: list[Any], root: ReadOnlySchema) -> Any:
    if any(_accepts(member, value, root) for member in members):
        return value
    for member in members:
        meant = coerce(value, member, root)
        if _accepts(member, meant, root):
            return meant
    return value


def _as_type(value: Any, name: str) -> Any:
    match name:
        case "number" | "integer":
            return _as_number(value, whole=name == "integer")
        case "boolean":
            return _as_boolean(value)
        case "string":
            return _as_string(value)
        case "null":
            return None if value in ("", 0) else _NO_FIT
        case _:
            return _NO_FIT


def _as_number(value: Any, *, whole: bool) -> Any:
    if value is None:
        return 0
    if isinstance(value, bool):
        return int(value)
    if not isinstance(value, str) or not value.strip():
        return _NO_FIT
    try:
        number = float(value)
    except ValueError:
        return _NO_FIT
    if not math.isfinite(number):
        return _NO_FIT
    if number.is_integer():
        return int(number)
    return _NO_FIT if whole else number


def _as_boolean(value: Any) -> Any:
    if value is None:
        return False
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value, _NO_FIT)
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else _NO_FIT


def _as_string(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) else _NO_FIT


def _is_type(value: Any, name: str) -> bool:
    match name:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "null":
            return value is None
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "integer":
            whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
            return whole and not isinstance(value, bool)
        case _:
            return False


def _types(shape: ReadOnlySchema) -> list[str]:
    types = shape.get("type")
    return [types] if isinstance(types, str) else list(types or ())


def _property(shape: ReadOnlySchema, key: str) -> Any:
    properties = shape.get("properties") or {}
    return properties[key] if key in properties else shape.get("additionalProperties")


def _item(shape: ReadOnlySchema, at: int) -> Any:
    """Return the schema of one array item: from `prefixItems` or a list in `items`, if any."""
    items = shape.get("items")
    first = shape.get("prefixItems") or (items if isinstance(items, list) else ())
    if at < len(first):
        return first[at]
    return shape.get("additionalItems") if isinstance(items, list) else items


def _resolved(schema: Any, root: ReadOnlySchema) -> ReadOnlySchema:
    """Return the schema, or the one that its `$ref` names within the same document."""
    for _ in range(32):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return schema
        schema = root
        for step in filter(None, reference[1:].split("/")):
            name = step.replace("~1", "/").replace("~0", "~")
            schema = schema.get(name) if isinstance(schema, Mapping) else None
    return {}


def _accepts(schema: Any, value: Any, root: ReadOnlySchema) -> bool:
    if schema is None or isinstance(schema, bool):
        return schema is not False
    import jsonschema_rs

    definitions = {key: root[key] for key in ("$defs", "definitions") if key in root}
    try:
        return jsonschema_rs.is_valid({**definitions, **schema}, value, offline=True)
    except (ValueError, jsonschema_rs.ReferencingError):
        return False
