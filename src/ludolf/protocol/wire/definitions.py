"""From structs to definitions of JSON Schema, as the values stand on the wire."""

from collections.abc import Iterable
from typing import Any, get_args

import msgspec
from msgspec import UNSET, inspect

from ludolf.ai.messages import Block, Message, Part
from ludolf.base import Schema
from ludolf.protocol.wire.omp_frames import OmpPiece
from ludolf.protocol.wire.omp_messages import OmpMessage
from ludolf.protocol.wire.pieces import Piece, WholePiece
from ludolf.protocol.wire.stored import OpenKind

_PLACE = "#/$defs/{name}"
_DROPPED = ("title", "discriminator")
# Unions that have a name of their own wherever they occur.
_NAMED: dict[str, Any] = {
    "Block": Block,
    "Message": Message,
    "OmpMessage": OmpMessage,
    "OmpPiece": OmpPiece,
    "Part": Part,
    "Piece": Piece,
    "WholePiece": WholePiece,
}


def reference(name: str) -> Schema:
    return {"$ref": _PLACE.format(name=name)}


def definitions(kinds: Iterable[type[Any]], *, out: bool) -> Schema:
    """These structs and all that they hold, by name.

    What the program writes (`out`) has no nulls in place of missing values, and has all fields of
    structs that never leave any out.
    """
    found = _Found()
    for kind in kinds:
        found.look(inspect.type_info(kind))
    structs = tuple(found.structs.values())
    _, made = msgspec.json.schema_components(
        structs, schema_hook=lambda kind: reference(kind.__name__), ref_template=_PLACE
    )
    defs = {name: _struct(schema, found.structs[name], out=out) for name, schema in made.items()}
    defs |= {name: _union(kind) for name, kind in found.unions.items()}
    return _with_names(defs)


class _Found:
    """The structs and open unions that types are made of."""

    def __init__(self) -> None:
        self.structs: dict[str, type[Any]] = {}
        self.unions: dict[str, Any] = {}

    def look(self, info: inspect.Type) -> None:
        match info:
            case inspect.StructType(cls=cls, fields=fields):
                if self._is_new(self.structs, cls):
                    for field in fields:
                        self.look(field.type)
            case inspect.CustomType(cls=cls):
                if self._is_new(self.unions, cls):
                    for member in _members(cls):
                        self.look(inspect.type_info(member))
            case inspect.UnionType(types=types):
                for one in types:
                    self.look(one)
            case inspect.VarTupleType(item_type=inner) | inspect.ListType(item_type=inner):
                self.look(inner)
            case inspect.DictType(value_type=inner) | inspect.Metadata(type=inner):
                self.look(inner)

    @staticmethod
    def _is_new(known: dict[str, Any], cls: Any) -> bool:
        """Raises:
        TypeError: two types of one schema have the same name.
        """
        before = known.setdefault(cls.__name__, None)
        if before not in (None, cls):
            raise TypeError(f"{before} and {cls} have the same name")
        known[cls.__name__] = cls
        return before is None


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind.known) if isinstance(kind, OpenKind) else kind.members


def _union(kind: Any) -> Schema:
    shapes = [reference(member.__name__) for member in _members(kind)]
    if isinstance(kind, OpenKind):
        label = {"type": "string", "not": {"enum": list(kind.tags())}}
        shapes.append(
            {
                "description": "One of another kind, as it was stored.",
                "type": "object",
                "properties": {kind.label: label},
                "required": [kind.label],
            }
        )
    return {"description": kind.__doc__, "anyOf": shapes} if kind.__doc__ else {"anyOf": shapes}


def _with_names(defs: Schema) -> Schema:
    """The same with references to unions that have names, and these unions."""
    names = {_key(_choice(kind)): name for name, kind in _NAMED.items()}
    used: set[str] = set()

    def put(value: Any) -> Any:
        if isinstance(value, list):
            return [put(item) for item in value]
        if not isinstance(value, dict):
            return value
        name = names.get(_key(value.get("anyOf")))
        if name is None:
            return {key: put(item) for key, item in value.items()}
        used.add(name)
        return {**{key: item for key, item in value.items() if key != "anyOf"}, **reference(name)}

    found: Schema = put(defs)
    return found | {name: {"anyOf": _choice(_NAMED[name])} for name in used}


def _choice(kind: Any) -> list[Schema]:
    return [reference(member.__name__) for member in get_args(kind)]


def _key(shapes: Any) -> str:
    return str(shapes)


# ---------------------------------------------------------------- structs


def _struct(schema: Schema, cls: type[Any], *, out: bool) -> Schema:
    tidy: Schema = _plain(schema)
    properties = tidy["properties"]
    for name in [name for name, shape in properties.items() if shape.get("absent")]:
        del properties[name]
    if out:
        for name, shape in properties.items():
            properties[name] = _spoken(shape)
        always = _always(cls)
        required = tidy.get("required", [])
        tidy["required"] = [name for name in properties if name in required or name in always]
    return tidy


def _always(cls: type[Any]) -> set[str]:
    """Return the fields that have a default but are always written."""
    if cls.__struct_config__.omit_defaults:
        return set()
    fields = msgspec.structs.fields(cls)
    return {field.encode_name for field in fields if field.default is not UNSET}


def _spoken(shape: Schema) -> Schema:
    """A property as the program writes it: left out rather than null or the default."""
    if "default" not in shape:
        return shape
    rest = {key: value for key, value in shape.items() if key != "default"}
    if shape["default"] is not None or "anyOf" not in rest:
        return rest
    shapes = [one for one in rest.pop("anyOf") if one != {"type": "null"}]
    return {**rest, **shapes[0]} if len(shapes) == 1 else {**rest, "anyOf": shapes}


def _plain(value: Any) -> Any:
    """Remove redundant keywords; a choice of one becomes a constant."""
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _plain(item) for key, item in value.items() if key not in _DROPPED}
    if "properties" in value:
        named = value["properties"].items()
        found["properties"] = {name: _plain(shape) for name, shape in named}
    if "enum" in found and len(found["enum"]) == 1:
        found["const"] = found.pop("enum")[0]
    return found
