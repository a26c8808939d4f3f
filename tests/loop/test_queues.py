"""Steering and follow-ups: where they are delivered, in both modes, and what keeps them."""

from pathlib import Path

import pytest

from ludolf.engine.conversation import FEW
from tests.loop.stage import Stage, call, calls, fails, say, stage, story, texts

DELIVERED = ["turn_start", "queue_update", "start user", "end user", "start assistant"]


async def hold_in_tool(s: Stage, text: str = "go") -> None:
    """Prompt, and stop in the first tool call."""
    await s.data("prompt", message=text)
    await s.gates.reached("gate")


async def test_steering_is_delivered_after_the_tools_of_the_turn(tmp_path: Path) -> None:
    async with stage(tmp_path, calls(call("hold", "c1", name="gate")), say("as you wish")) as s:
        await hold_in_tool(s)
        reply = await s.ask("steer", message="rather this")
        assert reply["data"] == {"disposition": "queued"}
        assert s.queue == (["rather this"], [])
        s.gates.open("gate")
        await s.settled()
        told = story(s.frames)
        assert told[told.index("turn_end") + 1 :][:5] == DELIVERED
        assert texts(s.frames) == ["go", "rather this"]
        assert s.queue == ([], [])


async def test_a_prompt_while_busy_is_queued_as_it_says(tmp_path: Path) -> None:
    replies = (calls(call("hold", "c1", name="gate")), say("one"), say("two"))
    async with stage(tmp_path, *replies) as s:
        await hold_in_tool(s)
        later = await s.data("prompt", message="later", streamingBehavior="followUp")
        soon = await s.data("prompt", message="soon", streamingBehavior="steer")
        assert (later, soon) == ({"disposition": "queued"}, {"disposition": "queued"})
        assert s.queue == (["soon"], ["later"])
        s.gates.open("gate")
        await s.settled()
        assert texts(s.frames) == ["go", "soon", "later"]
        assert len(s.of_type("agent_start")) == 1


async def test_a_prompt_while_busy_without_a_word_on_how_is_refused(tmp_path: Path) -> None:
    async with stage(tmp_path, calls(call("hold", "c1", name="gate")), say("done")) as s:
        await hold_in_tool(s)
        assert "already processing" in await s.refusal("prompt", message="me too")
        s.gates.open("gate")
        await s.settled()
        assert texts(s.frames) == ["go"]


@pytest.mark.parametrize(("mode", "turns"), [("one-at-a-time", [1, 1]), ("all", [2])])
async def test_steering_comes_as_its_mode_says(tmp_path: Path, mode: str, turns: list[int]) -> None:
    replies = (calls(call("hold", "c1", name="gate")), say("one"), say("two"))
    async with stage(tmp_path, *replies) as s:
        await s.data("set_steering_mode", mode=mode)
        await hold_in_tool(s)
        await s.data("steer", message="a")
        await s.data("steer", message="b")
        s.gates.open("gate")
        await s.settled()
        assert users_per_turn(s)[1:] == turns
        assert texts(s.frames) == ["go", "a", "b"]


@pytest.mark.parametrize(("mode", "turns"), [("one-at-a-time", [1, 1]), ("all", [2])])
async def test_follow_ups_come_at_the_end_as_their_mode_says(
    tmp_path: Path, mode: str, turns: list[int]
) -> None:
    replies = (calls(call("hold", "c1", name="gate")), say("done"), say("one"), say("two"))
    async with stage(tmp_path, *replies) as s:
        await s.data("set_follow_up_mode", mode=mode)
        await hold_in_tool(s)
        await s.data("follow_up", message="a")
        await s.data("follow_up", message="b")
        s.gates.open("gate")
        await s.settled()
        assert users_per_turn(s) == [1, 0, *turns]
        assert texts(s.frames) == ["go", "a", "b"]
        assert len(s.of_type("agent_start")) == 1


async def test_steering_goes_before_follow_ups_that_came_first(tmp_path: Path) -> None:
    async with stage(tmp_path, calls(call("hold", "c1", name="gate"))) as s:
        await hold_in_tool(s)
        await s.data("follow_up", message="last")
        await s.data("steer", message="first")
        s.gates.open("gate")
        await s.settled()
        assert texts(s.frames) == ["go", "first", "last"]


async def test_steering_during_the_last_answer_gets_a_turn_of_its_own(tmp_path: Path) -> None:
    async with stage(tmp_path, say("a long answer " * 20), say("noted")) as s:
        await s.data("prompt", message="go")
        await s.until("message_update")
        await s.data("steer", message="one more thing")
        await s.settled()
        assert users_per_turn(s) == [1, 1]
        assert texts(s.frames, "assistant")[1] == "noted"


async def test_what_waits_while_idle_starts_nothing_and_goes_with_the_next_prompt(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, say("one"), say("two")) as s:
        await s.data("steer", message="with it")
        await s.data("follow_up", message="after it")
        assert (await s.data("get_state"))["pendingMessageCount"] == 2
        assert s.of_type("agent_start") == []
        await s.run("go")
        assert users_per_turn(s) == [2, 1]
        assert texts(s.frames) == ["go", "with it", "after it"]


async def test_a_cleared_queue_is_given_back_and_not_delivered(tmp_path: Path) -> None:
    async with stage(tmp_path, calls(call("hold", "c1", name="gate")), say("done")) as s:
        await hold_in_tool(s)
        await s.data("steer", message="a")
        await s.data("follow_up", message="b")
        assert await s.data("clear_queue") == {"steering": ["a"], "followUp": ["b"]}
        assert s.queue == ([], [])
        s.gates.open("gate")
        await s.settled()
        assert texts(s.frames) == ["go"]


async def test_a_failed_answer_leaves_what_waits_in_the_queue(tmp_path: Path) -> None:
    replies = (calls(call("hold", "c1", name="gate")), fails("no such thing"))
    async with stage(tmp_path, *replies) as s:
        await hold_in_tool(s)
        await s.data("follow_up", message="later")
        s.gates.open("gate")
        await s.settled()
        assert s.queue == ([], ["later"])
        s.script.add(say("fine"), say("and that"))
        await s.run("again")
        assert texts(s.frames) == ["go", "again", "later"]


async def test_steering_waits_through_a_retry_and_goes_with_it(tmp_path: Path) -> None:
    async with stage(tmp_path, fails("overloaded"), say("fine")) as s:
        await s.data("prompt", message="go")
        await s.data("steer", message="this too")
        await s.settled()
        assert texts(s.frames) == ["go", "this too"]


async def test_a_long_queue_is_told_in_bursts_and_delivered_whole(tmp_path: Path) -> None:
    many = [f"m{number}" for number in range(2 * FEW)]
    replies = (calls(call("hold", "c1", name="gate")), say("done"))
    async with stage(tmp_path, *replies, lawful=False) as s:
        await s.data("set_steering_mode", mode="all")
        await hold_in_tool(s)
        for text in many:
            await s.data("steer", message=text)
        assert FEW <= len(s.of_type("queue_update")) < len(many)
        s.gates.open("gate")
        await s.settled()
        assert texts(s.frames) == ["go", *many]
        assert s.queue == ([], [])


async def test_the_last_update_of_a_burst_has_all_messages(tmp_path: Path) -> None:
    many = [f"m{number}" for number in range(4 * FEW)]
    replies = (calls(call("hold", "c1", name="gate")), say("done"))
    async with stage(tmp_path, *replies, lawful=False) as s:
        await hold_in_tool(s)
        for text in many:
            s.send("follow_up", message=text)
        last = await s.until(lambda frame: frame.get("followUp") == many)
        assert last["type"] == "queue_update"
        assert len(s.of_type("queue_update")) <= FEW + 4
        await s.data("clear_queue")
        s.gates.open("gate")
        await s.settled()


def users_per_turn(s: Stage) -> list[int]:
    """How many messages of the user each turn brought."""
    told = " ".join(word.replace(" ", "_") for word in story(s.frames))
    return [part.count("end_user") for part in told.split("turn_start")[1:]]
