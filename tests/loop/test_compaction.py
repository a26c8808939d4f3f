"""Compaction on demand: done, refused, cancelled, failed, and prompts that come meanwhile."""

from pathlib import Path
from typing import Any

import pytest

from tests.loop.stage import (
    Stage,
    asked,
    call,
    calls,
    fails,
    say,
    stage,
    story,
    texts,
    used,
    words,
)

SETTINGS: dict[str, Any] = {"compaction": {"keepRecentTokens": 100}}
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9"
    "awAAAABJRU5ErkJggg=="
)


async def talk(s: Stage) -> None:
    s.script.add(say("one"), say("two"))
    await s.run(words(300))
    await s.run(words(300))


async def test_a_compaction_replaces_the_past_by_its_summary(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("## Goal\nTalk.", usage=used(7)))
        before = len(s.frames)
        data = await s.data("compact")
        assert story(s.frames[before:]) == [
            "compaction_start",
            "compaction_end",
            "reply compact",
        ]
        (end,) = s.of_type("compaction_end")
        assert end["result"] == data
        assert data["summary"].startswith("## Goal\nTalk.")
        assert data["usage"]["input"] == 7
        assert data["tokensBefore"] > data["estimatedTokensAfter"]
        messages = (await s.data("get_messages"))["messages"]
        assert [m["role"] for m in messages] == ["compactionSummary", "user", "assistant"]
        entries = (await s.data("get_entries"))["entries"]
        assert entries[-1]["type"] == "compaction"
        assert data["firstKeptEntryId"] in [entry["id"] for entry in entries]


async def test_the_next_request_begins_with_the_summary(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("## Goal"), say("three"))
        await s.data("compact")
        await s.run("go on")
        assert asked(s.script.requests[-1])[0] == "compactionSummary ## Goal"


async def test_instructions_reach_the_model(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("## Goal"))
        await s.data("compact", customInstructions="name every file")
        assert "name every file" in asked(s.script.requests[-1])[0]


async def test_a_cut_through_a_turn_summarises_its_beginning_apart(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(calls(call("echo", "c1", name="x")), say(words(300)))
        await s.run("now in two steps")
        s.script.add(say("## History"), say("## Original Request"))
        data = await s.data("compact")
        history, rest = data["summary"].split("\n---\n")
        assert history.strip() == "## History"
        assert "## Original Request" in rest
        assert [m["role"] for m in (await s.data("get_messages"))["messages"]] == [
            "compactionSummary",
            "assistant",
        ]


@pytest.mark.parametrize("prompts", [0, 1])
async def test_too_little_is_not_compacted(tmp_path: Path, prompts: int) -> None:
    async with stage(tmp_path, say("one"), settings=dict(SETTINGS)) as s:
        for _ in range(prompts):
            await s.run("go")
        assert await s.refusal("compact") == "Nothing to compact (session too small)"
        (end,) = s.of_type("compaction_end")
        assert end["errorMessage"] == "Compaction failed: Nothing to compact (session too small)"


async def test_what_was_just_compacted_is_not_compacted_again(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("## Goal"))
        await s.data("compact")
        assert await s.refusal("compact") == "Already compacted"


async def test_a_compaction_that_is_refused_stops_no_run(tmp_path: Path) -> None:
    replies = (calls(call("hold", "c1", name="gate")), say("done"))
    async with stage(tmp_path, *replies, settings=dict(SETTINGS)) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        assert await s.refusal("compact") == "Nothing to compact (session too small)"
        s.gates.open("gate")
        await s.settled()
        assert texts(s.frames, "assistant")[-1] == "done"


async def test_a_compaction_stops_the_run_first(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("half", hang=True), say("## Goal"))
        await s.data("prompt", message=words(300))
        await s.until("message_update", len(s.frames))
        await s.data("follow_up", message="later")
        await s.data("compact")
        told = story(s.frames)
        assert told[-4:] == [
            "agent_settled",
            "compaction_start",
            "compaction_end",
            "reply compact",
        ]
        assert s.queue == ([], ["later"])


async def test_an_abort_cancels_the_compaction(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("## Go", hang=True))
        number = s.send("compact")
        await s.until("compaction_start")
        await s.data("abort")
        reply = await s.reply(number)
        assert reply["error"] == "Compaction cancelled"
        (end,) = s.of_type("compaction_end")
        assert end["aborted"]
        assert "result" not in end
        assert (await s.data("get_entries"))["entries"][-1]["type"] != "compaction"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (fails("401 bad key"), "401 bad key"),
        (say("## Go", stop="length"), "token limit"),
        (say(" "), "did not write a summary"),
        (calls(call("echo", "c1", name="x")), "did not write a summary"),
    ],
)
async def test_a_summary_that_is_none_changes_nothing(
    tmp_path: Path, answer: Any, reason: str
) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(answer)
        before = (await s.data("get_messages"))["messages"]
        error = await s.refusal("compact")
        assert reason in error
        (end,) = s.of_type("compaction_end")
        assert end["errorMessage"] == f"Compaction failed: {error}"
        assert (await s.data("get_messages"))["messages"] == before


async def test_a_summary_is_tried_again_after_a_passing_fault(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(fails("overloaded"), fails("overloaded"), say("## Goal"))
        before = len(s.frames)
        await s.data("compact")
        assert story(s.frames[before:]) == [
            "compaction_start",
            "summarization_retry_scheduled",
            "summarization_retry_attempt_start",
            "summarization_retry_scheduled",
            "summarization_retry_attempt_start",
            "summarization_retry_finished",
            "compaction_end",
            "reply compact",
        ]
        scheduled = s.of_type("summarization_retry_scheduled")
        assert [(r["attempt"], r["delayMs"]) for r in scheduled] == [(1, 1), (2, 2)]
        (_, start) = s.of_type("summarization_retry_attempt_start")
        assert (start["source"], start["reason"]) == ("compaction", "manual")


async def test_a_summary_is_given_up_when_its_attempts_are_used_up(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(*(fails("overloaded") for _ in range(4)))
        assert "overloaded" in await s.refusal("compact")
        assert len(s.of_type("summarization_retry_scheduled")) == 3
        assert len(s.of_type("summarization_retry_finished")) == 1


async def test_an_abort_ends_the_wait_for_another_summary(tmp_path: Path) -> None:
    settings = {**SETTINGS, "retry": {"baseDelayMs": 60_000}}
    async with stage(tmp_path, settings=settings) as s:
        await talk(s)
        s.script.add(fails("overloaded"))
        number = s.send("compact")
        await s.until("summarization_retry_scheduled")
        await s.data("abort")
        assert (await s.reply(number))["error"] == "Compaction cancelled"


async def test_a_prompt_during_a_compaction_is_refused_with_a_reason(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("## Go", hang=True))
        s.send("compact")
        await s.until("compaction_start")
        for how in ({}, {"streamingBehavior": "steer"}):
            error = await s.refusal("prompt", message="me", **how)
            assert error.startswith("Cannot submit a prompt while compaction is in progress.")
        await s.data("abort")


async def test_what_is_queued_during_a_compaction_waits(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("## Goal", delay_ms=1))
        number = s.send("compact")
        await s.until("compaction_start")
        await s.data("steer", message="this then")
        assert (await s.reply(number))["success"]
        assert s.queue == (["this then"], [])
        s.script.add(say("three"))
        await s.run("go")
        assert texts(s.frames)[-2:] == ["go", "this then"]


async def test_a_second_compaction_at_once_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("## Go", hang=True))
        s.send("compact")
        await s.until("compaction_start")
        assert await s.refusal("compact") == "Compaction is already in progress"
        await s.data("abort")


async def test_a_prompt_whose_image_is_made_fit_does_not_slip_into_a_compaction(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("## Go", hang=True))
        image = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
        prompt = s.send("prompt", message="look", images=[image])
        compact = s.send("compact")
        reply = await s.reply(prompt)
        assert "compaction is in progress" in reply["error"]
        await s.data("abort")
        await s.reply(compact)


async def test_get_state_tells_of_a_compaction_on_demand(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("## Go", hang=True))
        s.send("compact")
        await s.until("compaction_start")
        state = await s.data("get_state")
        assert (state["isCompacting"], state["isStreaming"]) == (True, False)
        await s.data("abort")


async def test_a_second_summary_builds_on_the_first(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("## First summary"))
        await s.data("compact")
        await talk(s)
        s.script.add(say("## Second summary"))
        await s.data("compact")
        assert "## First summary" in asked(s.script.requests[-1])[0]
        assert "<previous-summary>" in asked(s.script.requests[-1])[0]


async def test_files_that_tools_touched_are_listed(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        write = call("write", "w", path="made.txt", content="x")
        read = call("read", "r", path="seen.txt")
        s.script.add(calls(write, read), say("one"))
        (tmp_path / "work" / "seen.txt").write_text("seen")
        await s.run("go")
        s.script.add(say("two"))
        await s.run(words(300))
        s.script.add(say("## Goal"))
        data = await s.data("compact")
        assert data["details"] == {"readFiles": ["seen.txt"], "modifiedFiles": ["made.txt"]}
        assert "<modified-files>\nmade.txt\n</modified-files>" in data["summary"]
