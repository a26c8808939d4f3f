"""A slow reader: every event may have to wait for room, and commands come in between."""

from collections.abc import Iterator
from itertools import cycle, repeat
from pathlib import Path
from typing import Any

import pytest

from tests.loop.stage import (
    SMALL,
    call,
    calls,
    fails,
    say,
    stage,
    texts,
    used,
    words,
)

TURNS = 4


def slow() -> Iterator[int]:
    """No event finds room at once."""
    return repeat(TURNS)


def is_user(text: str) -> Any:
    return lambda r: r["type"] == "message_start" and text in str(r["message"]["content"])


@pytest.mark.parametrize("waits", [(1,), (0, 3), (5, 0, 0, 1)])
async def test_a_slow_reader_changes_no_order(tmp_path: Path, waits: tuple[int, ...]) -> None:
    two = calls(call("echo", "a", name="x"), call("echo", "b", name="y"))
    replies = (two, fails("overloaded"), say("done", usage=used(10)), say("and that"))
    async with stage(tmp_path, *replies, waits=cycle(waits)) as s:
        await s.data("follow_up", message="later")
        await s.run("go")
        assert texts(s.frames) == ["go", "later"]
        assert texts(s.frames, "assistant")[-1] == "and that"


async def test_a_queue_cleared_between_two_deliveries_ends_the_delivering(tmp_path: Path) -> None:
    async with stage(tmp_path, say("done"), waits=slow()) as s:
        await s.data("set_steering_mode", mode="all")
        await s.data("steer", message="first")
        await s.data("steer", message="second")
        await s.data("prompt", message="go")
        await s.until(is_user("first"))
        assert (await s.data("clear_queue"))["steering"] == ["second"]
        await s.settled()
        assert texts(s.frames) == ["go", "first"]
        assert texts(s.frames, "assistant") == ["done"]


async def test_an_abort_between_two_deliveries_keeps_the_rest(tmp_path: Path) -> None:
    async with stage(tmp_path, say("done"), waits=slow()) as s:
        await s.data("set_steering_mode", mode="all")
        await s.data("steer", message="first")
        await s.data("steer", message="second")
        await s.data("prompt", message="go")
        await s.until(is_user("first"))
        await s.data("abort")
        assert s.queue == (["second"], [])


async def test_the_failed_answer_is_left_out_though_a_change_was_written_after_it(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, fails("overloaded"), say("fine"), waits=slow()) as s:
        await s.data("prompt", message="go")
        await s.until(lambda r: r["type"] == "message_end" and "overloaded" in str(r))
        await s.data("set_thinking_level", level="high")
        await s.settled()
        messages = (await s.data("get_messages"))["messages"]
        assert [m.get("stopReason") for m in messages] == [None, "stop"]


async def test_an_abort_after_a_failed_answer_announces_no_retry(tmp_path: Path) -> None:
    async with stage(tmp_path, fails("overloaded"), say("never asked"), waits=slow()) as s:
        await s.data("prompt", message="go")
        await s.until(lambda r: r["type"] == "message_end" and "overloaded" in str(r))
        await s.data("abort")
        assert [r["willRetry"] for r in s.of_type("agent_end")] == [False]
        assert s.of_type("auto_retry_start") == []


async def test_an_abort_right_at_the_announcement_of_a_retry_ends_it(tmp_path: Path) -> None:
    async with stage(tmp_path, fails("overloaded"), say("never asked"), waits=slow()) as s:
        await s.data("prompt", message="go")
        await s.until("auto_retry_start")
        await s.data("abort")
        (end,) = s.of_type("auto_retry_end")
        assert end["finalError"] == "Retry cancelled"


async def test_a_compaction_that_is_refused_stays_refused_while_the_run_goes_on(
    tmp_path: Path,
) -> None:
    pace = [TURNS]
    replies = (say("done"), say("never asked"))
    settings = {"compaction": {"keepRecentTokens": 100}}
    waits = iter(lambda: pace[0], -1)
    async with stage(tmp_path, *replies, settings=settings, waits=waits) as s:
        await s.data("steer", message=words(300))
        await s.data("prompt", message="go")
        await s.until(is_user("go"))
        pace[0] = 50
        number = s.send("compact")
        await s.until("compaction_start")
        pace[0] = 0
        assert "Nothing to compact" in (await s.reply(number))["error"]
        await s.settled()
        assert len(s.script.requests) == 1


async def test_a_compaction_on_demand_does_not_follow_on_the_heels_of_another(
    tmp_path: Path,
) -> None:
    full = say("two", usage=used(2_000))
    replies = (say("one"), full, say("## Summary"), say("three"), say("## Never"))
    async with stage(tmp_path, *replies, settings={"compaction": SMALL}, waits=slow()) as s:
        await s.data("set_auto_compaction", enabled=False)
        await s.run(words(300))
        await s.run(words(300))
        await s.data("set_auto_compaction", enabled=True)
        prompt = s.send("prompt", message="go")
        await s.until("compaction_end")
        assert await s.refusal("compact") == "Compaction is already in progress"
        assert (await s.reply(prompt))["success"]
        await s.settled()
