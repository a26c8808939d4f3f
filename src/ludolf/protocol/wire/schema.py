"""JSON Schema of every frame, generated from the types: commands in, frames of each dialect out."""

from collections.abc import Iterable
from typing import Any, get_args

import msgspec
from msgspec import UNSET, UnsetType, inspect

from ludolf.ai.messages import Block, Message, Part
from ludolf.base import Schema
from ludolf.protocol.ui import UiRequest
from ludolf.protocol.wire.commands import SENT
from ludolf.protocol.wire.dialects import WIRE, WireDialect
from ludolf.protocol.wire.frames import REQUESTS
from ludolf.protocol.wire.omp_frames import OmpPiece
from ludolf.protocol.wire.omp_messages import OmpMessage
from ludolf.protocol.wire.pieces import Piece, WholePiece
from ludolf.protocol.wire.stored import OpenKind

_PLACE = "#/$defs/{name}"
_DROPPED = ("title", "discriminator")
# Of types that keep the difference between 1 and 1.0 when they are written again.
_INTEGER_OR_NUMBER = [{"type": "integer"}, {"type": "number"}]
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
    if found.get("anyOf") == _INTEGER_OR_NUMBER:
        del found["anyOf"]
        found["type"] = "number"
    return found


DRAFT = "https://json-schema.org/draft/2020-12/schema"
# What goes before the names of replies that differ from those of pi.
_FAMILIES = {"pi": "", "pi-0.79": "Exact", "pi-delta": "Delta", "omp": "Omp", "xcsh": "Xcsh"}
_NOTHING = (None, type(None), UnsetType)
_ANY_ID = {"description": "Any JSON; it comes back unchanged."}


def schema_in() -> Schema:
    """Return the schema of the commands, the same in every dialect."""
    defs = definitions(SENT.values(), out=False)
    shapes = {kind.__name__: defs.pop(kind.__name__) for kind in set(SENT.values())}
    shapes["Bare"].pop("description")
    commands = {
        f"{pascal(name)}Command": command_shape(name, shapes[kind.__name__])
        for name, kind in SENT.items()
    }
    return document("Commands of a host to ludolf --mode rpc", list(commands), defs | commands)


def schema_out(dialect: str) -> Schema:
    """Return the schema of the frames that the program writes in one dialect."""
    wire = WIRE[dialect]
    answers = (one for kind in wire.answers.values() for one in members(kind))
    defs = definitions((*wire.frames, *answers), out=True)
    roots = [kind.__name__ for kind in wire.frames if kind is not UiRequest]
    if UiRequest in wire.frames:
        roots += add_requests(defs)
    roots += add_responses(wire, defs)
    return document(f"Frames of ludolf --mode rpc in the dialect {dialect}", roots, defs)


def text_of(schema: Schema) -> str:
    """The schema as its file holds it."""
    plain = msgspec.json.format(msgspec.json.encode(schema), indent=1)
    return plain.decode() + "\n"


def pascal(name: str) -> str:
    """`get_state` and `setStatus` as parts of a type's name."""
    return "".join(word[:1].upper() + word[1:] for word in name.split("_"))


def members(kind: Any) -> tuple[Any, ...]:
    """The structs that an answer may be."""
    return tuple(one for one in get_args(kind) or (kind,) if one not in _NOTHING)


def document(title: str, roots: list[str], defs: Schema) -> Schema:
    """A schema whose frames are these definitions."""
    return {
        "$schema": DRAFT,
        "title": title,
        "anyOf": [reference(name) for name in roots],
        "$defs": {name: defs[name] for name in sorted(defs)},
    }


# ---------------------------------------------------------------- commands


def command_shape(name: str, shape: Schema) -> Schema:
    """A command with these parameters."""
    properties = {"type": {"const": name}, "id": _ANY_ID, **shape["properties"]}
    required = ["type", *(one for one in shape.get("required", ()) if one != "type")]
    described = {"description": shape["description"]} if "description" in shape else {}
    return {**described, "type": "object", "properties": properties, "required": required}


# ---------------------------------------------------------------- replies


def add_responses(wire: WireDialect, defs: Schema) -> list[str]:
    """A reply for each command, and the failure that all share; their names."""
    if not wire.answers:
        return []
    family = _FAMILIES[wire.name]
    roots = []
    for command, kind in wire.answers.items():
        usual = WIRE["pi"].answers.get(command)
        name = ("" if kind == usual else family) + pascal(command) + "Response"
        defs[name] = success_shape(command, kind)
        roots.append(name)
    failed = (family if wire.greets else "") + "FailedResponse"
    defs[failed] = _failure(needs_command=not wire.greets)
    return [*roots, failed]


def success_shape(command: str, kind: Any) -> Schema:
    """The reply to a command that was done, with this struct as its data."""
    properties: Schema = {
        "type": {"const": "response"},
        "id": _ANY_ID,
        "command": {"const": command},
        "success": {"const": True},
    }
    required = ["type", "command", "success"]
    if kind is not None:
        shapes = [reference(one.__name__) for one in members(kind)]
        if type(None) in get_args(kind):
            shapes.append({"type": "null"})
        properties["data"] = shapes[0] if len(shapes) == 1 else {"anyOf": shapes}
        if UnsetType not in get_args(kind):
            required.append("data")
    return {"type": "object", "properties": properties, "required": required}


def _failure(*, needs_command: bool) -> Schema:
    """The command is `parse` where the line was none; some dialects then leave it out."""
    return {
        "description": "A command was refused; `command` is `parse` if the line was none.",
        "type": "object",
        "properties": {
            "type": {"const": "response"},
            "id": _ANY_ID,
            "command": {"type": "string"},
            "success": {"const": False},
            "error": {"type": "string", "description": "For people."},
            "code": {"type": "string", "description": "For programs: see docs/protocol.md."},
        },
        "required": ["type", *(["command"] if needs_command else []), "success", "error"],
    }


# ---------------------------------------------------------------- dialogs


def add_requests(defs: Schema) -> list[str]:
    """One shape for each method of `extension_ui_request`; their names."""
    whole = defs.pop(UiRequest.__name__)["properties"]
    names = []
    for method, (needed, allowed) in REQUESTS.items():
        name = pascal(method) + "Request"
        properties = {"type": whole["type"], "id": whole["id"], "method": {"const": method}}
        properties |= {field: whole[field] for field in (*needed, *allowed)}
        required = ["type", "id", "method", *needed]
        defs[name] = {"type": "object", "properties": properties, "required": required}
        names.append(name)
    return names
