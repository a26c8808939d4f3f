"""The events of a run: agent, turns, messages, deltas, tools."""

from itertools import pairwise
from typing import Any

import pytest

from ludolf.client import Client, Record
from tests.conformance import asking
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import PI, Stage, Story, ask, begin, do, is_piece, tell
from tests.process.harness import only, text_of, types
from tests.process.script import Failure, Gate, Tokens, answer, bash, call, say, think

# The second line is written only when the test has seen the first.
SLOW = "echo one; until test -e go; do sleep 0.01; done; echo two"
CUT = answer("Too lo", stop="length", tokens=Tokens(output=8_000))
RUNS = ("run", "tools", "doomed", "stopped")
KINDS = {
    f"{kind}_{part}"
    for kind in ("text", "thinking", "toolcall")
    for part in ("start", "delta", "end")
}
COMMON = {
    *("agent_start", "agent_end", "turn_start", "turn_end", "message_start", "message_update"),
    *("message_end", "tool_execution_start", "tool_execution_end"),
}
EARLY = COMMON | {"bash_end", "error"}
OMP = COMMON | {
    *("tool_execution_update", "auto_compaction_start", "auto_compaction_end"),
    *("auto_retry_start", "auto_retry_end", "extension_error"),
}


async def _work(stage: Stage, client: Client) -> None:
    first = think("I should look."), "Looking around.", bash(SLOW, "slow")
    reading = call("read", {"path": "notes.txt"}, "cut"), call("read", {"path": "none"}, "bad")
    stage.server.add(answer(*first, size=4), answer("All done."))
    stage.server.add(answer(bash("seq 1 3000", "long"), *reading), CUT)
    stage.server.add(Failure(status=400), answer(say("Half", Gate())))
    await begin(stage, client, "run", "Go")
    if stage.dialect != "pi-early":  # which says nothing of a tool before its end
        await client.wait_for(lambda r: "one" in str(r.get("partialResult", "")))
    (stage.work / "go").touch()
    await client.wait_for(stage.end)
    await ask(stage, client, "tools")
    await ask(stage, client, "doomed")
    await begin(stage, client, "stopped", "Wait")
    await client.wait_for(is_piece)
    await do(stage, client, "abort")
    await client.wait_for(stage.end)


async def _events(stage: Stage) -> None:
    stage.lay("work/notes.txt", "a line\n" * 3_000)
    if stage.dialect == "omp":
        stage.settings(compaction={"keepRecentTokens": 50, "reserveTokens": 1_000})
        stage.lay(asking.PLACE, asking.SOURCE)
    async with stage.client() as client:
        await _work(stage, client)
        if stage.dialect == "omp":
            stage.server.add(Failure(status=529), answer("Now it works."))
            stage.server.add(answer("Full.", tokens=Tokens(input=199_500)), answer("A summary."))
            await ask(stage, client, "retried")
            await ask(stage, client, "full", "full " * 100)
        if stage.dialect == "pi-early":
            await client.send("bash", command="true")
            await client.wait_for("bash_end")
            await client.process.write(b"nonsense\n")
            await client.wait_for("error")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _events)


@pytest.fixture(scope="module")
def run(story: Story) -> list[Record]:
    return story.run("run")


def _names(run: list[Record]) -> list[str]:
    """The events of a run, without what an extension says of them."""
    other = ("response", "extension_error", "prompt_result")
    return [name for name in types(run) if not name.startswith(other)]


def _first_answer(run: list[Record]) -> list[Record]:
    """What was told of the first answer, from its start to its end."""
    names = types(run)
    end = names.index("message_end assistant")
    return run[names.index("message_start assistant") : end + 1]


def _deltas(run: list[Record], kind: str = "") -> list[Record]:
    updates = only(_first_answer(run), "message_update")
    events = [update["assistantMessageEvent"] for update in updates]
    return [one for one in events if one["type"].startswith(kind)]


def _ends(run: list[Record]) -> list[Any]:
    return [one["message"] for one in only(run, "message_end")]


# ---------------------------------------------------------------- agent, turns, messages


@proves("RPC4-overview-03", "RPC4-events-01", "RPC3-events-01", "RPC3-steps-03")
@proves("RPC0-event-02", "RPC0-event-03", "RPC0-event-04", "RPC0-event-05")
@proves("RPC1-session-01")
def test_a_run_is_told_event_by_event_while_it_goes_on(story: Story, run: list[Record]) -> None:
    steps = [name for name in _names(run) if name not in KINDS]
    progress = [name for name in steps if not name.startswith("tool_execution_update")]
    assert progress == [
        *("agent_start", "turn_start", "message_start user", "message_end user"),
        *("message_start assistant", "message_end assistant"),
        *("tool_execution_start slow", "tool_execution_end slow"),
        *("message_start toolResult", "message_end toolResult", "turn_end"),
        *("turn_start", "message_start assistant", "message_end assistant", "turn_end"),
        *(("agent_end", "agent_settled") if story.stage.dialect in PI else ("agent_end",)),
    ]
    assert ("tool_execution_update slow" in steps) is (story.stage.dialect != "pi-early")
    kinds = [name for name in _names(run) if name in KINDS]
    assert kinds.index("text_delta") < kinds.index("toolcall_start") < kinds.index("toolcall_end")


@proves("RPC4-events-02")
@proves("RPC2-events-01", "RPC2-events-02", "RPC2-events-03")
@proves("RPC1-output-01", "RPC1-output-02")
def test_events_are_of_the_listed_types_and_carry_no_id(story: Story) -> None:
    told = {one["type"] for one in story.events()}
    if story.stage.dialect == "omp":
        assert told >= OMP | {"ready", "available_commands_update", "prompt_result"}
        told = OMP
    elif story.stage.dialect == "pi-early":
        assert told == {one["type"] for one in story.records} == EARLY
    assert not [one["type"] for one in story.events() if one["type"] in told and "id" in one]


@proves("RPC4-agent-01", "RPC4-agent-02", "RPC3-overview-05")
@proves("RPC2-agent-01", "RPC2-agent-02")
@proves("RPC1-agent-01", "RPC1-agent-02", "RPC1-turn-01")
def test_a_prompt_is_worked_on_between_its_start_and_its_end(story: Story) -> None:
    for name in RUNS:
        names = _names(story.run(name))
        assert names[:2] == ["agent_start", "turn_start"]
        end = names.index("agent_end")
        assert (
            names[end - 1 :] == ["turn_end", "agent_end", "agent_settled"][: len(names) - end + 1]
        )
        assert names.count("agent_start") == names.count("agent_end") == 1
    starts = [one for one in story.events() if one["type"] in ("agent_start", "turn_start")]
    assert story.stage.dialect != "pi-early" or all(one.keys() == {"type"} for one in starts)


@proves("RPC2-agent-01", "RPC2-agent-02")
def test_a_prompt_has_one_end_though_it_may_begin_again(story: Story) -> None:
    names = types(story.run("retried"))
    assert (names.count("agent_start"), names.count("agent_end")) == (2, 1)
    assert [one["role"] for one in story.run("retried")[-1]["messages"]] == ["assistant"]


def _name(message: Any) -> tuple[str, Any]:
    """What identifies a message of a run; the time of a result is that of its event."""
    return message["role"], message.get("toolCallId", message["timestamp"])


@proves("RPC4-agent-03")
@proves("RPC2-agent-03")
@proves("RPC1-agent-03", "RPC1-app-01")
def test_agent_end_holds_the_messages_of_this_run_and_no_others(story: Story) -> None:
    for name in RUNS:
        (end,) = only(story.run(name), "agent_end")
        told = _ends(story.run(name))
        if story.stage.dialect == "omp":  # whose events have other fields
            assert list(map(_name, end["messages"])) == list(map(_name, told))
            assert end["isTerminal"] is True
        else:
            assert end["messages"] == told
            assert end.keys() >= {"type", "messages"}
    roles = [{one["role"] for one in _ends(story.run(name))} for name in RUNS]
    assert roles == [*[{"user", "assistant", "toolResult"}] * 2, *[{"user", "assistant"}] * 2]


@proves("RPC4-turn-01", "RPC4-turn-02", "RPC4-turn-03", "RPC4-turn-04")
@proves("RPC2-turn-01", "RPC2-turn-02")
@proves("RPC1-turn-02", "RPC1-turn-03", "RPC1-turn-04", "RPC1-turn-05")
@proves("RPC1-session-03", "RPC1-session-04")
def test_a_turn_is_an_answer_with_the_results_of_its_calls(story: Story, run: list[Record]) -> None:
    assert types(run).count("turn_start") == types(run).count("turn_end") == 2
    first, last = only(run, "turn_end")
    assert [text_of(one["message"]) for one in (first, last)] == ["Looking around.", "All done."]
    assert [one["message"]["stopReason"] for one in (first, last)] == ["toolUse", "stop"]
    assert [one["toolCallId"] for one in first["toolResults"]] == ["slow"]
    assert last["toolResults"] == []
    if story.stage.dialect != "omp":
        ends = _ends(run)
        assert [first["message"], last["message"]] == [m for m in ends if m["role"] == "assistant"]
        assert first["toolResults"] == [m for m in ends if m["role"] == "toolResult"]
    assert "message_start user" not in types(run)[types(run).index("turn_end") :]


@proves("RPC4-message-01", "RPC4-message-02", "RPC4-message-03")
@proves("RPC2-message-01", "RPC2-message-02")
@proves("RPC1-message-01", "RPC1-message-02", "RPC1-message-03")
def test_every_message_has_its_start_and_its_end(story: Story) -> None:
    starts, ends = only(story.records, "message_start"), only(story.records, "message_end")
    roles = [one["message"]["role"] for one in starts]
    assert roles == [one["message"]["role"] for one in ends]
    assert set(roles) == {"user", "assistant", "toolResult"}
    for start, end in zip(starts, ends, strict=True):
        assert start["message"]["timestamp"] == end["message"]["timestamp"]


# ---------------------------------------------------------------- deltas


@proves("RPC4-update-01", "RPC3-events-02")
@proves("RPC2-update-01")
@proves("RPC1-update-01")
@proves("RPC0-event-12")
def test_an_answer_arrives_in_updates(run: list[Record]) -> None:
    assert {delta["type"] for delta in _deltas(run)} == KINDS


@proves("RPC4-update-02")
@proves("RPC1-session-02")
def test_an_answer_begins_empty(story: Story, run: list[Record]) -> None:
    start = _first_answer(run)[0]["message"]
    assert (start["role"], start["content"]) == ("assistant", [])
    assert start["stopReason"] == "stop" or story.stage.dialect == "pi-delta"
    usage = start["usage"]
    assert {usage[name] for name in ("input", "output", "cacheRead", "cacheWrite")} == {0}
    assert set(usage["cost"].values()) == {0}


def _pieces(run: list[Record], kind: str) -> tuple[list[str], Record]:
    """The pieces of a block between its start and its end, and its end."""
    start, *pieces, end = _deltas(run, kind)
    assert (start["type"], end["type"]) == (f"{kind}_start", f"{kind}_end")
    assert {one["type"] for one in pieces} == {f"{kind}_delta"}
    assert len(pieces) > 1
    return [piece["delta"] for piece in pieces], end


@proves("RPC4-update-03", "RPC4-update-04", "RPC4-update-05")
@proves("RPC2-update-04", "RPC2-update-05", "RPC2-update-06", "RPC2-update-11")
@proves("RPC1-update-04", "RPC1-stream-02", "RPC1-stream-03", "RPC1-stream-06")
@proves("RPC0-event-12")
def test_text_comes_in_pieces_and_then_whole(run: list[Record]) -> None:
    pieces, end = _pieces(run, "text")
    assert "".join(pieces) == end["content"] == "Looking around."


@proves("RPC4-update-06", "RPC4-update-07", "RPC4-update-08")
@proves("RPC2-update-04", "RPC2-update-05", "RPC2-update-06")
@proves("RPC1-update-05", "RPC1-stream-02", "RPC1-stream-04", "RPC1-stream-07")
@proves("RPC0-event-12")
def test_thinking_comes_in_pieces(story: Story, run: list[Record]) -> None:
    pieces, end = _pieces(run, "thinking")
    assert "".join(pieces) == "I should look."
    assert story.stage.dialect != "pi-early" or end["content"] == "I should look."


@proves("RPC4-update-09", "RPC4-update-10", "RPC4-update-11")
@proves("RPC2-update-04", "RPC2-update-05", "RPC2-update-06", "RPC2-update-07")
@proves("RPC1-update-06", "RPC1-stream-05", "RPC1-stream-06", "RPC1-stream-07")
@proves("RPC0-event-12")
def test_a_call_comes_in_pieces_and_then_whole(story: Story, run: list[Record]) -> None:
    pieces, end = _pieces(run, "toolcall")
    assert "".join(pieces) == f'{{"command":"{SLOW}"}}'
    wanted = {"type": "toolCall", "id": "slow", "name": "bash", "arguments": {"command": SLOW}}
    assert {key: end["toolCall"][key] for key in wanted} == wanted
    more = {"partialArgs", "streamIndex"} if story.stage.dialect in ("omp", "xcsh") else set()
    assert end["toolCall"].keys() == wanted.keys() | more


@proves("RPC4-update-12")
@proves("RPC2-update-10")
@proves("RPC1-update-04", "RPC1-update-05", "RPC1-update-06", "RPC1-stream-05")
def test_pieces_name_the_block_they_belong_to(story: Story, run: list[Record]) -> None:
    places = {"thinking": 0, "text": 1, "toolcall": 2}
    for delta in _deltas(run):
        assert delta["contentIndex"] == places[delta["type"].partition("_")[0]]
        if story.stage.dialect == "pi-early" and delta["type"].endswith("_delta"):
            assert delta.keys() == {"type", "contentIndex", "delta", "partial"}
    kinds = [block["type"] for block in _first_answer(run)[-1]["message"]["content"]]
    assert kinds == ["thinking", "text", "toolCall"]


@proves("RPC4-update-13", "RPC4-update-14")
@proves("RPC2-update-03", "RPC2-update-08", "RPC2-update-09")
@proves("RPC1-stream-01", "RPC1-stream-09", "RPC1-stream-10", "RPC1-stop-01", "RPC1-error-03")
def test_how_an_answer_ends_is_told_by_its_message(story: Story) -> None:
    answers = [[m for m in _ends(story.run(name)) if m["role"] == "assistant"] for name in RUNS]
    reasons = [[one["stopReason"] for one in each] for each in answers]
    assert reasons == [["toolUse", "stop"], ["toolUse", "length"], ["error"], ["aborted"]]
    assert answers[2][0]["errorMessage"]
    assert not only(story.run("doomed"), "error")
    assert story.stage.dialect in PI or not {"start", "done", "error"} & set(
        types(story.run("run"))
    )


@proves("RPC4-update-15", "RPC4-update-16")
@proves("RPC2-update-01", "RPC2-update-02")
@proves("RPC1-update-01", "RPC1-update-02", "RPC1-update-03", "RPC1-stream-08")
@proves("RPC0-event-12")
def test_each_update_holds_the_message_so_far(story: Story, run: list[Record]) -> None:
    text, more = "", {"pi": {"usage"}, "omp": {"messageId"}}.get(story.stage.dialect, set())
    for update in only(_first_answer(run), "message_update"):
        assert update.keys() == {"type", "message", "assistantMessageEvent"} | more
        delta = update["assistantMessageEvent"]
        if delta["type"] == "text_delta":
            text += delta["delta"]
        assert update["message"]["role"] == "assistant"
        assert update["message"] == delta["partial"]
        assert text_of(update["message"]) == text
    assert text == "Looking around."


# ---------------------------------------------------------------- tools


def _result(run: list[Record], call_id: str) -> Any:
    (end,) = [one for one in only(run, "tool_execution_end") if one["toolCallId"] == call_id]
    return end["result"]


@proves("RPC4-tool-01", "RPC4-tool-02")
@proves("RPC2-tool-01")
@proves("RPC1-tool-01", "RPC1-tool-02")
def test_the_start_of_a_tool_tells_its_call(run: list[Record]) -> None:
    (start,) = only(run, "tool_execution_start")
    assert start == {
        **{"type": "tool_execution_start", "toolCallId": "slow", "toolName": "bash"},
        "args": {"command": SLOW},
    }


@proves("RPC4-tool-03", "RPC4-tool-04", "RPC4-tool-05", "RPC4-tool-06")
@proves("RPC2-tool-02", "RPC2-tool-03", "RPC2-tool-07")
def test_output_is_told_while_the_tool_runs_and_all_of_it_so_far(run: list[Record]) -> None:
    updates = only(run, "tool_execution_update")
    for update in updates:
        assert update.keys() == {"type", "toolCallId", "toolName", "args", "partialResult"}
        assert (update["toolCallId"], update["toolName"]) == ("slow", "bash")
        assert update["args"] == {"command": SLOW}
        assert isinstance(update["partialResult"]["content"], list)
    shown = [one["partialResult"] for one in updates if one["partialResult"]["content"]]
    assert all(isinstance(one["details"], dict) for one in shown)
    texts = [text_of(one["partialResult"]) for one in updates]
    assert "one\n" in texts
    assert texts[-1] == "one\ntwo\n"
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))


@proves("RPC4-tool-07")
def test_a_cut_output_says_where_all_of_it_is(story: Story) -> None:
    updates = only(story.run("tools"), "tool_execution_update")
    details = updates[-1]["partialResult"]["details"]
    assert details["truncation"]["truncated"] is True
    assert details["truncation"]["totalLines"] == 3000
    assert isinstance(details["fullOutputPath"], str)


@proves("RPC4-tool-08", "RPC4-tool-09", "RPC4-tool-10", "RPC4-tool-11")
@proves("RPC2-tool-04", "RPC2-tool-05")
@proves("RPC1-tool-03", "RPC1-tool-04", "RPC1-tool-05", "RPC1-tool-result-01")
def test_the_end_of_a_tool_tells_its_result(story: Story) -> None:
    (end,) = only(story.run("run"), "tool_execution_end")
    keys = {"type", "toolCallId", "toolName", "result", "isError"}
    assert end.keys() == keys if story.stage.dialect != "omp" else end.keys() >= keys
    assert (end["toolCallId"], end["toolName"], end["isError"]) == ("slow", "bash", False)
    text = text_of(end["result"])
    assert (text.startswith("one\ntwo\n") and "Wall time: " in text) or text == "one\ntwo\n"
    assert ("Wall time: " in text) is (story.stage.dialect == "omp")
    ends = {one["toolCallId"]: one for one in only(story.run("tools"), "tool_execution_end")}
    assert [ends[name]["isError"] for name in ("long", "cut", "bad")] == [False, False, True]


@proves("RPC4-tool-09", "RPC4-tool-10")
@proves("RPC2-tool-05")
@proves("RPC1-tool-05", "RPC1-tool-06", "RPC1-tool-result-02")
def test_a_result_has_details_where_there_are_any_and_a_failure_a_text(story: Story) -> None:
    tools, dialect = story.run("tools"), story.stage.dialect
    assert "truncation" in _result(tools, "cut")["details"]
    if dialect in PI:
        assert _result(tools, "long")["details"].keys() >= {"truncation", "fullOutputPath"}
    if dialect == "omp":
        assert isinstance(_result(story.run("run"), "slow")["details"], dict)
    elif dialect == "pi-early":
        assert _result(story.run("run"), "slow").get("details") in (None, {})
    bad = _result(tools, "bad")
    assert "none" in (bad if dialect == "pi-early" else text_of(bad))


@proves("RPC4-tool-12")
@proves("RPC2-tool-06")
@proves("RPC1-tool-01", "RPC1-correlation-05")
def test_the_events_of_a_call_have_its_id(story: Story) -> None:
    run = story.run("tools")
    turn = only(run, "turn_end")[0]
    ids = [block["id"] for block in turn["message"]["content"] if block["type"] == "toolCall"]
    assert ids == ["long", "cut", "bad"]
    assert sorted(one["toolCallId"] for one in turn["toolResults"]) == sorted(ids)
    for kind in ("tool_execution_start", "tool_execution_end"):
        assert sorted(one["toolCallId"] for one in only(run, kind)) == sorted(ids)
    updated = {one["toolCallId"] for one in only(run, "tool_execution_update")}
    assert updated == (set() if story.stage.dialect == "pi-early" else {"long"})


@proves("RPC1-correlation-01", "RPC1-correlation-02")
@pytest.mark.parametrize("call_id", ["long", "cut", "bad"])
def test_answer_start_end_and_result_come_in_this_order(story: Story, call_id: str) -> None:
    run = story.run("tools")
    names = types(run)
    told = [one.get("message", {}).get("toolCallId") for one in run]
    order = [
        names.index("message_end assistant"),
        names.index(f"tool_execution_start {call_id}"),
        names.index(f"tool_execution_end {call_id}"),
        len(told) - 1 - told[::-1].index(call_id),
    ]
    assert order == sorted(order)
    assert names[order[-1]] == "message_end toolResult"


@proves("RPC1-correlation-03", "RPC1-correlation-04")
def test_a_host_shows_calls_from_their_starts_and_ends(story: Story) -> None:
    pending: dict[str, Any] = {}
    shown: dict[str, str] = {}
    for event in story.run("tools"):
        if event["type"] == "tool_execution_start":
            pending[event["toolCallId"]] = event
        elif event["type"] == "tool_execution_end":
            start, result = pending.pop(event["toolCallId"]), event["result"]
            text = result if isinstance(result, str) else text_of(result)
            asked = start["args"].get("command", start["args"].get("path"))
            shown[event["toolCallId"]] = f"{start['toolName']} {asked}: {text}"
    assert pending == {}
    assert shown["long"].startswith("bash seq 1 3000: ")
    assert shown["cut"].startswith("read notes.txt: a line\n")
    assert shown["bad"].startswith("read none: ENOENT")


@proves("RPC2-extension-error-01", "RPC2-extension-error-02")
def test_a_failure_of_an_extension_is_told(story: Story) -> None:
    assert story.events("extension_error")[0] == {
        **{"type": "extension_error", "event": "turn_start", "error": "no turn"},
        "extensionPath": str(story.stage.root / asking.PLACE),
    }
