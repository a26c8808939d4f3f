"""Validate a model's arguments against a tool's JSON Schema, after converting obvious types."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ludolf.agent.tool import ToolFailure
from ludolf.tools.coerce import coerce, without_nulls

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError, Validator

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
    validator = _validator(name, schema)
    try:
        mended = coerce(without_nulls(args, schema, schema), schema, schema)
        errors = list(validator.iter_errors(mended))
        if errors or not isinstance(mended, dict):
            raise ToolFailure(_failure(name, _reasons(errors) or ["root: must be object"], args))
    except (RecursionError, ValueError):  # the validator limits the depth too
        raise ToolFailure(TOO_DEEP.format(name=name)) from None
    return mended


def _validator(name: str, schema: Mapping[str, Any]) -> "Validator":
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
    return [*(_missing(path, names) for path, names in missing.items()), *reasons]


def _missing(path: str, names: list[str]) -> str:
    place = f"{path}.{names[0]}" if path else names[0]
    return f"{place}: must have required properties {', '.join(names)}"


def _either(types: list[str]) -> str:
    return types[0] if len(types) == 1 else f"either {' or '.join(types)}"
