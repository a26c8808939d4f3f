"""Replies: ids, names, success and failure of every command."""

from typing import Any

import pytest

from ludolf.base import dumps
from ludolf.client import Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage

# Every command of the document, with parameters that it takes and that need no model.
COMMANDS: dict[str, dict[str, Any]] = {
    "abort": {},
    "new_session": {},
    "get_state": {},
    "get_messages": {},
    "set_model": {"provider": "claude", "modelId": "large"},
    "cycle_model": {},
    "get_available_models": {},
    "set_thinking_level": {"level": "low"},
    "cycle_thinking_level": {},
    "set_steering_mode": {"mode": "all"},
    "set_follow_up_mode": {"mode": "all"},
    "compact": {},
    "set_auto_compaction": {"enabled": True},
    "set_auto_retry": {"enabled": True},
    "abort_retry": {},
    "bash": {"command": "true"},
    "abort_bash": {},
    "get_session_stats": {},
    "export_html": {},
    "switch_session": {"sessionPath": "other.jsonl"},
    "fork": {"entryId": "none"},
    "clone": {},
    "get_fork_messages": {},
    "get_last_assistant_text": {},
    "set_session_name": {"name": "x"},
    "get_commands": {},
    "steer": {"message": "x"},
    "follow_up": {"message": "x"},
    "prompt": {},
}
FAILING = {"compact", "export_html", "fork", "clone", "prompt"}


@pytest.fixture(scope="module")
def with_ids(make_stage: MakeStage) -> list[Record]:
    lines = [
        dumps({"type": name, "id": f"id of {name}", **params}) for name, params in COMMANDS.items()
    ]
    told = make_stage().feed(*(line + b"\n" for line in lines))
    return [record for record in told if record["type"] == "response"]


@proves("RPC4-overview-04", "RPC3-commands-02", "RPC3-steps-02")
def test_every_command_is_answered_with_its_id(with_ids: list[Record]) -> None:
    assert len(with_ids) == len(COMMANDS)
    assert {reply["command"]: reply["id"] for reply in with_ids} == {
        name: f"id of {name}" for name in COMMANDS
    }


@proves("RPC4-overview-02", "RPC3-commands-01", "RPC3-responses-01", "RPC3-responses-02")
def test_a_reply_names_its_command(with_ids: list[Record]) -> None:
    assert {reply["command"] for reply in with_ids} == set(COMMANDS)
    assert all(isinstance(reply["success"], bool) for reply in with_ids)


@proves("RPC3-responses-04")
def test_data_is_there_where_a_command_returns_something(with_ids: list[Record]) -> None:
    silent = {name for name in COMMANDS if name.startswith(("set_", "abort"))} - {"set_model"}
    for reply in with_ids:
        assert ("data" in reply) is (reply["success"] and reply["command"] not in silent)


@proves("RPC3-commands-03")
def test_the_usual_commands_are_known(with_ids: list[Record]) -> None:
    usual = {"prompt", "get_state", "abort", "bash", "compact", "set_model"}
    errors = {reply["command"]: reply.get("error", "") for reply in with_ids}
    assert not any(errors[name].startswith("Unknown command") for name in usual)


@proves("RPC4-errors-01", "RPC4-errors-02", "RPC3-responses-03", "RPC3-responses-06")
def test_a_command_that_fails_says_why(with_ids: list[Record]) -> None:
    failed = {reply["command"]: reply["error"] for reply in with_ids if not reply["success"]}
    assert failed.keys() <= FAILING
    assert {"compact", "fork", "clone", "prompt"} <= failed.keys()
    assert all(isinstance(text, str) and text for text in failed.values())
    assert all("error" not in reply for reply in with_ids if reply["success"])
    assert all("data" not in reply for reply in with_ids if not reply["success"])


@proves("RPC4-overview-05")
def test_without_an_id_the_reply_has_none(stage: Stage) -> None:
    names = ("get_state", "get_messages", "set_session_name", "get_commands", "abort", "fork")
    lines = [dumps({"type": name, **COMMANDS[name]}) + b"\n" for name in names]
    told = [record for record in stage.feed(*lines) if record["type"] == "response"]
    assert sorted(reply["command"] for reply in told) == sorted(names)
    assert not any("id" in reply for reply in told)


@proves("RPC4-errors-03")
def test_an_unknown_model_is_refused_by_name(stage: Stage) -> None:
    (reply,) = stage.feed(b'{"type":"set_model","provider":"invalid","modelId":"model"}\n')
    assert reply == {
        **{"type": "response", "command": "set_model", "success": False},
        "error": "Model not found: invalid/model",
    }


@proves("RPC4-errors-04", "RPC4-errors-05")
def test_a_line_that_is_no_json_is_a_parse_error(stage: Stage) -> None:
    prefix = "Failed to parse command: "
    for reply in stage.feed(b"nonsense\n", b'{"type":"get_state"\n'):
        assert reply["error"].removeprefix(prefix) not in ("", reply["error"])
        del reply["error"]
        assert reply == {"type": "response", "command": "parse", "success": False}
