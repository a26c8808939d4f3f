"""Convert the parameter schemas of servers to object schemas that model providers accept.

References are inlined, unions at the root are merged, and keywords with invalid values are dropped.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ludolf.base import LudolfError, Schema, dumps
from ludolf.mcp.cleaning import is_clean
from ludolf.mcp.schema_keywords import MAX_ENUM, plain_keywords, valid_pattern
from ludolf.mcp.schema_limits import local_target

MAX_SCHEMA_BYTES = 32 * 1024
_MAX_PATTERNS = 30
_MAX_LEVELS = 16
_MAX_REFERENCES = 8
# Schemas in one result: references of references can grow without bounds.
_MAX_NODES = 4000
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
    taken = set(safe)
    copies: Counter[str] = Counter()
    for name in properties:
        if name not in safe:
            safe[name] = _unused(re.sub(r"[^a-zA-Z0-9_.-]", "_", name), taken, copies)
            taken.add(safe[name])
    changed = {
        **shape,
        "properties": {safe[name]: each for name, each in properties.items()},
    }
    if "required" in shape:
        changed["required"] = [safe[name] for name in shape["required"]]
    return changed, {to: name for name, to in safe.items() if to != name}


def _unused(name: str, taken: set[str], copies: Counter[str]) -> str:
    wanted = name = name[:_MAX_NAME] or "_"
    while wanted in taken:
        copies[name] += 1
        ending = f"_{copies[name] + 1}"
        wanted = name[: _MAX_NAME - len(ending)] + ending
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
        shape = {key: each for key, each in plain_keywords(raw) if each is not None}
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
        return valid_pattern(value) if self._patterns <= _MAX_PATTERNS else None

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
        for each in tuple_items[:MAX_ENUM]:
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
