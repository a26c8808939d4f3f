"""A project that nobody trusts cannot bill, freeze or read its way through the program."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from ludolf.config.resources import rules as rules_module
from ludolf.engine.features.stream_rules import INTERRUPTED_OFTEN, MOST_INTERRUPTIONS, SEARCHED_LONG
from ludolf.engine.features.subagents.agents import find_agents
from tests.loop.stage import WAIT_SECONDS, Stage, say, stage

SECRET = "sk-private-7d1c"


def _rule(root: Path, name: str, condition: str, more: str = "") -> None:
    folder = root / "work" / ".clinerules"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(f"---\ncondition: '{condition}'\n{more}---\nDo not.\n")


def _warnings(on: Stage) -> list[str]:
    return [record["message"] for record in on.of_type("warning")]


@pytest.mark.parametrize("more", ["", "interruptMode: never\n"])
async def test_rules_interrupt_one_prompt_a_few_times_only(tmp_path: Path, more: str) -> None:
    count = MOST_INTERRUPTIONS + 10
    for number in range(1, count + 1):
        _rule(tmp_path, f"r{number:02}", f"^x{{{number}}}$", more)
    replies = [say("x" * number) for number in range(1, count + 1)]
    async with stage(tmp_path, *replies, lawful=False) as on:
        await on.run("Go")
        assert len(on.script.requests) == MOST_INTERRUPTIONS + 1
        assert _warnings(on).count(INTERRUPTED_OFTEN) == 1


async def test_the_next_prompt_may_be_interrupted_again(tmp_path: Path) -> None:
    for number in range(1, MOST_INTERRUPTIONS + 3):
        _rule(tmp_path, f"r{number:02}", f"^x{{{number}}}$")
    replies = [say("x" * number) for number in range(1, MOST_INTERRUPTIONS + 4)]
    async with stage(tmp_path, *replies, lawful=False) as on:
        await on.run("Go")
        before = len(on.script.requests)
        await on.run("Go on")
        assert len(on.script.requests) == before + 2


async def test_a_pattern_that_takes_long_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludolf.engine.features.stream_rules.STEPS", 5_000)
    _rule(tmp_path, "slow", "[ab]*a[ab]{300}c")
    text = "".join("ab"[number * number % 7 % 2] for number in range(3_000))
    async with stage(tmp_path, say(text), say("Well.")) as on:
        await on.run("Go")
        await on.run("Go on")
        assert len(on.script.requests) == 2
        assert _warnings(on).count(SEARCHED_LONG) == 1


async def test_an_abort_is_answered_while_rules_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _rule(tmp_path, "one", "x")
    load, gate = rules_module.load_stream_rules, threading.Event()

    def slow(*args: Any, **more: Any) -> Any:
        assert gate.wait(WAIT_SECONDS)
        return load(*args, **more)

    monkeypatch.setattr(rules_module, "load_stream_rules", slow)
    async with stage(tmp_path, say("Never.")) as on:
        try:
            await on.data("prompt", message="Go")
            assert (await on.data("get_state"))["isStreaming"] is True
            await on.data("abort")
            await on.settled()
            assert on.script.requests == []
        finally:
            gate.set()


async def test_a_linked_instruction_file_does_not_reach_the_model(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "auth.json").write_text(SECRET)
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "AGENTS.md").symlink_to("../agent/auth.json")
    (tmp_path / ".git").mkdir()
    async with stage(tmp_path, say("Well."), options={"no_context_files": False}) as on:
        await on.run("Go")
        assert SECRET not in on.script.requests[0].system


async def test_odd_agents_of_a_trusted_project_are_passed_over(tmp_path: Path) -> None:
    agents = tmp_path / "work" / ".pi" / "agents"
    agents.mkdir(parents=True)
    (agents / "good.md").write_text("---\ndescription: d\n---\nGood.")
    os.mkfifo(agents / "pipe.md")
    (tmp_path / "private.md").write_text(SECRET)
    (agents / "link.md").symlink_to(tmp_path / "private.md")
    (agents / "deep.md").write_text("---\ntools: " + "[" * 50_000 + "\n---\n")
    async with stage(tmp_path, options={"approve": True}) as on:
        found = find_agents(on.engine.workspace, on.engine.features)
    assert [name for name, agent in found.items() if agent.source == "project"] == ["good"]
