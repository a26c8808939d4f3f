"""Early pi: the events of a run, piece by piece, and how calls are found again."""

from typing import Any

import pytest

from ludolf.client import Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, is_piece, tell
from tests.process.harness import only, text_of, types
from tests.process.script import Failure, Gate, Tokens, answer, bash, call, say, think

TYPES = {
    *("agent_start", "agent_end", "turn_start", "turn_end", "message_start", "message_update"),
    *("message_end", "tool_execution_start", "tool_execution_end", "compaction", "bash_end"),
    "error",
}


async def _run(stage: Stage) -> None:
    """A prompt with two calls, one that is cut, one that fails, one that is stopped, a shell."""
    stage.settings(retry={"enabled": False})
    stage.lay("work/notes.txt", "a line\n" * 3_000)
    first = think("I should look."), "Looking.", bash("echo out", "c1")
    reading = call("read", {"path": "notes.txt"}, "c2"), call("read", {"path": "none"}, "c3")
    stage.server.add(answer(*first, *reading, size=4), answer("Done."))
    stage.server.add(answer("Too lo", stop="length", tokens=Tokens(output=8_000)))
    stage.server.add(Failure(status=400), answer(say("Half", Gate())))
    async with stage.client() as client:
        for text in ("Go", "Tell all", "Fail"):
            await client.send("prompt", message=text)
            await client.wait_for("agent_end")
        await client.send("prompt", message="Wait")
        await client.wait_for(is_piece)
        await client.send("abort")
        await client.wait_for("agent_end")
        await client.send("bash", command="true")
        await client.wait_for("bash_end")
        await client.process.write(b"nonsense\n")
        await client.wait_for("error")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _run)


@pytest.fixture(scope="module")
def runs(story: Story) -> list[list[Record]]:
    """What was told of each prompt, from its start to its end."""
    names = types(story.records)
    starts = [place for place, name in enumerate(names) if name == "agent_start"]
    ends = [place for place, name in enumerate(names) if name == "agent_end"]
    return [story.records[a : b + 1] for a, b in zip(starts, ends, strict=True)]


@pytest.fixture(scope="module")
def run(runs: list[list[Record]]) -> list[Record]:
    return runs[0]


def _ends(run: list[Record]) -> list[Any]:
    return [one["message"] for one in only(run, "message_end")]


def _pieces(run: list[Record], kind: str) -> list[Any]:
    events = [one["assistantMessageEvent"] for one in only(run, "message_update")]
    return [one for one in events if one["type"] == kind]


# ---------------------------------------------------------------- records


@proves("RPC1-output-01", "RPC1-output-02")
def test_all_that_is_said_are_events_of_the_listed_types(story: Story) -> None:
    assert all(isinstance(one, dict) for one in story.records)
    seen = {one["type"] for one in story.records}
    assert seen == TYPES - {"compaction"}


@proves("RPC1-agent-01", "RPC1-agent-02", "RPC1-turn-01")
def test_a_prompt_begins_with_bare_starts_and_ends_once(runs: list[list[Record]]) -> None:
    assert len(runs) == 4
    for run in runs:
        assert run[:2] == [{"type": "agent_start"}, {"type": "turn_start"}]
        assert run[-1].keys() == {"type", "messages"}
        assert types(run)[-2:] == ["turn_end", "agent_end"]


@proves("RPC1-agent-03", "RPC1-app-01")
def test_the_end_holds_the_messages_of_its_prompt(runs: list[list[Record]]) -> None:
    for run in runs:
        assert run[-1]["messages"] == _ends(run)
    roles = [{one["role"] for one in _ends(run)} for run in runs]
    assert roles == [{"user", "assistant", "toolResult"}, *[{"user", "assistant"}] * 3]


@proves("RPC1-turn-02", "RPC1-turn-03", "RPC1-turn-04", "RPC1-turn-05")
def test_a_turn_is_an_answer_with_its_results(run: list[Record]) -> None:
    assert types(run).count("turn_start") == types(run).count("turn_end") == 2
    first, last = only(run, "turn_end")
    answers = [one for one in _ends(run) if one["role"] == "assistant"]
    assert [first["message"], last["message"]] == answers
    assert first["toolResults"] == [one for one in _ends(run) if one["role"] == "toolResult"]
    assert (len(first["toolResults"]), last["toolResults"]) == (3, [])
    second = types(run)[types(run).index("turn_end") :]
    assert "message_start user" not in second


@proves("RPC1-message-01", "RPC1-message-02", "RPC1-message-03")
def test_every_message_begins_and_ends(run: list[Record]) -> None:
    starts = [one["message"]["role"] for one in only(run, "message_start")]
    assert starts == [one["role"] for one in _ends(run)]
    assert set(starts) == {"user", "assistant", "toolResult"}


# ---------------------------------------------------------------- pieces of an answer


@proves("RPC1-update-01", "RPC1-update-02", "RPC1-update-03", "RPC1-stream-08")
def test_each_piece_comes_with_the_answer_so_far(run: list[Record]) -> None:
    updates = only(run, "message_update")
    for update in updates:
        assert update.keys() == {"type", "message", "assistantMessageEvent"}
        assert update["assistantMessageEvent"]["partial"] == update["message"]
    sizes = [len(str(one["message"]["content"])) for one in updates if _is_first(one, run)]
    assert sizes == sorted(sizes)


def _is_first(update: Record, run: list[Record]) -> bool:
    first = next(one for one in _ends(run) if one["role"] == "assistant")
    return bool(update["message"]["timestamp"] == first["timestamp"])


@proves("RPC1-update-04", "RPC1-update-05", "RPC1-update-06", "RPC1-stream-05")
def test_deltas_have_their_place_and_their_piece(run: list[Record]) -> None:
    said = {0: "", 1: "", 2: "", 3: "", 4: ""}
    kinds = ("thinking_delta", "text_delta", "toolcall_delta")
    for kind in kinds:
        for one in _pieces(run, kind):
            assert one.keys() == {"type", "contentIndex", "delta", "partial"}
            if one["partial"]["content"][0]["type"] == "thinking":
                said[one["contentIndex"]] += one["delta"]
    assert (said[0], said[1]) == ("I should look.", "Looking.")
    assert said[2].replace(" ", "") == '{"command":"echoout"}'


@proves("RPC1-stream-02", "RPC1-stream-03", "RPC1-stream-04", "RPC1-stream-06", "RPC1-stream-07")
def test_blocks_begin_and_end_with_all_they_hold(run: list[Record]) -> None:
    counts = {
        kind: [len(_pieces(run, f"{kind}_{part}")) for part in ("start", "end")]
        for kind in ("text", "thinking", "toolcall")
    }
    assert counts == {"text": [2, 2], "thinking": [1, 1], "toolcall": [3, 3]}
    assert [one["content"] for one in _pieces(run, "text_end")] == ["Looking.", "Done."]
    assert [one["content"] for one in _pieces(run, "thinking_end")] == ["I should look."]
    calls = [one["toolCall"] for one in _pieces(run, "toolcall_end")]
    assert calls == _calls(run)


def _calls(run: list[Record]) -> list[Any]:
    blocks = [block for one in _ends(run) for block in one["content"]]
    return [block for block in blocks if block["type"] == "toolCall"]


@proves("RPC1-stream-01", "RPC1-stream-09", "RPC1-stream-10", "RPC1-stop-01")
def test_how_an_answer_begins_and_ends_is_told_by_its_message(runs: list[list[Record]]) -> None:
    answers = [[one for one in _ends(run) if one["role"] == "assistant"] for run in runs]
    reasons = [[one["stopReason"] for one in each] for each in answers]
    assert reasons == [["toolUse", "stop"], ["length"], ["error"], ["aborted"]]
    for run in runs:
        kinds = {one["assistantMessageEvent"]["type"] for one in only(run, "message_update")}
        assert not kinds & {"start", "done", "error"}
        starts = types(run).count("message_start assistant")
        assert starts == types(run).count("message_end assistant")


@proves("RPC1-error-03")
def test_a_model_that_fails_is_an_answer_and_no_error(runs: list[list[Record]]) -> None:
    failed = runs[2][-1]["messages"][-1]
    assert (failed["stopReason"], bool(failed["errorMessage"])) == ("error", True)
    assert not only(runs[2], "error")


# ---------------------------------------------------------------- tools


@proves("RPC1-tool-01", "RPC1-tool-02", "RPC1-tool-03", "RPC1-tool-04")
def test_tools_are_told_by_a_start_and_an_end(run: list[Record]) -> None:
    starts, ends = only(run, "tool_execution_start"), only(run, "tool_execution_end")
    assert {one["toolCallId"] for one in starts} == {one["toolCallId"] for one in ends}
    for start in starts:
        assert start.keys() == {"type", "toolCallId", "toolName", "args"}
    for end in ends:
        assert end.keys() == {"type", "toolCallId", "toolName", "result", "isError"}
    (shell,) = [one for one in starts if one["toolCallId"] == "c1"]
    assert (shell["toolName"], shell["args"]) == ("bash", {"command": "echo out"})


def _result(run: list[Record], call_id: str) -> Any:
    (end,) = [one for one in only(run, "tool_execution_end") if one["toolCallId"] == call_id]
    return end["result"]


@proves("RPC1-tool-05", "RPC1-tool-result-01", "RPC1-tool-result-02")
def test_a_result_has_blocks_and_details_where_there_are_any(run: list[Record]) -> None:
    assert _result(run, "c1")["content"] == [{"type": "text", "text": "out\n"}]
    assert _result(run, "c1").get("details") in (None, {})
    assert "truncation" in _result(run, "c2")["details"]


@proves("RPC1-tool-06")
def test_a_failed_tools_result_is_a_text(run: list[Record]) -> None:
    assert "none" in _result(run, "c3")
    failed = [
        one["isError"] for one in only(run, "tool_execution_end") if one["toolCallId"] == "c3"
    ]
    assert failed == [True]


# ---------------------------------------------------------------- calls and their results


@proves("RPC1-correlation-01", "RPC1-correlation-02")
@pytest.mark.parametrize("call_id", ["c1", "c2", "c3"])
def test_answer_start_end_and_result_come_in_this_order(run: list[Record], call_id: str) -> None:
    assert call_id in [one["id"] for one in _calls(run)]
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
def test_a_host_shows_calls_from_their_starts_and_ends(run: list[Record]) -> None:
    pending: dict[str, tuple[str, Any]] = {}
    shown: dict[str, str] = {}
    for event in run:
        if event["type"] == "tool_execution_start":
            pending[event["toolCallId"]] = (event["toolName"], event["args"])
        elif event["type"] == "tool_execution_end":
            name, args = pending.pop(event["toolCallId"])
            result = event["result"]
            text = result if isinstance(result, str) else text_of(result)
            shown[event["toolCallId"]] = _display(name, args, text)
    assert pending == {}
    assert shown["c1"] == "$ echo out\nout\n"
    assert shown["c2"].startswith("read notes.txt: a line\n")
    assert shown["c3"].startswith("read none: ENOENT")


def _display(name: str, args: Any, text: str) -> str:
    return f"$ {args['command']}\n{text}" if name == "bash" else f"{name} {args['path']}: {text}"


@proves("RPC1-correlation-05")
def test_a_host_finds_all_in_the_end_of_the_turn(run: list[Record]) -> None:
    turn = only(run, "turn_end")[0]
    calls = [one for one in turn["message"]["content"] if one["type"] == "toolCall"]
    found = {one["toolCallId"]: one for one in turn["toolResults"]}
    assert [one["id"] for one in calls] == list(found) == ["c1", "c2", "c3"]


# ---------------------------------------------------------------- the session that is shown


async def _example(stage: Stage) -> None:
    first = answer("I'll look at it.", call("bash", {"command": "ls -la"}, "call_123"), size=9)
    stage.server.add(first, answer("Here they are."))
    async with stage.client("--no-session") as client:
        await client.send("prompt", message="What files are here?")
        await client.wait_for("agent_end")


@pytest.fixture(scope="module")
def example(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _example)


@proves("RPC1-session-01")
def test_a_prompt_with_a_call_is_told_in_the_order_shown(example: Story) -> None:
    updates = ("text_", "toolcall_")
    steps = [name for name in types(example.records) if not name.startswith(updates)]
    assert steps == [
        *("agent_start", "turn_start", "message_start user", "message_end user"),
        *("message_start assistant", "message_end assistant"),
        *("tool_execution_start call_123", "tool_execution_end call_123"),
        *("message_start toolResult", "message_end toolResult", "turn_end", "turn_start"),
        *("message_start assistant", "message_end assistant", "turn_end", "agent_end"),
    ]
    kinds = [name for name in types(example.records) if name.startswith(updates)]
    assert kinds.index("text_delta") < kinds.index("toolcall_start") < kinds.index("toolcall_end")


@proves("RPC1-session-02")
def test_an_answer_begins_empty(example: Story) -> None:
    starts = [one["message"] for one in only(example.records, "message_start")]
    first = next(one for one in starts if one["role"] == "assistant")
    assert (first["content"], first["stopReason"]) == ([], "stop")
    usage = first["usage"]
    assert {usage[name] for name in ("input", "output", "cacheRead", "cacheWrite")} == {0}
    assert set(usage["cost"].values()) == {0}


@proves("RPC1-session-03", "RPC1-session-04")
def test_the_turns_end_as_shown(example: Story) -> None:
    turns = only(example.records, "turn_end")
    ended = [(one["message"]["stopReason"], len(one["toolResults"])) for one in turns]
    assert ended == [("toolUse", 1), ("stop", 0)]
    assert turns[0]["toolResults"][0]["toolCallId"] == "call_123"
