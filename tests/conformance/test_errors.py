"""Replies: ids, names, success and failure of every command."""

from typing import Any

import pytest

from ludolf.base import dumps
from ludolf.client import Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import PI, Stage, Story, ask, is_piece, tell
from tests.process.harness import only, types
from tests.process.script import answer

# Every command of the documents, with parameters that it takes and that need no model.
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
    "get_last_assistant_text": {},
    "set_session_name": {"name": "x"},
}
IN_PI: dict[str, dict[str, Any]] = {
    **{"fork": {"entryId": "none"}, "clone": {}, "get_fork_messages": {}, "get_commands": {}},
    **{"steer": {"message": "x"}, "follow_up": {"message": "x"}, "prompt": {}},
}
ELSEWHERE: dict[str, dict[str, Any]] = {
    **{"branch": {"entryId": "none"}, "get_branch_messages": {}},
    "set_interrupt_mode": {"mode": "wait"},
}
# Which of them fail here; pi makes the session that it switches to.
FAILING = ({"compact", "fork", "clone", "prompt"}, {"compact", "switch_session", "branch"})
WITHOUT_ID = ("get_state", "get_messages", "set_session_name", "get_session_stats", "abort")
# An unknown command, and lines that are no JSON.
ODD = (b'{"type":"no_such_thing"}', b"nonsense", b'{"type":"get_state"')


def _commands(stage: Stage) -> dict[str, dict[str, Any]]:
    return {**COMMANDS, **(IN_PI if stage.dialect in PI else ELSEWHERE)}


async def _replies(stage: Stage) -> None:
    stage.server.add(answer("Hello."))
    async with stage.client() as client:
        bare = [dumps({"type": name, **COMMANDS[name]}) for name in WITHOUT_ID]
        unknown = ODD[0] if stage.dialect in PI else b'{"id":"unknown",' + ODD[0][1:]
        for line in (*bare, unknown, *ODD[1:]):
            await client.process.write(line + b"\n")
            await client.wait_for("response")
        await client.request("set_model", id="stranger", provider="invalid", modelId="model")
        await client.send("extension_ui_response", id="nobody", value="x")
        await client.request("set_session_name", id="empty", name="  ")
        await client.request("get_state", id="after errors")
        await ask(stage, client, "Hi")
        for name, params in _commands(stage).items():
            await client.request(name, id=f"id of {name}", **params)


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _replies)


@pytest.fixture(scope="module")
def with_ids(story: Story) -> list[Record]:
    """The replies to each command, sent with an id."""
    replies = only(story.records, "response")
    return [one for one in replies if one.get("id", "").startswith("id of ")]


@pytest.fixture(scope="module")
def without_ids(story: Story) -> list[Record]:
    """The replies to what was sent without an id or could not be read."""
    found = only(story.records, "response")[: len(WITHOUT_ID) + len(ODD)]
    return found


# ---------------------------------------------------------------- ids and names


@proves("RPC4-overview-04", "RPC3-commands-02", "RPC3-steps-02")
@proves("RPC2-overview-05")
@proves("RPC0-overview-02", "RPC0-id-01", "RPC0-in-01", "RPC0-reply-01")
def test_every_command_is_answered_with_its_id(story: Story, with_ids: list[Record]) -> None:
    told = [(reply["command"], reply["id"]) for reply in with_ids]
    assert told == [(name, f"id of {name}") for name in _commands(story.stage)]


@proves("RPC4-overview-05")
@proves("RPC2-overview-06")
@proves("RPC0-id-02")
def test_without_an_id_the_reply_has_none(without_ids: list[Record]) -> None:
    told = [reply["command"] for reply in without_ids[: len(WITHOUT_ID)]]
    assert told == list(WITHOUT_ID)
    assert not any("id" in reply for reply in without_ids[: len(WITHOUT_ID)])


@proves("RPC4-overview-02", "RPC3-commands-01", "RPC3-responses-01", "RPC3-responses-02")
@proves("RPC2-overview-01", "RPC2-overview-02", "RPC2-overview-03")
@proves("RPC0-overview-03", "RPC0-out-01", "RPC0-out-02", "RPC0-event-01")
def test_replies_and_events_are_told_apart(story: Story) -> None:
    replies = only(story.records, "response")
    assert all(isinstance(one["success"], bool) and one["command"] for one in replies)
    assert {"agent_start", "message_update", "agent_end"} <= {one["type"] for one in story.events()}
    assert all("success" not in one and "command" not in one for one in story.events())
    assert story.stage.dialect in PI or types(story.records)[0] == "ready"
    assert any(is_piece(one) for one in story.events())


@proves("RPC3-responses-04")
@proves("RPC0-reply-02", "RPC0-reply-04")
def test_data_is_there_where_a_command_returns_something(with_ids: list[Record]) -> None:
    for reply in with_ids:
        name = reply["command"]
        silent = name.startswith(("set_", "abort")) and name != "set_model"
        assert ("data" in reply) is (reply["success"] and not silent)


@proves("RPC3-commands-03")
def test_the_usual_commands_are_known(with_ids: list[Record]) -> None:
    usual = {"prompt", "get_state", "abort", "bash", "compact", "set_model"}
    errors = {reply["command"]: reply.get("error", "") for reply in with_ids}
    assert not any(errors[name].startswith("Unknown command") for name in usual)


# ---------------------------------------------------------------- errors


@proves("RPC4-errors-01", "RPC4-errors-02", "RPC3-responses-03", "RPC3-responses-06")
@proves("RPC2-error-01")
@proves("RPC0-reply-03", "RPC0-error-01")
def test_a_command_that_fails_says_why(story: Story, with_ids: list[Record]) -> None:
    failed = {reply["command"]: reply["error"] for reply in with_ids if not reply["success"]}
    assert failed.keys() - {"export_html"} == FAILING[story.stage.dialect not in PI]
    assert all(isinstance(text, str) and text for text in failed.values())
    assert all("error" not in reply for reply in with_ids if reply["success"])
    assert all("data" not in reply for reply in with_ids if not reply["success"])


@proves("RPC4-errors-03")
@proves("RPC2-error-01", "RPC2-error-02")
@proves("RPC0-reply-03", "RPC0-error-01", "RPC0-error-02")
def test_an_unknown_model_is_refused_by_name(story: Story) -> None:
    assert story.reply("stranger") == {
        **{"id": "stranger", "type": "response", "command": "set_model", "success": False},
        "error": "Model not found: invalid/model",
    }


@proves("RPC2-error-03")
@proves("RPC0-id-03")
def test_an_unknown_command_is_answered_without_its_id(without_ids: list[Record]) -> None:
    assert without_ids[len(WITHOUT_ID)] == {
        **{"type": "response", "command": "no_such_thing", "success": False},
        "error": "Unknown command: no_such_thing",
    }


@proves("RPC4-errors-04", "RPC4-errors-05")
@proves("RPC2-error-03")
@proves("RPC0-id-04", "RPC0-error-04")
def test_a_line_that_is_no_json_is_a_parse_error_and_the_next_is_read(
    story: Story, without_ids: list[Record]
) -> None:
    prefix = "Failed to parse command: "
    for reply in without_ids[-2:]:
        assert reply["error"].removeprefix(prefix) not in ("", reply["error"])
        assert reply.keys() == {"type", "command", "success", "error"}
        assert (reply["command"], reply["success"]) == ("parse", False)
    assert story.data("after errors")["isStreaming"] is False


@proves("RPC0-in-02", "RPC0-error-06")
def test_an_answer_that_nobody_waits_for_is_ignored(story: Story) -> None:
    assert "extension_ui_response" not in {one.get("command") for one in story.records}
    assert story.replies("nobody") == []


@proves("RPC0-error-03", "RPC0-error-05")
def test_an_empty_name_is_refused_and_the_process_goes_on(story: Story) -> None:
    assert story.reply("empty")["error"] == "Session name cannot be empty"
    assert story.data("after errors")["sessionName"] == "x"
    assert story.data("id of get_last_assistant_text") == {"text": None}
