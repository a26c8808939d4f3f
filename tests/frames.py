"""Frames that tests see, held against the published schema of their dialect."""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import jsonschema_rs

from ludolf.protocol.dialects import DEFAULT
from ludolf.protocol.wire.schema import schema_in, schema_out
from ludolf.protocol.wire.server_schema import server_in, server_out

Key = tuple[Any, ...]
# What tells frames apart: none of them has all of these keys.
_LABELS = ("type", "command", "success", "method")


class Frames:
    """The frames of one schema; each kind is compiled when the first of it is seen."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._defs = schema["$defs"]
        names = [one["$ref"].rpartition("/")[2] for one in schema["anyOf"]]
        self._names = {_key_of(self._defs[name]["properties"]): name for name in names}
        self._compiled: dict[str, jsonschema_rs.Draft202012Validator] = {}

    def name_of(self, record: Mapping[str, Any]) -> str | None:
        """The definition that a frame must fit; None if it fits none."""
        asked = tuple(_hashable(record.get(label)) for label in _LABELS)
        kind, command, success, method = asked
        if kind == "response":
            return self._names.get((kind, command if success else None, success, None))
        return self._names.get((kind, None, None, None)) or self._names.get(
            (kind, None, None, method)
        )

    def check(self, record: Mapping[str, Any]) -> None:
        """Raises:
        AssertionError: the schema does not know such a frame.
        """
        name = self.name_of(record)
        assert name is not None, f"no such frame in the schema: {str(record)[:500]}"
        validator = self._compiled.get(name)
        if validator is None:
            root = {"$ref": f"#/$defs/{name}", "$defs": self._defs}
            validator = self._compiled[name] = jsonschema_rs.Draft202012Validator(root)
        if not validator.is_valid(record):
            assert False, _explained(name, validator, record)  # noqa: B011  # as pytest shows it


def _explained(
    name: str, validator: jsonschema_rs.Draft202012Validator, record: Mapping[str, Any]
) -> str:
    wrong = [
        f"{list(one.instance_path)}: {one.message[:300]}" for one in validator.iter_errors(record)
    ]
    return f"not as the schema of {name} says:\n" + "\n".join(wrong)


def _key_of(properties: Mapping[str, Any]) -> Key:
    return tuple(properties.get(label, {}).get("const") for label in _LABELS)


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | bool) else None


class ServerFrames:
    """The frames of `ludolf serve`, or the commands to it: kinds in envelopes, and kinds alone."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._defs = schema["$defs"]
        names = [one["$ref"].rpartition("/")[2] for one in schema["anyOf"]]
        wrapped = {name: self._defs[name]["allOf"] for name in names if "allOf" in self._defs[name]}
        alone = [one for one in schema["anyOf"] if one["$ref"].rpartition("/")[2] not in wrapped]
        self._kinds = {
            envelope["$ref"].rpartition("/")[2]: Frames({**schema, "anyOf": kinds["anyOf"]})
            for envelope, kinds in wrapped.values()
        }
        self._alone = Frames({**schema, "anyOf": alone})

    def check(self, record: Mapping[str, Any]) -> None:
        """Raises:
        AssertionError: the schema does not know such a frame.
        """
        for envelope, kinds in self._kinds.items():
            if kinds.name_of(record) is not None:
                root = {"$ref": f"#/$defs/{envelope}", "$defs": self._defs}
                validator = jsonschema_rs.Draft202012Validator(root)
                assert validator.is_valid(record), _explained(envelope, validator, record)
                kinds.check(record)
                return
        self._alone.check(record)


@cache
def server_frames_out() -> ServerFrames:
    return ServerFrames(server_out())


@cache
def server_frames_in() -> ServerFrames:
    return ServerFrames(server_in())


@cache
def frames_out(dialect: str) -> Frames:
    return Frames(schema_out(dialect))


@cache
def frames_in() -> Frames:
    return Frames(schema_in())


def dialect_of(arguments: Iterable[str], env: Mapping[str, str]) -> str:
    """The dialect that the program speaks when it is started so."""
    words = list(arguments)
    if "--rpc-dialect" in words:
        return words[words.index("--rpc-dialect") + 1]
    return env.get("LUDOLF_RPC_DIALECT") or env.get("PI_RPC_DIALECT") or DEFAULT
