"""The events of a run: agent, turns, messages, deltas, tools."""

from itertools import pairwise

import pytest

from ludolf.client import Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, tell
from tests.process.harness import only, text_of, types
from tests.process.script import Failure, Gate, Tokens, answer, bash, call, say, think

# The second line is written only when the test has seen the first.
SLOW = "echo one; until test -e go; do sleep 0.01; done; echo two"
KINDS = {
    f"{kind}_{part}"
    for kind in ("text", "thinking", "toolcall")
    for part in ("start", "delta", "end")
}


async def _events(stage: Stage) -> None:
    gate = Gate()
    first = think("I should look."), "Looking around.", bash(SLOW, "slow")
    stage.server.add(answer(*first, size=4), answer("All done."))
    stage.server.add(answer(bash("seq 1 3000", "long"), call("read", {"path": "none"}, "bad")))
    stage.server.add(
        answer("Too lo", stop="length", tokens=Tokens(output=8_000)), Failure(status=400)
    )
    stage.server.add(answer(say("Half", gate)))
    async with stage.client() as client:
        await client.request("prompt", id="run", message="Go")
        await client.wait_for(lambda r: "one" in str(r.get("partialResult", "")))
        (stage.work / "go").touch()
        await client.wait_for("agent_settled")
        for name in ("tools", "doomed"):
            await client.request("prompt", id=name, message=name)
            await client.wait_for("agent_settled")
        await client.request("prompt", id="stopped", message="Wait")
        await client.wait_for("message_update")
        await client.request("abort")
        await client.wait_for("agent_settled")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _events)


@pytest.fixture(scope="module")
def run(story: Story) -> list[Record]:
    return story.run("run")


def _first_answer(run: list[Record]) -> list[Record]:
    """What was told of the first answer, from its start to its end."""
    names = types(run)
    end = names.index("message_end assistant")
    return run[names.index("message_start assistant") : end + 1]


def _deltas(run: list[Record]) -> list[Record]:
    updates = only(_first_answer(run), "message_update")
    return [update["assistantMessageEvent"] for update in updates]


# ---------------------------------------------------------------- agent, turns, messages


@proves("RPC4-overview-03", "RPC4-events-01", "RPC3-events-01", "RPC3-steps-03")
def test_a_run_is_told_event_by_event_while_it_goes_on(run: list[Record]) -> None:
    steps = [name for name in types(run) if name not in KINDS]
    progress = [name for name in steps if not name.startswith("tool_execution_update")]
    assert progress == [
        *("agent_start", "turn_start", "message_start user", "message_end user"),
        *("message_start assistant", "message_end assistant"),
        *("tool_execution_start slow", "tool_execution_end slow"),
        *("message_start toolResult", "message_end toolResult", "turn_end"),
        *("turn_start", "message_start assistant", "message_end assistant", "turn_end"),
        *("agent_end", "agent_settled"),
    ]


@proves("RPC4-events-02")
def test_events_carry_no_id(story: Story) -> None:
    assert not [one["type"] for one in story.events() if "id" in one]


@proves("RPC4-agent-01", "RPC4-agent-02", "RPC3-overview-05")
def test_a_prompt_is_worked_on_between_agent_start_and_agent_end(story: Story) -> None:
    for name in ("run", "tools", "doomed", "stopped"):
        names = [one for one in types(story.run(name)) if not one.startswith("response")]
        assert (names[0], names[-2]) == ("agent_start", "agent_end")
        assert names.count("agent_start") == names.count("agent_end") == 1


@proves("RPC4-agent-03")
def test_agent_end_holds_the_messages_of_this_run_and_no_others(story: Story) -> None:
    for name in ("run", "tools", "doomed", "stopped"):
        (end,) = only(story.run(name), "agent_end")
        told = [one["message"] for one in only(story.run(name), "message_end")]
        assert end["messages"] == told


@proves("RPC4-turn-01", "RPC4-turn-02", "RPC4-turn-03", "RPC4-turn-04")
def test_a_turn_is_an_answer_with_the_results_of_its_calls(run: list[Record]) -> None:
    assert types(run).count("turn_start") == 2
    first, last = only(run, "turn_end")
    ends = [one["message"] for one in only(run, "message_end")]
    assert [first["message"], last["message"]] == [m for m in ends if m["role"] == "assistant"]
    assert first["toolResults"] == [m for m in ends if m["role"] == "toolResult"]
    assert last["toolResults"] == []


@proves("RPC4-message-01", "RPC4-message-02", "RPC4-message-03")
def test_every_message_has_its_start_and_its_end(story: Story) -> None:
    starts, ends = only(story.records, "message_start"), only(story.records, "message_end")
    roles = [one["message"]["role"] for one in starts]
    assert roles == [one["message"]["role"] for one in ends]
    assert set(roles) == {"user", "assistant", "toolResult"}
    for start, end in zip(starts, ends, strict=True):
        assert start["message"]["timestamp"] == end["message"]["timestamp"]


# ---------------------------------------------------------------- deltas


@proves("RPC4-update-01", "RPC3-events-02")
def test_an_answer_arrives_in_updates(run: list[Record]) -> None:
    assert {delta["type"] for delta in _deltas(run)} == KINDS


@proves("RPC4-update-02")
def test_an_answer_begins_empty(run: list[Record]) -> None:
    start = _first_answer(run)[0]["message"]
    assert (start["role"], start["content"]) == ("assistant", [])


@proves("RPC4-update-03", "RPC4-update-04", "RPC4-update-05")
def test_text_comes_in_pieces_and_then_whole(run: list[Record]) -> None:
    start, *pieces, end = [one for one in _deltas(run) if one["type"].startswith("text")]
    assert (start["type"], end["type"]) == ("text_start", "text_end")
    assert len(pieces) > 1
    assert "".join(piece["delta"] for piece in pieces) == "Looking around."
    assert end["content"] == "Looking around."


@proves("RPC4-update-06", "RPC4-update-07", "RPC4-update-08")
def test_thinking_comes_in_pieces(run: list[Record]) -> None:
    start, *pieces, end = [one for one in _deltas(run) if one["type"].startswith("thinking")]
    assert (start["type"], end["type"]) == ("thinking_start", "thinking_end")
    assert len(pieces) > 1
    assert "".join(piece["delta"] for piece in pieces) == "I should look."


@proves("RPC4-update-09", "RPC4-update-10", "RPC4-update-11")
def test_a_call_comes_in_pieces_and_then_whole(run: list[Record]) -> None:
    start, *pieces, end = [one for one in _deltas(run) if one["type"].startswith("toolcall")]
    assert (start["type"], end["type"]) == ("toolcall_start", "toolcall_end")
    assert "".join(piece["delta"] for piece in pieces) == f'{{"command":"{SLOW}"}}'
    assert end["toolCall"] == {
        **{"type": "toolCall", "id": "slow", "name": "bash"},
        "arguments": {"command": SLOW},
    }


@proves("RPC4-update-12")
def test_pieces_name_the_block_they_belong_to(run: list[Record]) -> None:
    places = {"thinking": 0, "text": 1, "toolcall": 2}
    for delta in _deltas(run):
        assert delta["contentIndex"] == places[delta["type"].partition("_")[0]]
    kinds = [block["type"] for block in _first_answer(run)[-1]["message"]["content"]]
    assert kinds == ["thinking", "text", "toolCall"]


def _reasons(story: Story, name: str) -> list[str]:
    ends = [one["message"] for one in only(story.run(name), "message_end")]
    return [message["stopReason"] for message in ends if message["role"] == "assistant"]


@proves("RPC4-update-13")
def test_a_complete_answer_tells_its_reason(story: Story) -> None:
    assert _reasons(story, "run") == ["toolUse", "stop"]
    assert _reasons(story, "tools") == ["toolUse", "length"]


@proves("RPC4-update-14")
def test_a_failed_answer_tells_its_reason(story: Story) -> None:
    assert _reasons(story, "doomed") == ["error"]
    assert _reasons(story, "stopped") == ["aborted"]


@proves("RPC4-update-15", "RPC4-update-16")
def test_each_update_holds_the_message_so_far(run: list[Record]) -> None:
    text = ""
    for update in only(_first_answer(run), "message_update"):
        delta = update["assistantMessageEvent"]
        if delta["type"] == "text_delta":
            text += delta["delta"]
        assert update["message"] == delta["partial"]
        assert text_of(update["message"]) == text
    assert text == "Looking around."


# ---------------------------------------------------------------- tools


@proves("RPC4-tool-01", "RPC4-tool-02")
def test_the_start_of_a_tool_tells_its_call(run: list[Record]) -> None:
    (start,) = only(run, "tool_execution_start")
    assert start == {
        **{"type": "tool_execution_start", "toolCallId": "slow", "toolName": "bash"},
        "args": {"command": SLOW},
    }


@proves("RPC4-tool-03", "RPC4-tool-04", "RPC4-tool-05")
def test_output_is_told_while_the_tool_runs(run: list[Record]) -> None:
    updates = only(run, "tool_execution_update")
    for update in updates:
        assert (update["toolCallId"], update["toolName"]) == ("slow", "bash")
        assert update["args"] == {"command": SLOW}
        assert isinstance(update["partialResult"]["content"], list)
    shown = [one["partialResult"] for one in updates if one["partialResult"]["content"]]
    assert all(isinstance(one["details"], dict) for one in shown)


@proves("RPC4-tool-06")
def test_an_update_holds_all_output_so_far(run: list[Record]) -> None:
    shown = [text_of(one["partialResult"]) for one in only(run, "tool_execution_update")]
    assert "one\n" in shown
    assert shown[-1] == "one\ntwo\n"
    assert all(later.startswith(earlier) for earlier, later in pairwise(shown))


@proves("RPC4-tool-07")
def test_a_cut_output_says_where_all_of_it_is(story: Story) -> None:
    updates = only(story.run("tools"), "tool_execution_update")
    details = updates[-1]["partialResult"]["details"]
    assert details["truncation"]["truncated"] is True
    assert details["truncation"]["totalLines"] == 3000
    assert isinstance(details["fullOutputPath"], str)


@proves("RPC4-tool-08", "RPC4-tool-09", "RPC4-tool-10", "RPC4-tool-11")
def test_the_end_of_a_tool_tells_its_result(story: Story) -> None:
    (end,) = only(story.run("run"), "tool_execution_end")
    assert (end["toolCallId"], end["toolName"], end["isError"]) == ("slow", "bash", False)
    assert text_of(end["result"]) == "one\ntwo\n"
    ends = {one["toolCallId"]: one for one in only(story.run("tools"), "tool_execution_end")}
    assert ends["long"]["result"]["details"].keys() >= {"truncation", "fullOutputPath"}
    assert [ends[name]["isError"] for name in ("long", "bad")] == [False, True]


@proves("RPC4-tool-12")
def test_the_events_of_a_call_have_its_id(story: Story) -> None:
    run = story.run("tools")
    message = only(run, "turn_end")[0]["message"]
    ids = [block["id"] for block in message["content"] if block["type"] == "toolCall"]
    assert ids == ["long", "bad"]
    for kind in ("tool_execution_start", "tool_execution_end"):
        assert sorted(one["toolCallId"] for one in only(run, kind)) == sorted(ids)
    assert {one["toolCallId"] for one in only(run, "tool_execution_update")} == {"long"}
