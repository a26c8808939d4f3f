"""Compaction near the limit: after a run, between turns, before a prompt."""

from pathlib import Path
from typing import Any

from tests.loop.stage import (
    SMALL,
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

SETTINGS: dict[str, Any] = {"compaction": SMALL}
FULL = used(2_000)


async def test_a_run_that_fills_the_context_is_followed_by_a_compaction(tmp_path: Path) -> None:
    replies = (say("one"), say("two", usage=FULL), say("## Summary"))
    async with stage(tmp_path, *replies, settings=dict(SETTINGS)) as s:
        await s.run(words(300))
        told = story(await s.run(words(300)))
        assert told[-4:] == ["agent_end", "compaction_start", "compaction_end", "agent_settled"]
        (end,) = s.of_type("compaction_end")
        assert (end["reason"], end["willRetry"], end["aborted"]) == ("threshold", False, False)
        assert end["result"]["tokensBefore"] == 2_000
        assert end["result"]["estimatedTokensAfter"] < 1_000
        messages = (await s.data("get_messages"))["messages"]
        assert [m["role"] for m in messages] == ["compactionSummary", "user", "assistant"]


async def test_get_state_tells_of_the_compaction(tmp_path: Path) -> None:
    replies = (say("one"), say("two", usage=FULL), say("## Summary", hang=True))
    async with stage(tmp_path, *replies, settings=dict(SETTINGS)) as s:
        await s.run(words(300))
        await s.data("prompt", message=words(300))
        await s.until("compaction_start")
        state = await s.data("get_state")
        assert (state["isCompacting"], state["isStreaming"]) == (True, True)
        await s.data("abort")
        state = await s.data("get_state")
        assert (state["isCompacting"], state["isStreaming"]) == (False, False)


async def test_a_turn_that_fills_the_context_is_compacted_before_the_next(tmp_path: Path) -> None:
    full = calls(call("echo", "c1", name="x"), usage=FULL)
    replies = (say("one"), full, say("## Summary"), say("done"))
    async with stage(tmp_path, *replies, settings=dict(SETTINGS)) as s:
        await s.run(words(300))
        told = story(await s.run(words(300)))
        place = told.index("compaction_start")
        assert told[place - 1 : place + 3] == [
            "turn_end",
            "compaction_start",
            "compaction_end",
            "turn_start",
        ]
        assert told.count("agent_start") == 1
        assert texts(s.frames, "assistant")[-1] == "done"
        assert asked(s.script.requests[-1])[-1] == "toolResult x"


async def test_a_full_context_is_compacted_before_a_prompt_is_accepted(tmp_path: Path) -> None:
    replies = (say("one"), say("two", usage=FULL), say("## Summary"), say("three"))
    async with stage(tmp_path, *replies, settings={"compaction": {**SMALL}}) as s:
        await s.data("set_auto_compaction", enabled=False)
        await s.run(words(300))
        await s.run(words(300))
        await s.data("set_auto_compaction", enabled=True)
        told = story(await s.run("go"))
        assert told[:4] == ["compaction_start", "compaction_end", "reply prompt", "agent_start"]
        assert asked(s.script.requests[-1])[-1] == "user go"


async def test_abort_of_the_compaction_before_a_prompt_refuses_the_prompt(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await fill_unnoticed(s)
        s.script.add(say("", hang=True))
        number = s.send("prompt", message="go")
        await s.until("compaction_start")
        await s.data("abort")
        reply = await s.reply(number)
        assert reply["error"] == "Compaction cancelled"
        assert "go" not in texts(s.frames)


async def test_a_failed_compaction_before_a_prompt_does_not_keep_the_prompt_back(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await fill_unnoticed(s)
        s.script.add(fails("401 bad key"), say("three"), fails("401 bad key"))
        told = story(await s.run("go"))
        assert told[:3] == ["compaction_start", "compaction_end", "reply prompt"]
        assert s.of_type("compaction_end")[0]["errorMessage"].startswith("Auto-compaction failed: ")
        assert texts(s.frames, "assistant")[-1] == "three"


async def test_what_waits_is_delivered_after_the_compaction_of_a_run(tmp_path: Path) -> None:
    replies = (say("one"), say("two", usage=FULL), say("## Summary"), say("three"))
    async with stage(tmp_path, *replies, settings=dict(SETTINGS)) as s:
        await s.run(words(300))
        await s.data("prompt", message=words(300))
        await s.until("compaction_start")
        await s.data("steer", message="and this")
        await s.settled()
        told = story(s.frames)
        assert told.index("compaction_end") < len(told) - told[::-1].index("agent_start")
        assert texts(s.frames)[-1] == "and this"
        assert len(s.of_type("agent_settled")) == 2


async def test_what_is_taken_back_during_a_compaction_asks_for_no_empty_turn(
    tmp_path: Path,
) -> None:
    replies = (say("one"), say("long " * 50, usage=FULL), say("## Summary", pause_ms=1))
    async with stage(tmp_path, *replies, settings=dict(SETTINGS)) as s:
        await s.run(words(300))
        await s.data("prompt", message=words(300))
        await s.until("message_update", len(s.frames))
        await s.data("follow_up", message="forget it")
        await s.until("compaction_start")
        await s.data("clear_queue")
        await s.settled()
        assert "forget it" not in texts(s.frames)
        assert len(s.script.requests) == 3


async def test_nothing_is_compacted_when_it_is_off(tmp_path: Path) -> None:
    async with stage(tmp_path, say("one"), say("two", usage=FULL), settings=dict(SETTINGS)) as s:
        await s.data("set_auto_compaction", enabled=False)
        await s.run(words(300))
        await s.run(words(300))
        assert s.of_type("compaction_start") == []


async def test_a_full_context_without_a_past_is_left_alone_silently(tmp_path: Path) -> None:
    async with stage(tmp_path, say("one", usage=FULL), settings=dict(SETTINGS)) as s:
        await s.run("go")
        assert s.of_type("compaction_start") == []


async def fill_unnoticed(s: Stage) -> None:
    """A conversation over the limit whose compaction is still due."""
    s.script.add(say("one"), say("two", usage=FULL))
    await s.data("set_auto_compaction", enabled=False)
    await s.run(words(300))
    await s.run(words(300))
    await s.data("set_auto_compaction", enabled=True)
