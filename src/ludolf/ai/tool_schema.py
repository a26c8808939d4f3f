"""Schemas of tools in a form that model servers accept, whatever their author wrote.

A server refuses the whole request if one schema breaks its rules, so what breaks them is left out.
Tools check arguments by their own schemas; this form only describes them to the model.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ludolf.ai.identity_cache import IdentityCache
from ludolf.base import ReadOnlySchema, dumps
from ludolf.base.patterns import lazy_pattern

_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
_UNIONS = ("anyOf", "oneOf", "allOf")
_TABLES = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_INNER = ("additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")
_LIMITS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))
_NOT_AT_ROOT = ("enum", "not")
_MAX_DEPTH = 40


# The tools of a conversation have the same schema objects in every request.
_portable: IdentityCache[dict[str, Any]] = IdentityCache(4096)


def portable_schema(schema: ReadOnlySchema) -> dict[str, Any]:
    """Return a schema without invalid or outdated keywords; a valid one stays as it is.

    Servers accept no union at the root: the properties of all its branches are described instead.
    The result is kept for the next request: do not change it.
    """
    return _portable.get(schema, lambda: _made_portable(schema))


def _made_portable(schema: ReadOnlySchema) -> dict[str, Any]:
    root = _clean(schema, 0)
    unions = [word for word in _UNIONS if word in root]
    branches = [branch for word in unions for branch in root.pop(word)]
    for word in _NOT_AT_ROOT:
        root.pop(word, None)
    if not unions:
        return root
    properties = dict(root.get("properties", {}))
    for branch in branches:
        properties = {**branch.get("properties", {}), **properties}
    return {**root, "type": "object", "properties": properties}


def _clean(schema: Any, depth: int) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return {}  # `true`, or not a schema
    clean: dict[str, Any] = {}
    for word, value in schema.items():
        clean.update(_keyword(word, value, depth + 1))
    for bound, limit in _LIMITS:
        # A flag next to the limit, as in drafts of JSON Schema before 2017.
        if isinstance(clean.get(bound), bool):
            strict = clean.pop(bound) and limit in clean
            clean |= {bound: clean.pop(limit)} if strict else {}
    if "array" in clean.get("type", ()) and "items" not in clean:
        clean["items"] = {}
    return clean


def _keyword(word: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the keyword with its valid value; nothing if no value is valid."""
    match word:
        case "type":
            if isinstance(value, list | tuple):
                value = [kind for kind in value if kind in _TYPES]
            if value and (isinstance(value, list) or value in _TYPES):
                yield word, value
        case "required":
            if isinstance(value, list | tuple):
                yield word, list(dict.fromkeys(name for name in value if isinstance(name, str)))
        case "enum":
            if isinstance(value, list | tuple) and value:
                yield word, list({dumps(each): each for each in value}.values())
        case "items" if isinstance(value, list | tuple):
            # A list of schemas by place; servers accept one schema for all items.
            branches = [_clean(each, depth) for each in value]
            yield word, {"anyOf": branches} if branches else {}
        case "pattern":
            if _is_regex(value):
                yield word, value
        case "title" | "description" | "format":
            if isinstance(value, str):
                yield word, value
        case _:
            yield from _nested(word, value, depth)


def _nested(word: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if word == "items":
        yield word, _clean(value, depth)
    elif word in _INNER:
        yield word, value if isinstance(value, bool) else _clean(value, depth)
    elif word in _TABLES:
        if isinstance(value, Mapping):
            yield word, {name: _clean(each, depth) for name, each in value.items()}
    elif word in (*_UNIONS, "prefixItems"):
        if isinstance(value, list | tuple) and value:
            yield word, [_clean(each, depth) for each in value]
    else:
        yield word, value


def _is_regex(pattern: Any) -> bool:
    try:
        re.compile(pattern)
    except (re.error, TypeError, OverflowError, RecursionError):
        return False
    return True


# ---------------------------------------------------------------- rules of single APIs

_CLAUDE_KEY = lazy_pattern(r"[a-zA-Z0-9_.-]{1,64}")


def claude_schema(schema: ReadOnlySchema) -> dict[str, Any]:
    """Return an object schema without properties whose names the Anthropic API refuses."""
    whole = {"type": "object", "properties": {}, **schema}
    refused = {name for name in whole["properties"] if not _CLAUDE_KEY.fullmatch(name)}
    if not refused:
        return whole
    whole["properties"] = {n: v for n, v in whole["properties"].items() if n not in refused}
    return {**whole, "required": [n for n in whole.get("required", ()) if n not in refused]}


def gemini_schema(schema: ReadOnlySchema) -> dict[str, Any]:
    """Return a schema in which enums hold only texts or only numbers, as Google's APIs want them.

    The values of other enums move into the description.
    """
    form = {word: _for_gemini(value) for word, value in schema.items()}
    if isinstance(form.get("const"), str | int | float) and "enum" not in form:
        form["enum"] = [form.pop("const")]
    values = form.get("enum")
    if not isinstance(values, list) or _is_uniform(values):
        return form
    del form["enum"]
    kept = [value for value in values if value is not None]
    if kept and _is_uniform(kept):
        return {**form, "enum": kept}
    note = f"One of: {dumps(values).decode()}"
    described = form.get("description")
    text = f"{described} {note}" if isinstance(described, str) else note
    return {**form, "description": text}


def _for_gemini(value: Any) -> Any:
    if isinstance(value, Mapping):
        return gemini_schema(value)
    return [_for_gemini(each) for each in value] if isinstance(value, list) else value


def _is_uniform(values: list[Any]) -> bool:
    if all(isinstance(value, str) for value in values):
        return True
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def openai_schema(schema: ReadOnlySchema) -> dict[str, Any]:
    """Return a schema that says that it describes an object, and names its properties."""
    needed = {"type": "object", "properties": {}}
    return {**schema, **{word: value for word, value in needed.items() if word not in schema}}
