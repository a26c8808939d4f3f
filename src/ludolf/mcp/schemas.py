"""Convert the parameter schemas of servers to object schemas that model providers accept.

References are inlined, unions at the root are merged, and keywords with invalid values are dropped.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ludolf.base import LudolfError, Schema, dumps
from ludolf.mcp.cleaning import clean_text, is_clean

MAX_SCHEMA_BYTES = 32 * 1024
MAX_DESCRIPTION = 2048
_MAX_TITLE = 200
_MAX_PATTERN = 500
_MAX_PATTERNS = 30
_MAX_ENUM = 500
_MAX_LEVELS = 16
_MAX_REFERENCES = 8
# Schemas in one result: references of references can grow without bounds.
_MAX_NODES = 4000
_MAX_VALUE_LEVELS = 6
_MAX_INTEGER = 2**53 - 1
# Limits of a schema that a validator may apply: schemas that references stand for, and steps of
# counting them.
_MAX_REFERENCED = 2000
_MAX_STEPS = 100_000
_LONGEST_CHAIN = 64
_TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
# Anthropic refuses other names of parameters.
_SAFE_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_MAX_NAME = 64
_LONGEST_NESTED_NAME = 256
_OF_OBJECTS = ("properties", "required", "additionalProperties")
_TEXTS = ("description", "title", "examples", "default")


class UnusableSchema(LudolfError):
    """The parameters of a tool are not described by an object schema. The text has the reason."""


class ModelSchema(msgspec.Struct, frozen=True, kw_only=True):
    """An object schema for models; `renamed` maps its names to those of the server."""

    schema: Schema
    renamed: Mapping[str, str]
    is_too_large: bool


def empty_schema() -> Schema:
    return {"type": "object", "properties": {}}


def model_schema(raw: Any) -> ModelSchema:
    """Return the object schema for a tool's `inputSchema`; missing and `true` are empty schemas.

    Raises:
        UnusableSchema: it is not a schema of an object.
    """
    shape = _root_object(raw)
    named, renamed = _with_safe_names(shape)
    if _size(named) > MAX_SCHEMA_BYTES:
        named = _without_texts(named)
    if _size(named) > MAX_SCHEMA_BYTES:
        return ModelSchema(schema=empty_schema(), renamed={}, is_too_large=True)
    return ModelSchema(schema=named, renamed=renamed, is_too_large=False)


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether arrays and objects of JSON are nested deeper than a number of levels."""
    layer = [value] if isinstance(value, dict | list) else []
    depth = 0
    while layer and depth <= levels:
        depth += 1
        layer = [
            inner for each in layer for inner in _inside(each) if isinstance(inner, dict | list)
        ]
    return depth > levels


def _inside(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value


def is_cheap_to_apply(schema: Mapping[str, Any]) -> bool:
    """Return whether a validator can apply the schema in reasonable time.

    References to references can multiply: thirty short definitions stand for a billion schemas.
    """
    return _References(schema).count(schema, ()) <= _MAX_REFERENCED


class _References:
    """Counts the schemas that the references of a document stand for."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._counts: dict[str, int] = {}
        self._steps = 0

    def count(self, schema: Any, chain: tuple[str, ...]) -> int:
        total = 0
        waiting = [schema]
        while waiting and total <= _MAX_REFERENCED:
            each = waiting.pop()
            self._steps += 1
            if self._steps > _MAX_STEPS:
                return _MAX_REFERENCED + 1
            if isinstance(each, dict) and isinstance(each.get("$ref"), str):
                total += self._of(each["$ref"], chain)
            if isinstance(each, dict | list):
                waiting.extend(_inside(each))
        return total

    def _of(self, reference: str, chain: tuple[str, ...]) -> int:
        if reference in chain:
            return 1
        if len(chain) >= _LONGEST_CHAIN:
            return _MAX_REFERENCED + 1
        if reference not in self._counts:
            target = local_target(self._root, reference)
            self._counts[reference] = 1 + self.count(target, (*chain, reference))
        return self._counts[reference]


def local_target(root: Mapping[str, Any], reference: Any) -> Mapping[str, Any] | None:
    """Return the schema of the same document that a reference names; None if there is none."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: Any = root
    for step in filter(None, reference[1:].split("/")):
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


# ---------------------------------------------------------------- the root


def _root_object(raw: Any) -> Schema:
    if raw is None or raw is True:
        return empty_schema()
    if not isinstance(raw, dict):
        raise UnusableSchema("its parameter schema is not an object")
    shape = _Reader(raw).read(raw)
    kinds = shape.get("type", "object")
    if "object" not in ([kinds] if isinstance(kinds, str) else kinds):
        raise UnusableSchema(f"its parameters have the type {kinds}, not object")
    if "anyOf" in shape:
        shape = _merged_union(shape)
    result = {**empty_schema(), **{key: shape[key] for key in _OF_OBJECTS if key in shape}}
    if "description" in shape:
        result["description"] = shape["description"]
    return result


def _merged_union(shape: Schema) -> Schema:
    """Return one object with the properties of all branches, which requires none of these."""
    branches = [branch for branch in shape["anyOf"] if _may_be_object(branch)]
    if not branches:
        raise UnusableSchema("no branch of its parameter schema is an object")
    properties: Schema = dict(shape.get("properties") or {})
    for branch in branches:
        # A branch that is a union itself: its branches count.
        inner = _merged_union(branch) if "anyOf" in branch else branch
        for name, each in (inner.get("properties") or {}).items():
            properties[name] = _either(properties[name], each) if name in properties else each
    merged = {**shape, "properties": properties}
    merged.pop("additionalProperties", None)
    return merged


def _may_be_object(shape: Schema) -> bool:
    return "object" in shape.get("type", "object")


def _either(first: Schema, second: Schema) -> Schema:
    if first == second or not second:
        return first
    known = first["anyOf"] if set(first) == {"anyOf"} else [first]
    return first if second in known else {"anyOf": [*known, second]}


def _with_safe_names(shape: Schema) -> tuple[Schema, dict[str, str]]:
    properties = shape["properties"]
    if all(map(_SAFE_NAME.fullmatch, properties)):
        return shape, {}
    safe: dict[str, str] = {name: name for name in properties if _SAFE_NAME.fullmatch(name)}
    for name in properties:
        if name not in safe:
            safe[name] = _unused(re.sub(r"[^a-zA-Z0-9_.-]", "_", name), set(safe.values()))
    changed = {
        **shape,
        "properties": {safe[name]: each for name, each in properties.items()},
    }
    if "required" in shape:
        changed["required"] = [safe[name] for name in shape["required"]]
    return changed, {to: name for name, to in safe.items() if to != name}


def _unused(name: str, taken: set[str]) -> str:
    name = name[:_MAX_NAME] or "_"
    number = 2
    wanted = name
    while wanted in taken:
        ending = f"_{number}"
        wanted = name[: _MAX_NAME - len(ending)] + ending
        number += 1
    return wanted


def _size(schema: Schema) -> int:
    return len(dumps(schema))


def _without_texts(schema: Schema) -> Schema:
    """Return the schema without descriptions and examples. A property may have such a name."""
    kept = {key: each for key, each in schema.items() if key not in _TEXTS}
    if "properties" in kept:
        kept["properties"] = {
            name: _without_texts(each) for name, each in kept["properties"].items()
        }
    for key in ("items", "additionalProperties"):
        if isinstance(kept.get(key), dict):
            kept[key] = _without_texts(kept[key])
    if "anyOf" in kept:
        kept["anyOf"] = [_without_texts(each) for each in kept["anyOf"]]
    return kept


# ---------------------------------------------------------------- any schema


class _Reader:
    """Converts the schemas of one document."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._nodes = 0
        self._patterns = 0

    def read(self, raw: Any, levels: int = 0, references: tuple[str, ...] = ()) -> Schema:
        """Return a schema with known keywords only; an invalid one becomes `{}`."""
        self._nodes += 1
        if not isinstance(raw, dict) or self._nodes > _MAX_NODES:
            return {}
        raw, references = self._resolved(raw, references)
        shape = {key: each for key, each in _plain_keywords(raw) if each is not None}
        if "pattern" in raw and (pattern := self._pattern(raw["pattern"])):
            shape["pattern"] = pattern
        if levels >= _MAX_LEVELS:
            return _completed(shape)

        def inner(child: Any) -> Schema:
            return self.read(child, levels + 1, references)

        _read_object(raw, shape, inner)
        _read_array(raw, shape, inner)
        _read_unions(raw, shape, inner)
        return _completed(shape)

    def _pattern(self, value: Any) -> str | None:
        """Return a valid regular expression; compiling many hostile ones would take too long."""
        self._patterns += 1
        return _pattern(value) if self._patterns <= _MAX_PATTERNS else None

    def _resolved(
        self, raw: Mapping[str, Any], references: tuple[str, ...]
    ) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        """Follow references of the document; one in a ring, or to elsewhere, is dropped."""
        while "$ref" in raw:
            reference = raw["$ref"]
            own = {key: each for key, each in raw.items() if key != "$ref"}
            target = local_target(self._root, reference)
            if target is None:
                return own, references
            if reference in references or len(references) >= _MAX_REFERENCES:
                kind = target.get("type")
                return ({"type": kind, **own} if kind else own), references
            references = (*references, reference)
            raw = {**target, **own}
        return raw, references


_Inner = Callable[[Any], Schema]


def _read_object(raw: Mapping[str, Any], shape: Schema, inner: _Inner) -> None:
    if not _may_be(shape, "object"):
        return
    properties = raw.get("properties")
    if isinstance(properties, dict):
        shape["properties"] = {
            name: inner(each)
            for name, each in properties.items()
            if each is not False and _is_usable_name(name)
        }
    required = raw.get("required")
    if isinstance(required, list):
        shape["required"] = [name for name in required if isinstance(name, str)]
    more = raw.get("additionalProperties")
    if isinstance(more, bool | dict) and "patternProperties" not in raw:
        shape["additionalProperties"] = more if isinstance(more, bool) else inner(more)


def _is_usable_name(name: str) -> bool:
    return len(name) <= _LONGEST_NESTED_NAME and is_clean(name)


def _read_array(raw: Mapping[str, Any], shape: Schema, inner: _Inner) -> None:
    """Read `items`; the items of a tuple become a union, which all providers accept."""
    if not _may_be(shape, "array"):
        return
    items = raw.get("items")
    first = raw.get("prefixItems")
    tuple_items = items if isinstance(items, list) else first if isinstance(first, list) else None
    if tuple_items is not None:
        found: list[Schema] = []
        for each in tuple_items[:_MAX_ENUM]:
            if (item := inner(each)) not in found:
                found.append(item)
        shape["items"] = _union(found)
    elif isinstance(items, dict):
        shape["items"] = inner(items)


def _read_unions(raw: Mapping[str, Any], shape: Schema, inner: _Inner) -> None:
    parts = raw.get("allOf")
    for part in parts if isinstance(parts, list) else ():
        _merge_into(shape, inner(part))
    for keyword in ("anyOf", "oneOf"):
        branches = raw.get(keyword)
        if isinstance(branches, list) and "anyOf" not in shape:
            union = _union([inner(branch) for branch in branches if branch is not False])
            _merge_into(shape, union)


def _union(branches: Sequence[Schema]) -> Schema:
    if len(branches) == 1:
        return branches[0]
    return {"anyOf": list(branches)} if branches and {} not in branches else {}


def _merge_into(shape: Schema, part: Schema) -> None:
    """Add the keywords of a part that must hold too."""
    for key, each in part.items():
        if key == "properties":
            shape[key] = {**each, **shape.get(key, {})}
        elif key == "required":
            shape[key] = list(dict.fromkeys([*shape.get(key, ()), *each]))
        elif key != "additionalProperties":
            shape.setdefault(key, each)


def _completed(shape: Schema) -> Schema:
    """Return the schema with what providers require: items of arrays, existing required names."""
    if "array" in _kinds(shape):
        shape.setdefault("items", {})
    if "required" in shape:
        known = shape.get("properties", {})
        shape["required"] = [name for name in dict.fromkeys(shape["required"]) if name in known]
        if not shape["required"]:
            del shape["required"]
    return shape


def _kinds(shape: Schema) -> Sequence[str]:
    kinds = shape.get("type", ())
    return (kinds,) if isinstance(kinds, str) else kinds


def _may_be(shape: Schema, kind: str) -> bool:
    return not (kinds := _kinds(shape)) or kind in kinds


# ---------------------------------------------------------------- plain keywords


def _plain_keywords(raw: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
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
    return [each for each in value[:_MAX_ENUM] if _is_plain_value(each)] or None


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
    for inner in _inside(value):
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


def _pattern(value: Any) -> str | None:
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
