"""Retries: counted, announced, stoppable, and never for what asking again cannot mend."""

from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.builtin.scripted import ScriptedFailure
from tests.loop.stage import asked, call, calls, fails, say, stage, story, texts

SLOW = {"retry": {"baseDelayMs": 60_000}}


def busy(times: int) -> list[Any]:
    return [fails("overloaded") for _ in range(times)]


async def test_a_passing_fault_is_tried_again_until_it_is_past(tmp_path: Path) -> None:
    async with stage(tmp_path, *busy(2), say("at last")) as s:
        told = story(await s.run("go"))
        assert told.count("agent_start") == 3
        starts = s.of_type("auto_retry_start")
        assert [(r["attempt"], r["maxAttempts"], r["delayMs"]) for r in starts] == [
            (1, 3, 1),
            (2, 3, 2),
        ]
        assert {r["errorMessage"] for r in starts} == {"overloaded"}
        assert s.of_type("auto_retry_end") == [
            {"type": "auto_retry_end", "success": True, "attempt": 2}
        ]
        place = told.index("auto_retry_end")
        assert told[place - 1 : place + 2] == ["end assistant", "auto_retry_end", "turn_end"]
        assert [r["willRetry"] for r in s.of_type("agent_end")] == [True, True, False]


async def test_the_failed_attempt_is_not_shown_to_the_model_nor_in_the_context(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, say("half", error="overloaded"), say("whole")) as s:
        await s.run("go")
        assert asked(s.script.requests[1]) == ["user go"]
        messages = (await s.data("get_messages"))["messages"]
        assert [m["role"] for m in messages] == ["user", "assistant"]
        stored = [e["message"] for e in (await s.data("get_entries"))["entries"] if "message" in e]
        assert [m.get("stopReason") for m in stored] == [None, "error", "stop"]


async def test_a_retry_sends_no_new_message_of_the_user(tmp_path: Path) -> None:
    async with stage(tmp_path, *busy(1), say("fine")) as s:
        await s.run("go")
        assert texts(s.frames) == ["go"]


async def test_when_attempts_are_used_up_the_last_error_stands(tmp_path: Path) -> None:
    async with stage(tmp_path, *busy(4)) as s:
        told = story(await s.run("go"))
        assert told[-3:] == ["agent_end", "auto_retry_end", "agent_settled"]
        (end,) = s.of_type("auto_retry_end")
        assert (end["success"], end["attempt"], end["finalError"]) == (False, 3, "overloaded")
        assert [r["willRetry"] for r in s.of_type("agent_end")] == [True, True, True, False]
        messages = (await s.data("get_messages"))["messages"]
        assert messages[-1]["stopReason"] == "error"


async def test_the_count_begins_anew_after_an_answer_within_the_same_run(tmp_path: Path) -> None:
    replies = (*busy(2), calls(call("echo", "c1", name="x")), *busy(3), say("done"))
    async with stage(tmp_path, *replies) as s:
        await s.run("go")
        assert [r["attempt"] for r in s.of_type("auto_retry_start")] == [1, 2, 1, 2, 3]
        assert [r["success"] for r in s.of_type("auto_retry_end")] == [True, True]


async def test_the_delay_doubles_up_to_its_limit(tmp_path: Path) -> None:
    settings = {"retry": {"baseDelayMs": 2, "maxAgentDelayMs": 5, "maxRetries": 4}}
    async with stage(tmp_path, *busy(4), say("fine"), settings=settings) as s:
        await s.run("go")
        assert [r["delayMs"] for r in s.of_type("auto_retry_start")] == [2, 4, 5, 5]


async def test_a_delay_that_the_server_asks_for_is_kept(tmp_path: Path) -> None:
    failure = ScriptedFailure(text="slow down", status=429, retry_after=0.02)
    async with stage(tmp_path, fails(failure), say("fine")) as s:
        await s.run("go")
        (start,) = s.of_type("auto_retry_start")
        assert start["delayMs"] == 20


async def test_a_delay_beyond_the_limit_is_not_waited_for(tmp_path: Path) -> None:
    failure = ScriptedFailure(text="slow down", status=429, retry_after=61)
    async with stage(tmp_path, fails(failure)) as s:
        await s.run("go")
        assert s.of_type("auto_retry_start") == []
        assert [r["willRetry"] for r in s.of_type("agent_end")] == [False]


@pytest.mark.parametrize("text", ["insufficient_quota", "401 bad key", "no such model"])
async def test_faults_that_stay_are_not_tried_again(tmp_path: Path, text: str) -> None:
    async with stage(tmp_path, fails(text), say("never asked")) as s:
        await s.run("go")
        assert s.of_type("auto_retry_start") == []
        assert len(s.script.requests) == 1


async def test_nothing_is_tried_again_when_retries_are_off(tmp_path: Path) -> None:
    async with stage(tmp_path, fails("overloaded"), say("never asked")) as s:
        await s.data("set_auto_retry", enabled=False)
        await s.run("go")
        assert s.of_type("auto_retry_start") == []
        assert len(s.script.requests) == 1


async def test_abort_retry_ends_the_wait_and_is_answered_before_the_rest(tmp_path: Path) -> None:
    async with stage(tmp_path, *busy(1), settings=SLOW) as s:
        await s.data("prompt", message="go")
        await s.until("auto_retry_start")
        assert (await s.data("get_state"))["isStreaming"]
        await s.data("abort_retry")
        await s.settled()
        assert story(s.frames)[-3:] == ["auto_retry_end", "reply abort_retry", "agent_settled"]
        (end,) = s.of_type("auto_retry_end")
        assert (end["success"], end["finalError"]) == (False, "Retry cancelled")
        s.script.add(*busy(1))
        s.send("prompt", message="again")
        started = await s.until("auto_retry_start", len(s.frames))
        assert started["attempt"] == 1
        await s.ask("abort")


async def test_abort_retry_leaves_a_run_that_does_not_wait_alone(tmp_path: Path) -> None:
    async with stage(tmp_path, calls(call("hold", "c1", name="gate")), say("done")) as s:
        await s.data("abort_retry")
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        await s.data("abort_retry")
        s.gates.open("gate")
        await s.settled()
        assert texts(s.frames, "assistant")[-1] == "done"


async def test_an_answer_that_broke_off_is_kept_as_it_was(tmp_path: Path) -> None:
    async with stage(tmp_path, say("half", error="no such thing")) as s:
        await s.run("go")
        (answer,) = [m for m in _ended(s.frames) if m["role"] == "assistant"]
        assert (answer["stopReason"], answer["errorMessage"]) == ("error", "no such thing")
        assert texts(s.frames, "assistant") == ["half"]


async def test_calls_of_an_answer_that_failed_do_not_run(tmp_path: Path) -> None:
    broken = calls(call("echo", "c1", name="x"), error="no such thing")
    async with stage(tmp_path, broken) as s:
        await s.run("go")
        assert s.of_type("tool_execution_start") == []
        assert s.of_type("turn_end")[0]["toolResults"] == []


def _ended(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [r["message"] for r in frames if r["type"] == "message_end"]
