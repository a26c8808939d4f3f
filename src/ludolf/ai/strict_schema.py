"""Constrained sampling: strict schemas that servers enforce, and grammars."""

from collections.abc import Mapping
from typing import Any, Literal

from ludolf.ai.errors import ProviderError
from ludolf.ai.sampling import GrammarSampling, StrictSampling
from ludolf.ai.sampling import Sampling as Sampling
from ludolf.ai.tool_schema import portable_schema
from ludolf.base import ReadOnlySchema, Value


class Grammar(Value, frozen=True):
    """A grammar in the form of OpenAI's APIs, and the argument that receives its text."""

    syntax: Literal["lark", "regex"]
    definition: str
    argument: str


class _NotStrict(Exception):
    """The schema uses a feature that strict sampling does not support."""


# Servers refuse these keywords, or enforce less than they say.
_REFUSED = (
    *("$ref", "$dynamicRef", "$recursiveRef", "$defs", "definitions"),
    *("allOf", "oneOf", "not", "if", "then", "else"),
    *("patternProperties", "propertyNames", "dependentSchemas", "unevaluatedProperties"),
    *("prefixItems", "additionalItems", "contains", "unevaluatedItems"),
)
_NULL = {"type": "null"}


def sampled_schema(
    name: str,
    parameters: ReadOnlySchema,
    sampling: Sampling | None,
    *,
    supported: bool,
    refused: tuple[str, ...] = (),
) -> tuple[ReadOnlySchema, bool]:
    """Return the schema to send for a tool, and whether the server must enforce it.

    `refused` are additional keywords that this server does not accept.

    Raises:
        ProviderError: the tool requires enforcing, and that is not possible.
    """
    if not isinstance(sampling, StrictSampling):
        return portable_schema(parameters), False
    try:
        if not supported:
            raise _NotStrict("strict tools")
        return _Strict((*_REFUSED, *refused)).object(parameters), True
    except _NotStrict as reason:
        if sampling.strict == "prefer":
            return portable_schema(parameters), False
        raise ProviderError(
            f'Tool "{name}" requires JSON-schema constrained sampling, '
            f"but {reason} are unsupported.",
            kind="bad_request",
        ) from None


def grammar_for(
    name: str, parameters: ReadOnlySchema, sampling: Sampling | None, *, supported: bool
) -> Grammar | None:
    """Return the grammar to send for a tool; None if it is sent as an ordinary function.

    Raises:
        ProviderError: the tool's parameters have no single text property.
    """
    if not supported or not isinstance(sampling, GrammarSampling):
        return None
    variants = sampling.variants
    syntax: Literal["lark", "regex"] = "lark" if "openai_lark" in variants else "regex"
    definition = variants.get("openai_lark") or variants.get("openai_regex")
    if not definition:
        return None
    return Grammar(syntax=syntax, definition=definition, argument=_text_argument(name, parameters))


def _text_argument(name: str, parameters: ReadOnlySchema) -> str:
    properties = parameters.get("properties") or {}
    required = parameters.get("required") or list(properties)
    problem = "grammar constrained sampling needs exactly one required property"
    if len(required) == 1:
        shape = properties.get(required[0])
        if isinstance(shape, Mapping) and shape.get("type") == "string":
            return str(required[0])
        problem = f"grammar constrained sampling property {required[0]} must have type string"
    raise ProviderError(
        f'Tool "{name}" cannot use grammar constrained sampling: {problem}.', kind="bad_request"
    )


# ---------------------------------------------------------------- the strict form


class _Strict:
    """Makes schemas strict: every property is required, and null replaces optional ones."""

    def __init__(self, refused: tuple[str, ...]) -> None:
        self._refused = refused

    def object(self, schema: ReadOnlySchema) -> dict[str, Any]:
        self._check(schema)
        if schema.get("type") != "object" or "anyOf" in schema:
            raise _NotStrict("non-object root schemas")
        if schema.get("additionalProperties", False) is not False:
            raise _NotStrict("additionalProperties schemas")
        needed = schema.get("required") or ()
        properties = {
            name: self._any(shape) if name in needed else _or_null(self._any(shape))
            for name, shape in (schema.get("properties") or {}).items()
        }
        strict = {**schema, "required": list(properties), "additionalProperties": False}
        return {**strict, "properties": properties} if "properties" in schema else strict

    def _any(self, schema: Any) -> dict[str, Any]:
        if not isinstance(schema, Mapping):
            raise _NotStrict("boolean schemas")
        if _is_object(schema):
            return self.object(schema)
        self._check(schema)
        strict = dict(schema)
        if "items" in schema:
            if isinstance(schema["items"], list):
                raise _NotStrict("tuple schemas")
            strict["items"] = self._any(schema["items"])
        if "anyOf" in schema:
            # Properties that only some of several objects have cannot be required of all.
            if any(_is_object(branch) for branch in schema["anyOf"]):
                raise _NotStrict("anyOf object schemas")
            strict["anyOf"] = [self._any(branch) for branch in schema["anyOf"]]
        return strict

    def _check(self, schema: ReadOnlySchema) -> None:
        for word in self._refused:
            if word in schema:
                raise _NotStrict(f"{word} schemas")


def _is_object(schema: Any) -> bool:
    return isinstance(schema, Mapping) and (
        schema.get("type") == "object" or "properties" in schema
    )


def _or_null(schema: dict[str, Any]) -> dict[str, Any]:
    return schema if _takes_null(schema) else {"anyOf": [schema, _NULL]}


def _takes_null(schema: Mapping[str, Any]) -> bool:
    kind = schema.get("type")
    if kind == "null" or (isinstance(kind, list) and "null" in kind):
        return "enum" not in schema or None in schema["enum"]
    return any(_takes_null(branch) for branch in schema.get("anyOf", ()))
