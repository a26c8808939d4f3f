"""A context that is too large: compacted once, asked again, and given up with a reason."""

from pathlib import Path
from typing import Any

from ludolf.ai.builtin.scripted import ScriptedUsage
from tests.loop.stage import (
    SMALL,
    WINDOW,
    Stage,
    asked,
    call,
    calls,
    fails,
    say,
    stage,
    story,
    texts,
    words,
)

TOO_LONG = "prompt is too long: 213462 tokens > 200000 maximum"
SETTINGS: dict[str, Any] = {"compaction": {"keepRecentTokens": 100}}


async def talk(s: Stage) -> None:
    """Enough of a conversation that half of it can be summarised."""
    s.script.add(say("one"), say("two"))
    await s.run(words(300))
    await s.run(words(300))


async def test_an_overflow_is_compacted_away_and_asked_again(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(fails(TOO_LONG), say("## Summary"), say("now it fits"))
        told = story(await s.run("go"))
        place = told.index("compaction_start")
        assert told[place - 1 : place + 4] == [
            "agent_end",
            "compaction_start",
            "compaction_end",
            "agent_start",
            "turn_start",
        ]
        (end,) = s.of_type("compaction_end")
        assert (end["reason"], end["willRetry"], end["aborted"]) == ("overflow", True, False)
        assert end["result"]["summary"].startswith("## Summary")
        assert [r["willRetry"] for r in s.of_type("agent_end")][-2:] == [False, False]
        assert texts(s.frames, "assistant")[-1] == "now it fits"
        assert asked(s.script.requests[-1])[-1] == "user go"


async def test_the_answer_that_overflowed_is_left_out_of_the_context(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(fails(TOO_LONG), say("## Summary"), say("now it fits"))
        await s.run("go")
        messages = (await s.data("get_messages"))["messages"]
        assert [m.get("stopReason") for m in messages].count("error") == 0


async def test_a_second_overflow_is_given_up(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(fails(TOO_LONG), say("## Summary"), fails(TOO_LONG), say("never asked"))
        told = story(await s.run("go"))
        assert told[-3:] == ["agent_end", "compaction_end", "agent_settled"]
        first, second = s.of_type("compaction_end")
        assert first["willRetry"]
        assert not second["willRetry"]
        assert second["errorMessage"].startswith("Context overflow recovery failed after one")
        assert len(s.of_type("compaction_start")) == 1


async def test_the_next_prompt_may_recover_again(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        s.script.add(say("one"), say("two"), say("three"))
        for size in (300, 60, 60):
            await s.run(words(size))
        s.script.add(fails(TOO_LONG), say("## One"), fails(TOO_LONG))
        await s.run("go")
        s.script.add(fails(TOO_LONG), say("## Two"), say("fine"))
        await s.run(words(60))
        assert [r.get("willRetry") for r in s.of_type("compaction_end")] == [True, False, True]
        assert texts(s.frames, "assistant")[-1] == "fine"


async def test_an_overflow_is_never_retried_blindly(tmp_path: Path) -> None:
    async with stage(tmp_path, fails(TOO_LONG), settings=dict(SETTINGS)) as s:
        await s.run("go")
        assert s.of_type("auto_retry_start") == []


async def test_an_overflow_stands_when_compaction_is_off(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        await s.data("set_auto_compaction", enabled=False)
        s.script.add(fails(TOO_LONG))
        told = story(await s.run("go"))
        assert "compaction_start" not in told
        assert told.count("agent_start") == 1


async def test_an_overflow_with_nothing_to_compact_says_so(tmp_path: Path) -> None:
    async with stage(tmp_path, fails(TOO_LONG), settings=dict(SETTINGS)) as s:
        await s.run("go")
        (end,) = s.of_type("compaction_end")
        assert not end["willRetry"]
        assert "Nothing to compact" in end["errorMessage"]


async def test_an_overflow_whose_summary_fails_says_so(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(fails(TOO_LONG), fails("401 bad key"))
        await s.run("go")
        (end,) = s.of_type("compaction_end")
        assert end["errorMessage"].startswith("Context overflow recovery failed: ")
        assert not end["willRetry"]


async def test_abort_in_the_compaction_of_an_overflow_ends_it(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(fails(TOO_LONG), say("", hang=True))
        await s.data("prompt", message="go")
        await s.until("compaction_start")
        await s.data("abort")
        (end,) = s.of_type("compaction_end")
        assert end["aborted"]
        assert len(s.of_type("agent_start")) == 3


async def test_an_overflow_after_retries_ends_the_retrying_first(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(fails("overloaded"), fails(TOO_LONG), say("## Summary"), say("fits"))
        told = story(await s.run("go"))
        assert told.index("auto_retry_end") < told.index("compaction_start")
        assert texts(s.frames, "assistant")[-1] == "fits"


async def test_an_answer_that_silently_overflowed_is_compacted_but_not_repeated(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("squeezed out", usage=ScriptedUsage(input=WINDOW + 1)), say("## Summary"))
        told = story(await s.run(words(300)))
        (end,) = s.of_type("compaction_end")
        assert (end["reason"], end["willRetry"]) == ("overflow", False)
        assert told.count("agent_start") == 1
        messages = (await s.data("get_messages"))["messages"]
        assert "squeezed out" in str(messages[-1])


async def test_a_cut_answer_is_asked_for_again_in_a_smaller_context(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        cut = say("half of", stop="length", usage=ScriptedUsage(input=10, output=5))
        s.script.add(cut, say("## Summary"), say("the whole of it"))
        await s.run("go")
        (end,) = s.of_type("compaction_end")
        assert (end["reason"], end["willRetry"]) == ("overflow", True)
        assert texts(s.frames, "assistant")[-1] == "the whole of it"
        assert "half of" not in str(asked(s.script.requests[-1]))


async def test_an_answer_as_long_as_the_model_can_is_left_as_it_is(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("all of it", stop="length", usage=ScriptedUsage(input=10, output=8_192)))
        await s.run("go")
        assert s.of_type("compaction_start") == []


async def test_a_cut_answer_stays_when_there_is_nothing_to_compact(tmp_path: Path) -> None:
    cut = say("half of", stop="length", usage=ScriptedUsage(input=10, output=5))
    async with stage(tmp_path, cut, settings=dict(SETTINGS)) as s:
        await s.run("go")
        messages = (await s.data("get_messages"))["messages"]
        assert [m["role"] for m in messages] == ["user", "assistant"]
        assert s.of_type("compaction_end") == []


async def test_queued_messages_go_on_after_the_recovery(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        hold = calls(call("hold", "c1", name="gate"))
        s.script.add(hold, fails(TOO_LONG), say("## Summary"), say("one"), say("two"))
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        await s.data("follow_up", message="later")
        s.gates.open("gate")
        await s.settled()
        assert texts(s.frames)[-2:] == ["go", "later"]
        assert s.queue == ([], [])


def test_the_small_limits_are_what_the_tests_think() -> None:
    assert WINDOW - SMALL["reserveTokens"] == 1_000
