"""Models, thinking, commands of the host's shell, and reloading, before and during a run."""

import asyncio
from pathlib import Path
from typing import Any

from ludolf.base import dumps
from tests.loop.stage import Test, asked, call, calls, say, stage, story, texts

HOLD = calls(call("hold", "c1", name="gate"))


async def test_a_model_set_during_a_run_answers_the_next_turn(tmp_path: Path) -> None:
    async with stage(tmp_path, HOLD, say("done")) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        await s.data("set_model", provider="ludolf", modelId="plain")
        s.gates.open("gate")
        await s.settled()
        assert [request.model.id for request in s.script.requests] == ["scripted", "plain"]
        entries = (await s.data("get_entries"))["entries"]
        assert "model_change" in [entry["type"] for entry in entries[3:]]


async def test_a_level_set_during_a_run_counts_from_the_next_turn(tmp_path: Path) -> None:
    async with stage(tmp_path, HOLD, say("done")) as s:
        await s.data("set_thinking_level", level="low")
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        await s.data("set_thinking_level", level="high")
        s.gates.open("gate")
        await s.settled()
        assert [request.thinking for request in s.script.requests] == ["low", "high"]
        assert [r["level"] for r in s.of_type("thinking_level_changed")] == ["low", "high"]


async def test_a_model_that_cannot_think_lowers_the_level_before_the_reply(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as s:
        await s.data("set_thinking_level", level="high")
        before = len(s.frames)
        model = await s.data("set_model", provider="ludolf", modelId="plain")
        assert model["id"] == "plain"
        assert story(s.frames[before:]) == ["thinking_level_changed", "reply set_model"]
        assert (await s.data("get_available_thinking_levels"))["levels"] == ["off"]
        assert await s.data("cycle_thinking_level") is None


async def test_an_unknown_model_or_level_changes_nothing(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        before = await s.data("get_state")
        error = await s.refusal("set_model", provider="ludolf", modelId="x")
        assert error == "Model not found: ludolf/x"
        assert "Invalid thinking level" in await s.refusal("set_thinking_level", level="x")
        assert "Invalid mode" in await s.refusal("set_steering_mode", mode="x")
        assert await s.data("get_state") == before


async def test_a_command_before_a_prompt_is_told_to_the_model(tmp_path: Path) -> None:
    async with stage(tmp_path, say("done")) as s:
        data = await s.data("bash", command="echo hi")
        assert (data["output"], data["exitCode"], data["cancelled"]) == ("hi\n", 0, False)
        await s.data("bash", command="echo secret", excludeFromContext=True)
        await s.run("go")
        seen = [type(message).__name__ for message in s.script.requests[0].messages]
        assert seen[0] == "BashExecutionMessage"
        assert asked_without_shell(s.script.requests[0]) == ["user go"]


async def test_a_command_during_a_run_is_stored_after_it(tmp_path: Path) -> None:
    async with stage(tmp_path, HOLD, say("done")) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        await s.data("bash", command="echo meanwhile")
        roles = await roles_of(s)
        assert roles == ["user", "assistant"]
        s.gates.open("gate")
        await s.settled()
        assert await roles_of(s) == [
            "user",
            "assistant",
            "toolResult",
            "assistant",
            "bashExecution",
        ]


async def test_a_command_during_a_run_that_is_replaced_stays_with_its_session(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, HOLD) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        await s.data("bash", command="echo meanwhile")
        old = s.path
        await s.data("new_session")
        assert await roles_of(s) == []
        await s.data("switch_session", sessionPath=str(old))
        assert (await roles_of(s))[-1] == "bashExecution"


async def test_abort_bash_ends_every_command_and_no_run(tmp_path: Path) -> None:
    async with stage(tmp_path, HOLD, say("done")) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        numbers = [s.send("bash", command=f"echo {n}; sleep 60") for n in range(2)]
        for number in numbers:
            await s.until(_output_of(number))
        await s.data("abort_bash")
        replies = [await s.reply(number) for number in numbers]
        assert all(reply["data"]["cancelled"] for reply in replies)
        s.gates.open("gate")
        await s.settled()
        assert texts(s.frames, "assistant")[-1] == "done"


async def test_a_reload_reads_the_settings_anew(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        (tmp_path / "agent" / "settings.json").write_bytes(
            dumps({"compaction": {"enabled": False}})
        )
        assert (await s.data("get_state"))["autoCompactionEnabled"]
        await s.data("reload")
        assert not (await s.data("get_state"))["autoCompactionEnabled"]


async def test_a_reload_finds_new_templates(tmp_path: Path) -> None:
    async with stage(tmp_path, say("done")) as s:
        assert (await s.data("get_commands"))["commands"] == []
        prompts = tmp_path / "agent" / "prompts"
        prompts.mkdir()
        (prompts / "greet.md").write_text("Greet $1 kindly.\n")
        await s.data("reload")
        assert [c["name"] for c in (await s.data("get_commands"))["commands"]] == ["greet"]
        await s.run("/greet Ada")
        assert asked(s.script.requests[0]) == ["user Greet Ada kindly.\n"]


async def test_a_reload_tells_what_is_wrong(tmp_path: Path) -> None:
    async with stage(tmp_path) as s:
        (tmp_path / "agent" / "settings.json").write_text("{nonsense")
        await s.data("reload")
        assert "settings.json" in s.of_type("warning")[0]["message"]


async def test_a_reload_is_refused_while_something_runs(tmp_path: Path) -> None:
    async with stage(tmp_path, HOLD, say("done")) as s:
        await s.data("prompt", message="go")
        await s.gates.reached("gate")
        assert "while the agent is working" in await s.refusal("reload")
        s.gates.open("gate")
        await s.settled()
        await s.data("reload")


async def test_getters_are_answered_at_once_in_every_state(tmp_path: Path) -> None:
    getters = ("get_state", "get_messages", "get_tree", "get_entries", "get_session_stats")
    async with stage(tmp_path, say("a long answer " * 50), HOLD, say("done")) as s:
        s.send("prompt", message="go")
        while s.engine.runner.running:
            for name in getters:
                number = s.send(name)
                assert s.frames[-1]["id"] == number
            await asyncio.sleep(0)
        assert texts(s.frames, "assistant") == ["a long answer " * 50]


async def roles_of(s: Any) -> list[str]:
    messages = (await s.data("get_messages"))["messages"]
    return [message["role"] for message in messages]


def asked_without_shell(request: Any) -> list[str]:
    from msgspec import structs

    kept = tuple(m for m in request.messages if type(m).__name__ != "BashExecutionMessage")
    return asked(structs.replace(request, messages=kept))


def _output_of(number: str) -> Test:
    return lambda r: r["type"] == "bash_execution_update" and r["id"] == number


async def test_a_command_that_outlives_its_session_is_stored_where_it_began(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, say("one"), say("two")) as s:
        await s.run("go")
        old = s.path
        number = s.send("bash", command="until [ -e over ]; do sleep 0.01; done; echo late")
        await s.data("new_session")
        await s.run("in the new session")
        (s.root / "work" / "over").touch()
        assert (await s.reply(number))["data"]["output"] == "late\n"
        assert await roles_of(s) == ["user", "assistant"]
        await s.data("switch_session", sessionPath=str(old))
        assert (await roles_of(s))[-1] == "bashExecution"


async def test_a_command_started_before_the_first_message_makes_the_session_it_belongs_to(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, say("one")) as s:
        old = s.path
        number = s.send("bash", command="until [ -e over ]; do sleep 0.01; done; echo late")
        await s.data("new_session")
        (s.root / "work" / "over").touch()
        assert (await s.reply(number))["success"]
        await s.data("switch_session", sessionPath=str(old))
        assert await roles_of(s) == ["bashExecution"]
