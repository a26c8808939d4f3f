"""Limits of one prompt: reaching one ends the run cleanly, with a reason."""

from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.builtin.scripted import ScriptedUsage
from tests.loop.stage import call, calls, fails, say, stage, story, texts


def step(number: int, tokens: int = 0) -> Any:
    return calls(call("echo", f"c{number}", name="x"), usage=ScriptedUsage(input=tokens))


async def test_a_run_ends_after_its_turns(tmp_path: Path) -> None:
    async with stage(tmp_path, step(1), step(2), say("never said")) as s:
        assert await s.data("set_limits", maxTurns=2) == {"maxTurns": 2}
        told = story(await s.run("go"))
        assert told[-4:] == ["turn_end", "limit_reached", "agent_end", "agent_settled"]
        (reached,) = s.of_type("limit_reached")
        assert (reached["limit"], reached["used"], reached["maximum"]) == ("turns", 2, 2)
        assert len(s.script.requests) == 2


async def test_a_run_ends_after_its_tokens(tmp_path: Path) -> None:
    async with stage(tmp_path, step(1, 60), step(2, 60), say("never said")) as s:
        await s.data("set_limits", maxTokens=100)
        await s.run("go")
        (reached,) = s.of_type("limit_reached")
        assert (reached["limit"], reached["used"]) == ("tokens", 120)


async def test_a_run_ends_after_its_money(tmp_path: Path) -> None:
    async with stage(tmp_path, step(1, 2), say("never said")) as s:
        await s.data("set_model", provider="ludolf", modelId="dear")
        await s.data("set_limits", maxCost=1.5)
        await s.run("go")
        (reached,) = s.of_type("limit_reached")
        assert (reached["limit"], reached["used"]) == ("cost", 2)


async def test_a_run_that_ends_by_itself_at_its_limit_tells_of_none(tmp_path: Path) -> None:
    async with stage(tmp_path, step(1), say("done")) as s:
        await s.data("set_limits", maxTurns=2)
        await s.run("go")
        assert s.of_type("limit_reached") == []


async def test_every_prompt_is_counted_anew(tmp_path: Path) -> None:
    async with stage(tmp_path, step(1), step(2), step(3)) as s:
        await s.data("set_limits", maxTurns=1)
        await s.run("go")
        await s.run("again")
        assert len(s.of_type("limit_reached")) == 2


async def test_a_limit_counts_follow_ups_and_keeps_what_waits(tmp_path: Path) -> None:
    hold = calls(call("hold", "c1", name="gate"))
    async with stage(tmp_path, hold, say("done"), say("never said")) as s:
        await s.data("set_limits", maxTurns=2)
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        await s.data("follow_up", message="later")
        s.gates.open("gate")
        await s.settled()
        assert s.queue == ([], ["later"])
        assert texts(s.frames) == ["go"]
        s.script.add(say("and that"))
        await s.data("set_limits")
        await s.run("again")
        assert texts(s.frames) == ["go", "again", "later"]


async def test_limits_of_the_start_count_and_can_be_lifted(tmp_path: Path) -> None:
    replies = (step(1), say("never said"), step(2), say("done"))
    async with stage(tmp_path, *replies, options={"max_turns": 1}) as s:
        await s.run("go")
        assert len(s.of_type("limit_reached")) == 1
        assert await s.data("set_limits") == {}
        await s.run("again")
        assert len(s.of_type("limit_reached")) == 1


@pytest.mark.parametrize("limit", [{"maxTurns": 0}, {"maxTokens": -1}, {"maxCost": 0.0}])
async def test_a_limit_of_nothing_is_refused(tmp_path: Path, limit: dict[str, Any]) -> None:
    async with stage(tmp_path) as s:
        assert "must be greater than 0" in await s.refusal("set_limits", **limit)


async def test_attempts_that_failed_count_as_turns(tmp_path: Path) -> None:
    replies = (fails("overloaded"), step(1), say("never said"))
    async with stage(tmp_path, *replies) as s:
        await s.data("set_limits", maxTurns=2)
        await s.run("go")
        assert len(s.of_type("limit_reached")) == 1


async def test_a_limit_that_attempts_use_up_ends_the_retrying_with_a_reason(tmp_path: Path) -> None:
    replies = (fails("overloaded"), fails("overloaded"), say("never said"))
    async with stage(tmp_path, *replies) as s:
        await s.data("set_limits", maxTurns=2)
        told = story(await s.run("go"))
        assert told[-4:] == ["limit_reached", "agent_end", "auto_retry_end", "agent_settled"]
        (end,) = s.of_type("auto_retry_end")
        assert (end["success"], end["finalError"]) == (False, "overloaded")
        assert [r["willRetry"] for r in s.of_type("agent_end")] == [True, False]
        await s.data("set_limits")
        assert "auto_retry_end" not in story(await s.run("again"))
