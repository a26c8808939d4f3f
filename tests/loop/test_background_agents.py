"""Agents in the background at awkward moments: ends, aborts and changes that meet."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.builtin.scripted import ScriptedReply
from ludolf.engine.features.subagents.subagents import SubagentSpawner
from tests.loop.stage import Stage, call, calls, say, stage

ONE = {"task": "look around", "name": "Look"}


@asynccontextmanager
async def desk(
    root: Path, *tasks: dict[str, str], task: dict[str, Any] | None = None, answers: int = 1
) -> AsyncIterator[tuple[Stage, SubagentSpawner]]:
    """A stage whose agent has come to rest while others, whose model hangs, work for it."""
    replies = [calls(call("task", "c1", tasks=list(tasks))), say("waiting", match="go")]
    hanging = [ScriptedReply(text="working", match="assignment", hang=True) for _ in tasks]
    more = [say("all done") for _ in range(answers)]
    settings = {"task": {"enabled": True, **(task or {})}}
    async with stage(root, *replies, *hanging, *more, settings=settings, lawful=False) as s:
        jobs = s.engine.features.find(SubagentSpawner)
        assert jobs is not None
        await s.run("go")
        await s.asked(3)
        yield s, jobs


async def turns_until(done: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if done():
            return
        await asyncio.sleep(0)
    raise TimeoutError


async def test_settings_are_not_read_anew_under_the_feet_of_agents(tmp_path: Path) -> None:
    async with desk(tmp_path, ONE) as (s, _):
        assert "while the agent is working" in await s.refusal("reload")
        await s.data("abort")
        await s.data("reload")


async def test_a_program_that_is_to_end_does_so_when_the_last_agent_is_aborted(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path, ONE) as (s, _):
        ended: list[bool] = []
        s.engine.on_shutdown = lambda: ended.append(True)
        s.engine.shutdown()
        assert ended == []
        await s.data("abort")
        assert ended == [True]


@pytest.mark.parametrize("turns", range(12))
async def test_an_abort_ends_an_agent_that_just_gets_its_place(tmp_path: Path, turns: int) -> None:
    two = {"task": "wait for a place", "name": "Next"}
    async with desk(tmp_path, ONE, two, task={"maxConcurrency": 1}) as (s, jobs):
        first = jobs.registry.find("Look")
        assert first is not None
        first.abort(silent=True)
        await turns_until(lambda: jobs.registry.find("Look") is None)
        for _ in range(turns):
            await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await s.engine.abort()
        assert jobs.registry.snapshots() == []
        assert s.engine.is_settled
