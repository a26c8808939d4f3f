"""TypeScript types of every frame, made from the JSON Schema."""

import json
from collections.abc import Iterable, Mapping

from ludolf.base import Schema
from ludolf.protocol.wire.answers import ANSWERS
from ludolf.protocol.wire.schema import pascal
from ludolf.protocol.wire.server_frames import SERVER_ANSWERS

_PLAIN = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
}
# Schemas of what is sent to the program.
_INPUTS = ("in", "server-in")
# The type of all frames of a schema, unless it is of a dialect.
_ROOTS = {"in": "Command", "server-in": "ServerCommand", "server-out": "ServerFrame"}
_HEAD = """\
// Frames of ludolf --mode rpc: one JSON object a line, both ways. Made by scripts/make_schema.py.
// `Command` is what a host sends, in every dialect; `Frames[D]` is what it reads in the dialect D;
// `Answers[C]` is the `data` of the reply to the command C. `ludolf schema --typescript` prints it.
// A client of ludolf serve sends `ServerCommand` and reads `ServerFrame`; `ServerAnswers[C]` is the
// `data` of replies to the commands that only the server has.
"""


def typescript(schemas: Mapping[str, Schema]) -> str:
    """The declarations for schemas by the names of their files.

    Raises:
        ValueError: two dialects give one name to different things.
    """
    defs = _merged(schemas)
    parts = [_HEAD, *(_declaration(name, defs[name]) for name in sorted(defs))]
    frames = {}
    for name, schema in schemas.items():
        dialect = name.removeprefix("out-")
        words = dialect.replace("-", "_").replace(".", "")
        root = _ROOTS.get(name, pascal(words) + "Frame")
        parts.append(f"export type {root} = {_union(schema['anyOf'])};\n")
        if name not in _ROOTS:
            frames[dialect] = root
    if frames:
        parts.append(_interface("Frames", "The frames by dialect.", frames))
    if "GetStateResponse" in defs:
        comment = "The `data` of replies in the dialects of pi."
        parts.append(_interface("Answers", comment, _answers(defs, ANSWERS)))
    if "HelloResponse" in defs:
        comment = "The `data` of replies to the commands of the server."
        parts.append(_interface("ServerAnswers", comment, _answers(defs, SERVER_ANSWERS)))
    return "\n".join(parts)


def _merged(schemas: Mapping[str, Schema]) -> Schema:
    """Return all definitions; structs used in both directions as the program writes them."""
    defs: Schema = {}
    for name in sorted(schemas, key=lambda name: name in _INPUTS):
        for key, shape in schemas[name]["$defs"].items():
            if key not in defs:
                defs[key] = shape
            elif name not in _INPUTS and defs[key] != shape:
                raise ValueError(f"{key} means different things in different dialects")
    return defs


def _answers(defs: Schema, commands: Iterable[str]) -> dict[str, str]:
    """Return the type of the answer to each command."""
    answers = {}
    for command in commands:
        response = defs.get(pascal(command) + "Response")
        if response is not None:
            data = response["properties"].get("data")
            answers[command] = "undefined" if data is None else type_of(data)
    return answers


def _interface(name: str, comment: str, fields: Mapping[str, str]) -> str:
    lines = [f"  {json.dumps(key)}: {kind};" for key, kind in fields.items()]
    return "\n".join((f"/** {comment} */", f"export interface {name} {{", *lines, "}", ""))


# ---------------------------------------------------------------- one definition


def _declaration(name: str, shape: Schema) -> str:
    comment = _comment(shape, "")
    if "properties" in shape:
        return f"{comment}export interface {name} {{\n{_fields(shape, '  ')}}}\n"
    return f"{comment}export type {name} = {type_of(shape)};\n"


def _fields(shape: Schema, indent: str) -> str:
    required = shape.get("required", ())
    lines = []
    for name, field in shape["properties"].items():
        mark = "" if name in required else "?"
        lines.append(f"{_comment(field, indent)}{indent}{name}{mark}: {type_of(field)};\n")
    return "".join(lines)


def _comment(shape: Schema, indent: str) -> str:
    text = shape.get("description")
    if not text:
        return ""
    lines = [line.strip() for line in str(text).replace("*/", "* /").strip().splitlines()]
    if len(lines) == 1:
        return f"{indent}/** {lines[0]} */\n"
    body = "".join(f"{indent} * {line}".rstrip() + "\n" for line in lines)
    return f"{indent}/**\n{body}{indent} */\n"


def type_of(shape: Schema) -> str:
    """The TypeScript type of a schema."""
    match shape:
        case {"$ref": str(place)}:
            return place.rpartition("/")[2]
        case {"const": value}:
            return json.dumps(value)
        case {"enum": values}:
            return " | ".join(json.dumps(value) for value in values)
        case {"anyOf": shapes}:
            return _union(shapes)
        case {"allOf": shapes}:
            return " & ".join(_in_brackets(type_of(one)) for one in shapes)
        case {"type": "array"}:
            return _in_brackets(type_of(shape.get("items", {}))) + "[]"
        case {"type": "object"}:
            return _object(shape)
        case {"type": kind}:
            return _PLAIN[kind]
        case _:
            return "unknown"


def _in_brackets(kind: str) -> str:
    return f"({kind})" if " " in kind else kind


def _union(shapes: Iterable[Schema]) -> str:
    return " | ".join(dict.fromkeys(type_of(shape) for shape in shapes))


def _object(shape: Schema) -> str:
    if "properties" in shape:
        fields = " ".join(_fields({**shape}, "").split("\n")).strip()
        return f"{{ {fields} [key: string]: unknown }}"
    inner = shape.get("additionalProperties")
    return f"Record<string, {type_of(inner) if isinstance(inner, dict) else 'unknown'}>"
