"""Build the JSON Schema of a function's parameters from type hints and docstring."""

import types
from collections.abc import Mapping
from textwrap import dedent
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, UNSET

from ludolf.base import Schema
from ludolf.base.patterns import lazy_pattern

_SECTION = lazy_pattern(
    r"(Args|Arguments|Parameters|Attributes|Returns?|Yields?|Raises|Examples?|Notes?):\s*$"
)
_DESCRIBES = ("Args", "Arguments", "Parameters", "Attributes")
_ITEM = lazy_pattern(r"(\s+)\*{0,2}(\w+)(?:\s*\([^)]*\))?\s*:\s*(.*)$")
_FIELD = lazy_pattern(r"(\s*):param\s+(?:\S+\s+)?(\w+):\s*(.*)$")
_OTHER_FIELD = lazy_pattern(r"\s*:\w+")


def docstring_summary(text: str | None) -> str:
    """Return the text before the first section of a docstring."""
    lines = _lines(text)
    ends = (at for at, line in enumerate(lines) if _SECTION.match(line) or _OTHER_FIELD.match(line))
    return "\n".join(lines[: next(ends, None)]).strip()


def docstring_parameters(text: str | None) -> dict[str, str]:
    """Return the descriptions of parameters from an `Args:` section or `:param name:` lines."""
    descriptions: dict[str, str] = {}
    name, indent, inside = "", 0, False
    for line in _lines(text):
        section = _SECTION.match(line)
        if section:
            name, inside = "", section[1] in _DESCRIBES
            continue
        deeper = bool(name) and len(line) - len(line.lstrip()) > indent
        item = _FIELD.match(line) or (_ITEM.match(line) if inside and not deeper else None)
        if item:
            indent, name = len(item[1]), item[2]
            descriptions[name] = item[3].strip()
        elif deeper:
            descriptions[name] = f"{descriptions[name]} {line.strip()}".strip()
        else:
            name = ""
    return descriptions


def describe_fields(kind: Any) -> dict[str, str]:
    """Return the descriptions of the fields of a class, from its docstring."""
    return docstring_parameters(kind.__dict__.get("__doc__"))


def _lines(text: str | None) -> list[str]:
    """Split into lines without the indentation of the code."""
    first, _, rest = (text or "").expandtabs().partition("\n")
    return [first.strip(), *dedent(rest).splitlines()]


_PLAIN: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    None: {"type": "null"},
    type(None): {"type": "null"},
    Any: {},
    object: {},
    dict: {"type": "object"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array", "uniqueItems": True},
    frozenset: {"type": "array", "uniqueItems": True},
}
_TEXTS = {"Path": None, "PurePath": None, "datetime": "date-time", "date": "date", "UUID": "uuid"}
_LIMITS = {
    "ge": "minimum",
    "le": "maximum",
    "gt": "exclusiveMinimum",
    "lt": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
    "title": "title",
    "description": "description",
}


class NoSchema(TypeError):
    """Raised for a type without a JSON Schema; the text names the type."""


class Field(msgspec.Struct, frozen=True):
    """A parameter or field with its type and default (NODEFAULT if it has none)."""

    name: str
    kind: Any
    default: Any = NODEFAULT


def object_schema(fields: list[Field], descriptions: Mapping[str, str]) -> Schema:
    """Return the schema of an object; descriptions in types override `descriptions`.

    Raises:
        NoSchema: a type has no JSON Schema.
    """
    properties: Schema = {}
    for field in fields:
        try:
            shape = _field_schema(field)
        except NoSchema as error:
            raise NoSchema(f"{field.name}: {error}") from None
        if field.name in descriptions:
            shape.setdefault("description", descriptions[field.name])
        properties[field.name] = shape
    schema: Schema = {"type": "object", "properties": properties}
    required = [field.name for field in fields if field.default is NODEFAULT]
    if required:
        schema["required"] = required
    return schema


def hints_of(thing: Any) -> dict[str, Any]:
    """Return type hints with their `Annotated` metadata.

    Raises:
        NoSchema: a name in a hint is undefined.
    """
    names: dict[str, Any] = {}
    if getattr(thing, "__closure__", None):
        cells = zip(thing.__code__.co_freevars, thing.__closure__, strict=True)
        names = {name: cell.cell_contents for name, cell in cells if _filled(cell)}
    try:
        return get_type_hints(thing, localns=names or None, include_extras=True)
    except (NameError, TypeError, SyntaxError, AttributeError) as error:
        raise NoSchema(f"type hints cannot be read: {error}") from error


def schema_of(kind: Any) -> Schema:
    """Return the schema of a type, without references.

    Raises:
        NoSchema: the type has no JSON Schema.
    """
    plain = _PLAIN.get(kind) if type(kind).__hash__ is not None else None
    if plain is not None:
        return dict(plain)
    origin = get_origin(kind)
    if origin is Annotated:
        return _annotated(kind)
    if origin is Literal:
        return _choice(get_args(kind))
    if origin in (Union, types.UnionType):
        return _union(get_args(kind))
    if origin is not None:
        return _generic(origin, get_args(kind))
    if hasattr(kind, "__supertype__"):
        return schema_of(kind.__supertype__)
    if isinstance(kind, type):
        return _class_schema(kind)
    raise NoSchema(f"{kind!r} has no JSON Schema; pass one with parameters=…")


# ---------------------------------------------------------------- private


def _field_schema(field: Field) -> Schema:
    kind = field.kind
    if field.default is None:
        # Models omit the parameter instead of sending null, so the schema has no null.
        kind = _without_none(kind)
    shape = schema_of(kind)
    if field.default is not NODEFAULT and isinstance(field.default, str | int | float):
        shape.setdefault("default", field.default)
    return shape


def _without_none(kind: Any) -> Any:
    if get_origin(kind) is Annotated:
        inner, *notes = get_args(kind)
        return Annotated[(_without_none(inner), *notes)]
    if get_origin(kind) in (Union, types.UnionType):
        left = [one for one in get_args(kind) if one is not type(None)]
        return Union[tuple(left)] if left else kind  # noqa: UP007  # built from a list
    return kind


def _annotated(kind: Any) -> Schema:
    inner, *notes = get_args(kind)
    shape = schema_of(inner)
    for note in notes:
        if isinstance(note, str):
            shape["description"] = note
        elif isinstance(note, msgspec.Meta):
            shape |= _limits(note, shape)
        elif isinstance(getattr(note, "description", None), str):
            shape["description"] = note.description
    return shape


def _limits(meta: msgspec.Meta, shape: Schema) -> Schema:
    limits = {
        word: getattr(meta, name)
        for name, word in _LIMITS.items()
        if getattr(meta, name) is not None
    }
    size = {"array": "Items", "object": "Properties"}.get(shape.get("type", ""), "Length")
    if meta.min_length is not None:
        limits[f"min{size}"] = meta.min_length
    if meta.max_length is not None:
        limits[f"max{size}"] = meta.max_length
    return limits | (meta.extra_json_schema or {})


def _choice(values: tuple[Any, ...]) -> Schema:
    kinds = {schema_of(type(value)).get("type") for value in values}
    shape: Schema = {"enum": list(values)}
    return {"type": kinds.pop(), **shape} if len(kinds) == 1 else shape


def _union(members: tuple[Any, ...]) -> Schema:
    shapes = [schema_of(member) for member in members]
    return shapes[0] if len(shapes) == 1 else {"anyOf": shapes}


def _generic(origin: Any, args: tuple[Any, ...]) -> Schema:
    name = getattr(origin, "__name__", "")
    if origin is tuple and not (len(args) == 2 and args[1] is ...):
        size = {"minItems": len(args), "maxItems": len(args)}
        return {"type": "array", "prefixItems": [schema_of(one) for one in args], **size}
    if name in ("list", "tuple", "Sequence", "Iterable", "Collection", "deque"):
        return {"type": "array", "items": schema_of(args[0])}
    if name in ("set", "frozenset", "Set", "AbstractSet"):
        return {"type": "array", "items": schema_of(args[0]), "uniqueItems": True}
    if name in ("dict", "Mapping", "MutableMapping"):
        return {"type": "object", "additionalProperties": schema_of(args[1])}
    if name in ("Required", "NotRequired", "ReadOnly"):
        return schema_of(args[0])
    if isinstance(origin, type) and msgspec.inspect.is_struct_type(origin):
        return _class_schema(origin)
    raise NoSchema(f"{name or origin!r} has no JSON Schema; pass one with parameters=…")


def _class_schema(kind: type) -> Schema:
    if hasattr(kind, "model_json_schema"):
        return inline(kind.model_json_schema())
    if issubclass(kind, msgspec.Struct):
        fields = [
            Field(f.encode_name, f.type, f.default if f.default_factory is NODEFAULT else UNSET)
            for f in msgspec.structs.fields(kind)
        ]
        return object_schema(fields, describe_fields(kind))
    if hasattr(kind, "__dataclass_fields__"):
        return object_schema(_dataclass_fields(kind), describe_fields(kind))
    if hasattr(kind, "__required_keys__"):
        required = kind.__required_keys__
        fields = [
            Field(name, hint, NODEFAULT if name in required else UNSET)
            for name, hint in hints_of(kind).items()
        ]
        return object_schema(fields, describe_fields(kind))
    if hasattr(kind, "__members__"):
        return _choice(tuple(member.value for member in kind.__members__.values()))
    for ancestor in kind.__mro__:
        if ancestor.__name__ in _TEXTS and ancestor.__module__.split(".")[0] in _TEXT_MODULES:
            form = _TEXTS[ancestor.__name__]
            return {"type": "string", **({"format": form} if form else {})}
    raise NoSchema(f"{kind.__name__} has no JSON Schema; pass one with parameters=…")


_TEXT_MODULES = ("pathlib", "datetime", "uuid")


def _dataclass_fields(kind: Any) -> list[Field]:
    import dataclasses

    hints = hints_of(kind)
    fields = []
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        default = field.default
        if default is dataclasses.MISSING:
            has_factory = field.default_factory is not dataclasses.MISSING
            default = UNSET if has_factory else NODEFAULT
        fields.append(Field(field.name, hints[field.name], default))
    return fields


def inline(schema: Schema) -> Schema:
    """Return the schema with references replaced by their definitions."""
    definitions = schema.get("$defs", {})

    def put(value: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [put(item, inside) for item in value]
        if not isinstance(value, dict):
            return value
        name = str(value.get("$ref", "")).removeprefix("#/$defs/")
        if name in definitions and name not in inside:
            rest = {key: item for key, item in value.items() if key != "$ref"}
            return {**put(definitions[name], (*inside, name)), **put(rest, inside)}
        if name in definitions:
            return {}  # a recursive type: accept anything below this point
        return {key: put(item, inside) for key, item in value.items() if key != "$defs"}

    plain: Schema = put(schema, ())
    return plain


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # reading is the only way to find out
    except ValueError:
        return False
    return True
