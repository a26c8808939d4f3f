"""oh-my-pi: the events of a run: agent, turns, messages, pieces, tools."""

from itertools import pairwise

import pytest

from ludolf.client import Record
from tests.conformance import asking
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, is_piece, tell
from tests.process.harness import only, text_of, types
from tests.process.script import Failure, Gate, Tokens, answer, bash, call, say, think

# The second line is written only when the test has seen the first.
SLOW = "echo one; until test -e go; do sleep 0.01; done; echo two"
CUT = answer("Too lo", stop="length", tokens=Tokens(output=8_000))
TYPES = {
    *("agent_start", "agent_end", "turn_start", "turn_end", "message_start", "message_update"),
    *("message_end", "tool_execution_start", "tool_execution_update", "tool_execution_end"),
    *("auto_compaction_start", "auto_compaction_end", "auto_retry_start", "auto_retry_end"),
    "extension_error",
}


async def _events(stage: Stage) -> None:
    stage.settings(compaction={"keepRecentTokens": 50, "reserveTokens": 1_000})
    stage.lay(asking.PLACE, asking.SOURCE)
    first = think("I should look."), "Looking around.", bash(SLOW, "slow")
    stage.server.add(answer(*first, size=4), answer("All done."))
    stage.server.add(answer(call("read", {"path": "none"}, "bad")), CUT)
    stage.server.add(Failure(status=529), answer("Now it works."), answer(say("Half", Gate())))
    stage.server.add(Failure(status=400), answer("Full.", tokens=Tokens(input=199_500)))
    stage.server.add(answer("A summary."))
    async with stage.client() as client:
        await client.request("prompt", id="run", message="Go")
        await client.wait_for(lambda one: "one" in str(one.get("partialResult", "")))
        (stage.work / "go").touch()
        await client.wait_for("agent_end")
        for name in ("tools", "retried"):
            await client.request("prompt", id=name, message=name)
            await client.wait_for("agent_end")
        await client.request("prompt", id="stopped", message="Wait")
        await client.wait_for(is_piece)
        await client.request("abort")
        await client.wait_for("agent_end")
        for name in ("failed", "full " * 100):
            await client.request("prompt", id=name.split()[0], message=name)
            await client.wait_for("agent_end")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _events)


@pytest.fixture(scope="module")
def run(story: Story) -> list[Record]:
    return story.run("run")


def _pieces(run: list[Record], kind: str = "") -> list[Record]:
    events = [one["assistantMessageEvent"] for one in only(run, "message_update")]
    return [one for one in events if one["type"] == kind or not kind]


@proves("RPC2-events-01", "RPC2-events-02", "RPC2-events-03")
def test_all_listed_events_are_told_without_an_id(story: Story) -> None:
    told = {one["type"] for one in story.events()}
    assert told >= TYPES
    assert told >= {"ready", "available_commands_update", "prompt_result"}
    listed = [one for one in story.events() if one["type"] in TYPES]
    assert not [one["type"] for one in listed if "id" in one]


@proves("RPC2-agent-01", "RPC2-agent-02")
def test_a_prompt_has_one_end_though_it_may_begin_again(story: Story) -> None:
    for name, starts in (("run", 1), ("tools", 1), ("retried", 2), ("stopped", 1), ("failed", 1)):
        names = [one for one in types(story.run(name)) if not one.startswith("response")]
        assert names[0] == "agent_start"
        assert (names.count("agent_start"), names.count("agent_end")) == (starts, 1)


@proves("RPC2-agent-03")
def test_the_end_holds_the_messages_of_the_run(story: Story) -> None:
    for name in ("run", "tools", "stopped", "failed"):
        run = story.run(name)
        ends = [one["message"] for one in only(run, "message_end")]
        assert [one["timestamp"] for one in run[-1]["messages"]] == [
            one["timestamp"] for one in ends
        ]
        assert run[-1]["isTerminal"] is True
    assert [one["role"] for one in story.run("retried")[-1]["messages"]] == ["assistant"]


@proves("RPC2-turn-01", "RPC2-turn-02")
def test_a_turn_is_an_answer_with_its_results(run: list[Record]) -> None:
    assert types(run).count("turn_start") == types(run).count("turn_end") == 2
    first, last = only(run, "turn_end")
    assert text_of(first["message"]) == "Looking around."
    assert [one["toolCallId"] for one in first["toolResults"]] == ["slow"]
    assert (text_of(last["message"]), last["toolResults"]) == ("All done.", [])


@proves("RPC2-message-01", "RPC2-message-02")
def test_every_message_begins_and_ends(story: Story) -> None:
    starts = [one["message"]["role"] for one in only(story.records, "message_start")]
    ends = [one["message"]["role"] for one in only(story.records, "message_end")]
    assert starts == ends
    assert set(ends) == {"user", "assistant", "toolResult"}


# ---------------------------------------------------------------- pieces of an answer


@proves("RPC2-update-01", "RPC2-update-02")
def test_each_piece_comes_with_the_answer_so_far(run: list[Record]) -> None:
    for update in only(run, "message_update"):
        assert update.keys() >= {"type", "message", "assistantMessageEvent"}
        assert update["assistantMessageEvent"]["partial"] == update["message"]
        assert update["message"]["role"] == "assistant"


@proves("RPC2-update-03", "RPC2-update-08", "RPC2-update-09")
def test_beginning_and_end_of_an_answer_are_told_by_its_message(story: Story) -> None:
    kinds = {one["type"] for one in _pieces(story.records)}
    assert not kinds & {"start", "done", "error"}
    names = ("run", "tools", "stopped", "failed")
    ends = [one["message"] for name in names for one in only(story.run(name), "message_end")]
    reasons = [one["stopReason"] for one in ends if one["role"] == "assistant"]
    assert reasons == ["toolUse", "stop", "toolUse", "length", "aborted", "error"]


@proves("RPC2-update-04", "RPC2-update-05", "RPC2-update-06", "RPC2-update-10")
def test_blocks_are_told_by_start_pieces_and_end(run: list[Record]) -> None:
    first = _pieces(run)[: [one["type"] for one in _pieces(run)].index("toolcall_end") + 1]
    said: dict[int, str] = {}
    for one in first:
        if one["type"].endswith("_delta"):
            said[one["contentIndex"]] = said.get(one["contentIndex"], "") + one["delta"]
    assert (said[0], said[1]) == ("I should look.", "Looking around.")
    assert said[2].startswith('{"command":')
    steps = [one["type"] for one in first if not one["type"].endswith("_delta")]
    assert steps == [
        *("thinking_start", "thinking_end", "text_start", "text_end"),
        *("toolcall_start", "toolcall_end"),
    ]


@proves("RPC2-update-07")
def test_the_end_of_a_call_holds_it_whole(run: list[Record]) -> None:
    (end,) = _pieces(run, "toolcall_end")
    called = end["toolCall"]
    assert [called[key] for key in ("type", "id", "name")] == ["toolCall", "slow", "bash"]
    assert called["arguments"] == {"command": SLOW}


@proves("RPC2-update-11")
def test_a_text_is_told_as_shown(run: list[Record]) -> None:
    kinds = [one["type"] for one in _pieces(run)]
    start = kinds.index("text_start")
    end = kinds.index("text_end")
    assert set(kinds[start + 1 : end]) == {"text_delta"}
    assert [one["content"] for one in _pieces(run, "text_end")] == ["Looking around.", "All done."]


# ---------------------------------------------------------------- tools


@proves("RPC2-tool-01", "RPC2-tool-04", "RPC2-tool-06")
def test_a_tool_is_told_from_start_to_end_under_one_id(run: list[Record]) -> None:
    (start,), (end,) = only(run, "tool_execution_start"), only(run, "tool_execution_end")
    called = {"toolCallId": "slow", "toolName": "bash"}
    assert start == {"type": "tool_execution_start", **called, "args": {"command": SLOW}}
    assert end.keys() >= {"type", "toolCallId", "toolName", "result", "isError"}
    assert end.items() >= {**called, "isError": False}.items()
    ids = {one["toolCallId"] for one in run if one["type"].startswith("tool_execution")}
    assert ids == {"slow"}


@proves("RPC2-tool-02", "RPC2-tool-03", "RPC2-tool-07")
def test_output_is_told_as_it_grows(run: list[Record]) -> None:
    updates = only(run, "tool_execution_update")
    for one in updates:
        assert one.keys() == {"type", "toolCallId", "toolName", "args", "partialResult"}
        assert one["partialResult"].keys() >= {"content", "details"}
    texts = [text_of(one["partialResult"]) for one in updates]
    assert "one\n" in texts
    assert all(later.startswith(earlier) for earlier, later in pairwise(texts))


@proves("RPC2-tool-05")
def test_a_result_has_content_and_details(story: Story, run: list[Record]) -> None:
    result = only(run, "tool_execution_end")[0]["result"]
    assert text_of(result).startswith("one\ntwo\n")
    assert "Wall time: " in text_of(result)
    assert isinstance(result["details"], dict)
    (bad,) = only(story.run("tools"), "tool_execution_end")
    assert bad["isError"] is True
    assert "none" in text_of(bad["result"])


@proves("RPC2-extension-error-01", "RPC2-extension-error-02")
def test_a_failure_of_an_extension_is_told(story: Story) -> None:
    assert story.events("extension_error")[0] == {
        **{"type": "extension_error", "event": "turn_start", "error": "no turn"},
        "extensionPath": str(story.stage.root / asking.PLACE),
    }
