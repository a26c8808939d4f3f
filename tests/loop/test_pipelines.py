"""Commands written in one go act in the order in which they were written."""

from pathlib import Path
from typing import Any

from tests.loop.stage import Stage, call, calls, say, stage, story, texts, words

SETTINGS: dict[str, Any] = {"compaction": {"keepRecentTokens": 100}}


async def talk(s: Stage) -> None:
    s.script.add(say("one"), say("two"))
    await s.run("first " + words(300))
    await s.run("second " + words(300))


async def test_a_prompt_is_accepted_before_the_next_line_is_read(tmp_path: Path) -> None:
    async with stage(tmp_path, say("fine")) as s:
        s.send("prompt", message="go")
        number = s.send("get_state")
        assert s.frames[-1]["id"] == number
        assert s.frames[-1]["data"]["isStreaming"]
        await s.settled()


async def test_a_model_set_before_a_prompt_answers_it(tmp_path: Path) -> None:
    async with stage(tmp_path, say("fine")) as s:
        s.send("set_model", provider="ludolf", modelId="plain")
        s.send("prompt", message="go")
        await s.settled()
        assert [request.model.id for request in s.script.requests] == ["plain"]


async def test_a_prompt_behind_a_new_session_goes_into_it(tmp_path: Path) -> None:
    async with stage(tmp_path, say("half", hang=True), say("fine")) as s:
        await s.data("prompt", message="old")
        await s.until("message_update")
        s.send("new_session")
        s.send("steer", message="then this")
        await s.run("new")
        messages = (await s.data("get_messages"))["messages"]
        assert [m["role"] for m in messages] == ["user", "user", "assistant"]
        assert texts(s.frames) == ["old", "new", "then this"]


async def test_setters_behind_a_new_session_are_about_it(tmp_path: Path) -> None:
    async with stage(tmp_path, say("half", hang=True), say("fine")) as s:
        await s.data("set_session_name", name="the old one")
        await s.data("prompt", message="old")
        await s.until("message_update")
        old = s.path
        s.send("new_session")
        s.send("set_session_name", name="the new one")
        s.send("set_model", provider="ludolf", modelId="plain")
        s.send("set_thinking_level", level="off")
        await s.run("new")
        assert (await s.data("get_state"))["sessionName"] == "the new one"
        assert [request.model.id for request in s.script.requests][-1] == "plain"
        assert b"the new one" not in old.read_bytes()
        assert old.read_bytes().count(b"model_change") == 1


async def test_steering_behind_a_prompt_goes_with_it(tmp_path: Path) -> None:
    async with stage(tmp_path, say("fine")) as s:
        s.send("prompt", message="go")
        s.send("steer", message="and this")
        await s.settled()
        assert texts(s.frames) == ["go", "and this"]
        assert len(s.script.requests) == 1


async def test_two_prompts_in_one_go_start_one_run(tmp_path: Path) -> None:
    async with stage(tmp_path, say("fine")) as s:
        s.send("prompt", message="go")
        assert "already processing" in await s.refusal("prompt", message="me too")
        await s.settled()
        assert texts(s.frames) == ["go"]


async def test_an_abort_is_answered_after_the_compaction_has_ended(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("## Goal", hang=True))
        s.send("compact")
        await s.until("compaction_start")
        await s.data("abort")
        told = story(s.frames)
        assert told.index("compaction_end") < told.index("reply abort")


async def test_an_abort_does_not_stop_a_prompt_that_was_sent_after_it(tmp_path: Path) -> None:
    async with stage(tmp_path, say("fine")) as s:
        first, second = s.send("abort"), s.send("prompt", message="go")
        await s.reply(first)
        await s.reply(second)
        await s.settled()
        assert texts(s.frames, "assistant") == ["fine"]


async def test_a_compaction_does_not_stop_a_prompt_that_was_sent_after_it(tmp_path: Path) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("## Goal"), say("three"))
        first, second = s.send("compact"), s.send("prompt", message="third")
        assert (await s.reply(first))["success"]
        assert not (await s.reply(second))["success"]


async def test_abort_bash_ends_a_command_that_was_sent_just_before_it(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        number = s.send("bash", command="echo ran")
        s.send("abort_bash")
        assert (await s.reply(number))["data"]["cancelled"]


async def test_an_abort_stops_a_prompt_that_was_sent_before_it_and_waits_its_turn(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, calls(call("hold", "c1", name="gate"))) as s:
        s.send("new_session")
        prompt = s.send("prompt", message="go")
        await s.data("abort")
        await s.reply(prompt)
        assert not (await s.data("get_state"))["isStreaming"]


async def test_an_abort_ends_a_summary_that_was_sent_before_it_and_waits_its_turn(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as s:
        await talk(s)
        s.script.add(say("## Goal", hang=True))
        first = (await s.data("get_fork_messages"))["messages"][0]["entryId"]
        s.send("clone")
        number = s.send("navigate_tree", targetId=first, summarize=True)
        await s.data("abort")
        assert (await s.reply(number))["success"]
        assert not (await s.data("get_state"))["isCompacting"]


async def test_a_prompt_does_not_slip_in_between_the_stopped_run_and_its_compaction(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, settings=dict(SETTINGS)) as s:
        await talk(s)
        s.script.add(say("half", hang=True), say("## Goal"), say("three"))
        before = len(s.frames)
        await s.data("prompt", message="third")
        await s.until("message_update", before)
        s.when("agent_end", lambda: s.send("prompt", message="fourth"))
        assert (await s.ask("compact"))["success"]
        assert "fourth" not in texts(s.frames)
