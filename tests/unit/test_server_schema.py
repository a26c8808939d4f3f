"""The published schema of `ludolf serve`: frames of RPC mode in their envelopes."""

from typing import Any

import pytest

from ludolf.base import dumps, loads
from ludolf.protocol.server import SERVER_COMMANDS
from ludolf.protocol.wire.published import schemas
from ludolf.protocol.wire.schema import members, pascal
from ludolf.protocol.wire.server_frames import PRIVATE_FRAMES, SERVER_ANSWERS, SERVER_FRAMES
from tests.frames import server_frames_in, server_frames_out
from tests.samples import sample

DONE = {"type": "response", "command": "get_state", "success": False, "error": "x"}


def test_every_command_of_the_server_is_described() -> None:
    defs = schemas()["server-in"]["$defs"]
    assert {f"{pascal(name)}Command" for name in SERVER_COMMANDS} <= set(defs)


@pytest.mark.parametrize("whole", [True, False], ids=["all fields", "required fields"])
def test_answers_and_private_frames_are_as_the_schema_says(whole: bool) -> None:
    for command, kind in SERVER_ANSWERS.items():
        for member in members(kind):
            data = loads(dumps(sample(member, whole=whole)))
            if "underway" in data:
                data["underway"].update(dialogs=[], widgets=[])
            reply = {"type": "response", "command": command, "success": True, "data": data}
            server_frames_out().check(reply)
    for kind in (*PRIVATE_FRAMES, *SERVER_FRAMES):
        frame = loads(dumps(sample(kind, whole=False)))
        server_frames_out().check({"session": "s", **frame})


@pytest.mark.parametrize(
    "record",
    [
        {"session": "s", "seq": 1, "type": "agent_start"},
        {"session": "s", "type": "client_left", "client": "c"},
        {"type": "server_closing", "seconds": 5.0},
        {"type": "serving", "pid": 1, "socket": "/run/s"},
        DONE,
        {"session": "s", **DONE, "repeated": True},
        {"type": "response", "command": "ping", "success": True},
    ],
    ids=str,
)
def test_a_frame_of_the_server_is_described(record: dict[str, Any]) -> None:
    server_frames_out().check(record)


@pytest.mark.parametrize(
    "record",
    [
        {"type": "agent_start"},
        {"session": "s", "type": "agent_start"},
        {"session": "s", "seq": "1", "type": "agent_start"},
        {"seq": 1, "session": "s", "type": "agent_end"},
        {"type": "client_left", "client": "c"},
        {"type": "response", "command": "open", "success": True},
        {**DONE, "repeated": False},
    ],
    ids=str,
)
def test_a_frame_without_its_envelope_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        server_frames_out().check(record)


@pytest.mark.parametrize(
    "record",
    [
        {"type": "hello", "client": "c", "token": None},
        {"type": "open", "cwd": "/", "options": {"model": "sonnet"}, "env": {"A": "b"}},
        {"type": "attach", "session": "s", "cursor": "e-1", "role": "view"},
        {"type": "prompt", "session": "s", "message": "hi"},
        {"type": "get_state"},
    ],
    ids=str,
)
def test_a_command_of_a_client_is_described(record: dict[str, Any]) -> None:
    server_frames_in().check(record)


@pytest.mark.parametrize(
    "record",
    [
        {"type": "attach"},
        {"type": "open", "role": "owner"},
        {"type": "prompt", "session": 1, "message": "hi"},
        {"type": "prompt", "session": "s"},
    ],
    ids=str,
)
def test_a_wrong_command_of_a_client_is_refused(record: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        server_frames_in().check(record)
