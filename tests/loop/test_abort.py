"""Abort in every state: what was there is kept, everything comes to rest, the queue stays."""

import os
from pathlib import Path

import pytest

from ludolf.agent.batch import AT_ONCE
from ludolf.ai.builtin.scripted import PlaybackBlock
from tests.loop.stage import (
    SMALL,
    Stage,
    call,
    calls,
    fails,
    say,
    stage,
    story,
    text_of,
    texts,
    used,
    words,
)

WAITING = (["steered"], ["followed"])


async def fill_queue(s: Stage) -> None:
    await s.data("steer", message="steered")
    await s.data("follow_up", message="followed")


async def abort(s: Stage) -> None:
    """Abort, and look at what must hold after every abort."""
    reply = await s.ask("abort")
    assert reply["success"]
    state = await s.data("get_state")
    assert not state["isStreaming"]
    assert not state["isCompacting"]


async def last_answer(s: Stage) -> dict[str, object]:
    messages = (await s.data("get_messages"))["messages"]
    answer: dict[str, object] = messages[-1]
    return answer


async def test_abort_while_idle_does_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        await fill_queue(s)
        await abort(s)
        assert s.queue == WAITING
        assert s.of_type("agent_settled") == []


async def test_abort_before_the_first_token_ends_with_an_empty_answer(tmp_path: Path) -> None:
    async with stage(tmp_path, say("", delay_ms=60_000)) as s:
        await s.data("prompt", message="go")
        await s.until(lambda r: r["type"] == "message_end")
        await fill_queue(s)
        await abort(s)
        assert s.queue == WAITING
        answer = await last_answer(s)
        assert (answer["stopReason"], answer["content"]) == ("aborted", [])
        assert story(s.frames)[-8:-2] == [
            "start assistant",
            "end assistant",
            "turn_end",
            "agent_end",
            "agent_settled",
            "reply abort",
        ]


async def test_abort_in_the_very_turn_of_the_prompt_keeps_the_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path, say("never said")) as s:
        s.send("prompt", message="go")
        await abort(s)
        assert texts(s.frames) == ["go"]
        assert (await last_answer(s))["stopReason"] == "aborted"


async def test_abort_while_streaming_keeps_what_was_said(tmp_path: Path) -> None:
    async with stage(tmp_path, say("half a thought", hang=True)) as s:
        await s.data("prompt", message="go")
        await s.until(lambda r: _event(r) == "text_end")
        await fill_queue(s)
        await abort(s)
        assert s.queue == WAITING
        answer = await last_answer(s)
        assert answer["stopReason"] == "aborted"
        assert answer["errorMessage"] == "Request was aborted"
        assert text_of(answer) == "half a thought"


async def test_abort_amid_a_call_runs_no_tool(tmp_path: Path) -> None:
    cut = PlaybackBlock(tool="echo", id="c1", raw='{"name": "x"')
    async with stage(tmp_path, calls(cut, hang=True)) as s:
        await s.data("prompt", message="go")
        await s.until(lambda r: _event(r) == "toolcall_delta")
        await abort(s)
        assert s.of_type("tool_execution_start") == []


async def test_abort_in_a_tool_keeps_finished_results_and_closes_with_an_empty_turn(
    tmp_path: Path,
) -> None:
    replies = calls(call("echo", "c1", name="quick"), call("hold", "c2", name="gate"))
    async with stage(tmp_path, replies, say("never said")) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        await fill_queue(s)
        await abort(s)
        assert s.queue == WAITING
        ends = {r["toolCallId"]: r for r in s.of_type("tool_execution_end")}
        assert not ends["c1"]["isError"]
        assert ends["c2"]["isError"]
        assert text_of(ends["c2"]["result"]) == "Operation aborted"
        assert story(s.frames)[-9:-2] == [
            "turn_end",
            "turn_start",
            "start assistant",
            "end assistant",
            "turn_end",
            "agent_end",
            "agent_settled",
        ]
        assert len(s.script.requests) == 1


async def test_abort_kills_the_command_of_a_tool_and_keeps_its_output(tmp_path: Path) -> None:
    ask = calls(call("bash", "c1", command="echo begun; sleep 60"))
    async with stage(tmp_path, ask) as s:
        await s.data("prompt", message="go")
        await s.until(lambda r: "begun" in str(r.get("partialResult", "")))
        await abort(s)
        (end,) = s.of_type("tool_execution_end")
        assert text_of(end["result"]) == "begun\n\n\nCommand aborted"


async def test_a_second_abort_does_not_disturb_the_first(tmp_path: Path) -> None:
    ask = calls(call("bash", "c1", command="echo begun; sleep 60"))
    async with stage(tmp_path, ask) as s:
        await s.data("prompt", message="go")
        await s.until(lambda r: "begun" in str(r.get("partialResult", "")))
        first, second = s.send("abort"), s.send("abort")
        await s.reply(first)
        await s.reply(second)
        (end,) = s.of_type("tool_execution_end")
        assert text_of(end["result"]) == "begun\n\n\nCommand aborted"
        assert len(s.of_type("agent_settled")) == 1


async def test_abort_in_a_retry_wait_ends_the_retry(tmp_path: Path) -> None:
    async with stage(
        tmp_path, fails("overloaded"), settings={"retry": {"baseDelayMs": 60_000}}
    ) as s:
        await s.data("prompt", message="go")
        await s.until("auto_retry_start")
        await fill_queue(s)
        await abort(s)
        assert s.queue == WAITING
        (end,) = s.of_type("auto_retry_end")
        assert (end["success"], end["finalError"]) == (False, "Retry cancelled")


async def test_abort_of_a_repeated_attempt_ends_the_retry(tmp_path: Path) -> None:
    async with stage(tmp_path, fails("overloaded"), say("half", hang=True)) as s:
        await s.data("prompt", message="go")
        await s.until(lambda r: _event(r) == "text_end")
        await abort(s)
        (end,) = s.of_type("auto_retry_end")
        assert (end["success"], end["attempt"]) == (False, 1)
        s.script.add(say("fine"))
        told = story(await s.run("again"))
        assert "auto_retry_end" not in told


async def test_abort_in_a_compaction_after_the_run_keeps_the_queue(tmp_path: Path) -> None:
    full = say(words(300), usage=used(2_000))
    settings = {"compaction": SMALL}
    async with stage(tmp_path, say("one"), full, say("", hang=True), settings=settings) as s:
        await s.run(words(300))
        await s.data("prompt", message=words(300))
        await s.until("compaction_start")
        await fill_queue(s)
        await abort(s)
        assert s.queue == WAITING
        (end,) = s.of_type("compaction_end")
        assert end["aborted"]
        assert len(s.of_type("agent_start")) == 2


async def test_abort_in_a_compaction_between_turns_keeps_the_queue(tmp_path: Path) -> None:
    full = calls(call("echo", "c1", name="x"), usage=used(2_000))
    settings = {"compaction": SMALL}
    async with stage(tmp_path, say("one"), full, say("", hang=True), settings=settings) as s:
        await s.run(words(300))
        await s.data("prompt", message=words(300))
        await s.until("compaction_start")
        await s.asked(3)
        await fill_queue(s)
        await abort(s)
        assert s.queue == WAITING
        (end,) = s.of_type("compaction_end")
        assert end["aborted"]
        assert (await last_answer(s))["stopReason"] == "aborted"
        assert len(s.script.requests) == 3


async def test_abort_between_turns_keeps_the_queue(tmp_path: Path) -> None:
    async with stage(tmp_path, calls(call("hold", "c1", name="gate")), say("never said")) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        await fill_queue(s)
        s.gates.open("gate")
        await s.until("turn_end")
        await abort(s)
        assert s.queue in (WAITING, ([], ["followed"]))
        assert (await last_answer(s))["stopReason"] == "aborted"


async def test_abort_does_not_touch_a_direct_command(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        number = s.send("bash", command="mkfifo gate; echo ready; read line < gate; echo $line")
        await s.until("bash_execution_update")
        await abort(s)
        (tmp_path / "work" / "gate").write_text("spared\n")
        reply = await s.reply(number)
        assert reply["data"]["output"] == "ready\nspared\n"


async def test_what_an_abort_left_waiting_goes_with_the_next_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path, say("half", hang=True), say("one"), say("two")) as s:
        await s.data("prompt", message="go")
        await s.until("message_update")
        await fill_queue(s)
        await abort(s)
        await s.run("again")
        assert texts(s.frames) == ["go", "again", "steered", "followed"]


async def test_abort_and_prompt_replaces_the_run(tmp_path: Path) -> None:
    async with stage(tmp_path, say("half", hang=True), say("fresh")) as s:
        await s.data("prompt", message="go")
        await s.until(lambda r: _event(r) == "text_end")
        await s.data("abort_and_prompt", message="rather this")
        await s.settled()
        assert texts(s.frames) == ["go", "rather this"]
        assert texts(s.frames, "assistant") == ["half", "fresh"]


def _event(record: dict[str, object]) -> object:
    event = record.get("assistantMessageEvent")
    return event.get("type") if isinstance(event, dict) else None


# ---------------------------------------------------------------- answers with many calls


async def test_of_many_calls_a_limited_number_runs_at_once(tmp_path: Path) -> None:
    ask = calls(*(call("hold", f"c{place}", name=f"g{place}") for place in range(AT_ONCE + 2)))
    async with stage(tmp_path, ask, say("done")) as s:
        await s.data("prompt", message="go")
        for place in range(AT_ONCE):
            await s.gates.reached(f"g{place}")
        assert not s.gates.is_reached(f"g{AT_ONCE}")
        s.gates.open("g3")
        await s.gates.reached(f"g{AT_ONCE}")
        s.gates.open_all()
        await s.settled()
        assert len(texts(s.frames, "toolResult")) == AT_ONCE + 2


@pytest.mark.parametrize("tool", ["hold", "solo"])
async def test_an_abort_stores_the_results_of_many_calls_in_few_steps(
    tmp_path: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, synced = 1_000, list[int]()
    monkeypatch.setattr(os, "fsync", synced.append)
    ask = calls(*(call(tool, f"c{place}", name="gate") for place in range(count)))
    async with stage(tmp_path, ask, settings={"sync": "always"}) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        before, start = len(synced), len(s.frames)
        s.when("message_start", lambda: s.send("get_state"))
        await abort(s)
        assert len(synced) - before < count / 20
        # Other commands are answered between two groups of results.
        told = [frame.get("command") or frame["type"] for frame in s.frames[start:]]
        assert told.index("get_state") < len(told) - count
        # Every call has its end and its result in the order that the laws demand.
        assert len(texts(s.frames, "toolResult")) == count
