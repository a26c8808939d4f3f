"""Validate a model's arguments against a tool's JSON Schema, after converting obvious types."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ludolf.agent.tool import ToolFailure
from ludolf.base import ReadOnlySchema
from ludolf.tools.plain_schema import fits, is_plain

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator


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
    types = shape.get("type") or []
    types = [types] if isinstance(types, str) else list(types)
    if not types or any(_is_type(value, name) for name in types):
        return value
    if types == ["array"] and value is not None:
        return [coerce(value, _item(shape, 0), root)]
    fits = (_CONVERTERS[name](value) for name in types if name in _CONVERTERS)
    return next((fit for fit in fits if fit is not _NO_FIT), value)


_NO_FIT = object()
# Booleans are checked before: they are numbers in Python only.
_CLASSES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "null": type(None),
    "number": (int, float),
    "integer": int,
}


def _for_union(value: Any, members: list[Any], root: ReadOnlySchema) -> Any:
    if any(_accepts(member, value, root) for member in members):
        return value
    for member in members:
        meant = coerce(value, member, root)
        if _accepts(member, meant, root):
            return meant
    return value


def _as_number(value: Any, *, whole: bool = False) -> Any:
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


_CONVERTERS: dict[str, Callable[[Any], Any]] = {
    "number": _as_number,
    "integer": partial(_as_number, whole=True),
    "boolean": _as_boolean,
    "string": _as_string,
    "null": lambda value: None if value in ("", 0) else _NO_FIT,
}


def _is_type(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _CLASSES.get(name, ()))


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


TOO_DEEP = (
    'Validation failed for tool "{name}": the arguments are nested too deeply. '
    "Re-issue the tool call with flatter arguments."
)
_MOST_VALIDATORS = 512
_validators: dict[int, "tuple[Mapping[str, Any], Validator]"] = {}

# The texts of pi's validator, by keyword.
_REASONS: dict[str, Callable[[Any], str]] = {
    "type": lambda types: f"must be {_either(types)}",
    "enum": lambda _: "must be equal to one of the allowed values",
    "const": lambda _: "must be equal to constant",
    "minimum": lambda limit: f"must be >= {limit}",
    "maximum": lambda limit: f"must be <= {limit}",
    "exclusiveMinimum": lambda limit: f"must be > {limit}",
    "exclusiveMaximum": lambda limit: f"must be < {limit}",
    "multipleOf": lambda factor: f"must be multiple of {factor}",
    "minLength": lambda limit: f"must not have fewer than {limit} characters",
    "maxLength": lambda limit: f"must not have more than {limit} characters",
    "minItems": lambda limit: f"must not have fewer than {limit} items",
    "maxItems": lambda limit: f"must not have more than {limit} items",
    "minProperties": lambda limit: f"must not have fewer than {limit} properties",
    "maxProperties": lambda limit: f"must not have more than {limit} properties",
    "pattern": lambda pattern: f'must match pattern "{pattern}"',
    "format": lambda name: f'must match format "{name}"',
    "uniqueItems": lambda _: "must not have duplicate items",
    "additionalProperties": lambda _: "must not have additional properties",
    "unevaluatedProperties": lambda _: "must not have unevaluated properties",
    "anyOf": lambda _: "must match a schema in anyOf",
    "oneOf": lambda _: "must match exactly one schema in oneOf",
    "not": lambda _: "must not be valid",
}


def check_arguments(name: str, schema: Mapping[str, Any], args: Any) -> dict[str, Any]:
    """Return a copy of the arguments that conforms to the schema.

    Raises:
        ToolFailure: the arguments do not match the schema; the text names the errors.
    """
    validator = None if is_plain(schema) else schema_validator(name, schema)
    try:
        mended = coerce(without_nulls(args, schema, schema), schema, schema)
        if validator is None and fits(mended, schema):
            return dict(mended)
        errors = list((validator or schema_validator(name, schema)).iter_errors(mended))
        if errors or not isinstance(mended, dict):
            raise ToolFailure(_failure(name, _reasons(errors) or ["root: must be object"], args))
    except (RecursionError, ValueError):  # the validator limits the depth too
        raise ToolFailure(TOO_DEEP.format(name=name)) from None
    return mended


def schema_validator(name: str, schema: Mapping[str, Any]) -> "Validator":
    """Return the validator of a tool's schema; it is kept for the next call.

    Raises:
        ToolFailure: the schema cannot be used; the text says why.
    """
    cached = _validators.get(id(schema))
    if cached:
        return cached[1]
    import jsonschema_rs

    try:
        # Offline: a foreign schema must not make us fetch its references.
        validator = jsonschema_rs.validator_for(dict(schema), offline=True)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        cause = str(error).splitlines()[0]
        raise ToolFailure(f'Tool "{name}" has an unusable parameter schema: {cause}') from error
    if len(_validators) >= _MOST_VALIDATORS:
        _validators.clear()
    # The cache keeps the schema alive, so that its id cannot be reused.
    _validators[id(schema)] = (schema, validator)
    return validator


def check_value(validator: "Validator", value: Any) -> Any:
    """Return a value that fits a schema as it is.

    Raises:
        ValueError: it does not fit, or is nested too deeply; the text names the errors.
    """
    reasons = _reasons(validator.iter_errors(value))
    if reasons:
        raise ValueError("; ".join(reasons))
    return value


def _failure(name: str, reasons: Iterable[str], args: Any) -> str:
    listed = "\n".join(f"  - {reason}" for reason in reasons)
    received = json.dumps(args, indent=2, ensure_ascii=False)
    return f'Validation failed for tool "{name}":\n{listed}\n\nReceived arguments:\n{received}'


def _reasons(errors: "Iterable[ValidationError]") -> list[str]:
    reasons: list[str] = []
    missing: dict[str, list[str]] = {}
    for error in errors:
        path = ".".join(map(str, error.instance_path))
        # A bare `false` has no keyword; its parent keyword says what is forbidden.
        keyword = error.kind.name
        if keyword == "falseSchema" and error.schema_path:
            keyword = str(error.schema_path[-1])
        if keyword == "required":
            missing.setdefault(path, []).append(str(error.kind.value))
        else:
            reason = _REASONS.get(keyword)
            reasons.append(
                f"{path or 'root'}: {reason(error.kind.value) if reason else error.message}"
            )
    absent = (
        f"{path}{path and '.'}{names[0]}: must have required properties {', '.join(names)}"
        for path, names in missing.items()
    )
    return [*absent, *reasons]


def _either(types: list[str]) -> str:
    return types[0] if len(types) == 1 else f"either {' or '.join(types)}"
