"""JSON Schema of every frame, generated from the types: commands in, frames of each dialect out."""

from typing import Any, get_args

import msgspec
from msgspec import UnsetType

from ludolf.base import Schema
from ludolf.protocol.dialects import NAMES
from ludolf.protocol.ui import UiRequest
from ludolf.protocol.wire.commands import SENT
from ludolf.protocol.wire.definitions import definitions, reference
from ludolf.protocol.wire.dialects import WIRE, WireDialect
from ludolf.protocol.wire.ui import REQUESTS

DRAFT = "https://json-schema.org/draft/2020-12/schema"
# What goes before the names of replies that differ from those of pi.
_FAMILIES = {"pi": "", "pi-delta": "Delta", "omp": "Omp", "xcsh": "Xcsh"}
_NOTHING = (None, type(None), UnsetType)
_ANY_ID = {"description": "Any JSON; it comes back unchanged."}


def schema_in() -> Schema:
    """Return the schema of the commands, the same in every dialect."""
    defs = definitions(SENT.values(), out=False)
    shapes = {kind.__name__: defs.pop(kind.__name__) for kind in set(SENT.values())}
    shapes["Bare"].pop("description")
    commands = {
        f"{pascal(name)}Command": _command(name, shapes[kind.__name__])
        for name, kind in SENT.items()
    }
    return _document("Commands of a host to ludolf --mode rpc", list(commands), defs | commands)


def schema_out(dialect: str) -> Schema:
    """Return the schema of the frames that the program writes in one dialect."""
    wire = WIRE[dialect]
    answers = (one for kind in wire.answers.values() for one in members(kind))
    defs = definitions((*wire.frames, *answers), out=True)
    roots = [kind.__name__ for kind in wire.frames if kind is not UiRequest]
    if UiRequest in wire.frames:
        roots += _requests(defs)
    roots += _responses(wire, defs)
    return _document(f"Frames of ludolf --mode rpc in the dialect {dialect}", roots, defs)


def schemas() -> dict[str, Schema]:
    """Return all schemas by file name."""
    out = {f"out-{name}": schema_out(name) for name in NAMES}
    return {"in": schema_in(), **out}


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


def _document(title: str, roots: list[str], defs: Schema) -> Schema:
    return {
        "$schema": DRAFT,
        "title": title,
        "anyOf": [reference(name) for name in roots],
        "$defs": {name: defs[name] for name in sorted(defs)},
    }


# ---------------------------------------------------------------- commands


def _command(name: str, shape: Schema) -> Schema:
    properties = {"type": {"const": name}, "id": _ANY_ID, **shape["properties"]}
    required = ["type", *(one for one in shape.get("required", ()) if one != "type")]
    described = {"description": shape["description"]} if "description" in shape else {}
    return {**described, "type": "object", "properties": properties, "required": required}


# ---------------------------------------------------------------- replies


def _responses(wire: WireDialect, defs: Schema) -> list[str]:
    """A reply for each command, and the failure that all share; their names."""
    if not wire.answers:
        return []
    family = _FAMILIES[wire.name]
    roots = []
    for command, kind in wire.answers.items():
        usual = WIRE["pi"].answers.get(command)
        name = ("" if kind == usual else family) + pascal(command) + "Response"
        defs[name] = _success(command, kind)
        roots.append(name)
    failed = (family if wire.greets else "") + "FailedResponse"
    defs[failed] = _failure(needs_command=not wire.greets)
    return [*roots, failed]


def _success(command: str, kind: Any) -> Schema:
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
            "code": {"type": "string", "description": "For programs; rare."},
        },
        "required": ["type", *(["command"] if needs_command else []), "success", "error"],
    }


# ---------------------------------------------------------------- dialogs


def _requests(defs: Schema) -> list[str]:
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
