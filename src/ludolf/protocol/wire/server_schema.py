"""JSON Schema of `ludolf serve`: frames of RPC mode with the keys of the server in front."""

from ludolf.base import Schema
from ludolf.protocol.server import SERVER_ROWS
from ludolf.protocol.ui import DIALOGS, UiRequest
from ludolf.protocol.wire.dialects import WIRE
from ludolf.protocol.wire.schema import (
    add_requests,
    add_responses,
    command_shape,
    definitions,
    document,
    members,
    pascal,
    reference,
    schema_in,
    success_shape,
)
from ludolf.protocol.wire.server_frames import (
    NUMBERED_FRAMES,
    PRIVATE_FRAMES,
    SERVER_ANSWERS,
    SERVER_FRAMES,
    SessionWork,
)

_DIALECT = WIRE["pi-delta"]
_SESSION = {"type": "string", "description": "The id of the session."}
_ENVELOPES: Schema = {
    "ForSession": {
        "description": "Without `session`: the session that was opened or attached last.",
        "type": "object",
        "properties": {"session": _SESSION},
        "required": [],
    },
    "OfSession": {
        "type": "object",
        "properties": {"session": _SESSION},
        "required": ["session"],
    },
    "Numbered": {
        "description": "`seq` counts the frames of a session from 1, without gaps.",
        "type": "object",
        "properties": {"session": _SESSION, "seq": {"type": "integer"}},
        "required": ["session", "seq"],
    },
    "Repeatable": {
        "description": "`session` if the command had it. `repeated`: the command was sent before.",
        "type": "object",
        "properties": {"session": _SESSION, "repeated": {"const": True}},
        "required": [],
    },
}


def server_in() -> Schema:
    """Return the schema of the commands of a client."""
    usual = schema_in()
    kinds = {row.params for row in SERVER_ROWS}
    params = definitions(kinds, out=False)
    shapes = {kind.__name__: params.pop(kind.__name__) for kind in kinds}
    shapes["Bare"].pop("description")
    own = {
        f"{pascal(row.name)}Command": command_shape(row.name, shapes[row.params.__name__])
        for row in SERVER_ROWS
    }
    defs = {**usual["$defs"], **params, **own, "ForSession": _ENVELOPES["ForSession"]}
    defs["SessionCommand"] = _wrapped("ForSession", [_name(one) for one in usual["anyOf"]])
    return document("Commands of a client to ludolf serve", ["SessionCommand", *own], defs)


def server_out() -> Schema:
    """Return the schema of the frames that a client reads in the dialect of the log."""
    kinds = (*SERVER_ANSWERS.values(), *_DIALECT.answers.values())
    answers = [one for kind in kinds for one in members(kind)]
    defs = definitions((*NUMBERED_FRAMES, *PRIVATE_FRAMES, *SERVER_FRAMES, *answers), out=True)
    numbered = [kind.__name__ for kind in NUMBERED_FRAMES if kind is not UiRequest]
    numbered += add_requests(defs)
    _name_requests(defs[SessionWork.__name__]["properties"])
    replies = _add_replies(defs)
    defs |= {name: _ENVELOPES[name] for name in ("OfSession", "Numbered", "Repeatable")}
    defs["NumberedFrame"] = _wrapped("Numbered", numbered)
    defs["PrivateFrame"] = _wrapped("OfSession", [kind.__name__ for kind in PRIVATE_FRAMES])
    defs["ServerReply"] = _wrapped("Repeatable", replies)
    roots = ["NumberedFrame", "PrivateFrame", "ServerReply"]
    roots += [kind.__name__ for kind in SERVER_FRAMES]
    return document("Frames of ludolf serve in the dialect pi-delta", roots, defs)


def _wrapped(envelope: str, names: list[str]) -> Schema:
    return {"allOf": [reference(envelope), {"anyOf": [reference(name) for name in names]}]}


def _name_requests(underway: Schema) -> None:
    """Name the methods that requests in a snapshot may have."""
    dialogs = [reference(f"{pascal(method)}Request") for method in DIALOGS]
    underway["dialogs"]["items"] = {"anyOf": dialogs}
    underway["widgets"]["items"] = reference("SetWidgetRequest")


def _add_replies(defs: Schema) -> list[str]:
    """The replies of RPC mode, and those of the server; their names."""
    own = {
        f"{pascal(command)}Response": success_shape(command, kind)
        for command, kind in SERVER_ANSWERS.items()
    }
    defs.update(own)
    return [*add_responses(_DIALECT, defs), *own]


def _name(shape: Schema) -> str:
    """The name that a reference leads to."""
    return str(shape["$ref"]).rpartition("/")[2]
