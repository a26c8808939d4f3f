"""What servers offer besides tools, and what subagents get of it."""

from pathlib import Path

import pytest

from ludolf.agent.scope import Scope
from ludolf.ai.builtin.models import scripted_model
from ludolf.ai.messages import UserMessage
from ludolf.engine.features.subagents.agents import Agent
from ludolf.engine.features.subagents.subagent import SubagentTask
from tests.loop.mcp_stage import (
    counted,
    declared,
    entry,
    known,
    results,
    served,
    starts,
    status,
    uses,
)
from tests.loop.stage import Stage, asked, say, texts

ECHO, SEARCH = "mcp__lab__echo", "tool_search"
LAB = {"lab": entry("plain")}


# ---------------------------------------------------------------- prompts and resources


async def test_prompts_of_a_server_are_commands(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    lab = {"lab": counted(path, "plain")}
    await known(tmp_path, lab)
    async with served(tmp_path, lab, say("Hi"), say("Hi")) as s:
        items = (await s.data("get_commands"))["commands"]
        (item,) = (one for one in items if one["source"] == "mcp")
        assert item["name"] == "mcp:lab:greet"
        assert len(starts(path)) == 1
        refusal = await s.refusal("prompt", message="/mcp:lab:greet")
        assert refusal == "Missing argument: who. Usage: /mcp:lab:greet who"
        assert texts(await s.run("/mcp:lab:greet Ada")) == ["Greet Ada."]
        assert asked(s.script.requests[0])[-1] == "user Greet Ada."
        assert texts(await s.run("/mcp__lab__greet Ada L")) == ["Greet Ada L."]


async def test_resources_are_found_by_a_search_and_read(tmp_path: Path) -> None:
    replies = (
        uses(SEARCH, query="read resource", limit=1),
        uses("read_mcp_resource", server="lab", uri="test://doc"),
        uses("list_mcp_resources"),
        uses("list_mcp_resource_templates", server="lab"),
        say("Done"),
    )
    async with served(tmp_path, LAB, *replies) as s:
        await s.run("Go")
        assert declared(s, 0)[-1] == SEARCH
        assert declared(s, 1) == [*declared(s, 0), "read_mcp_resource"]
        found, read, listed, templates = results(s)
    assert found[0].startswith("read_mcp_resource\n")
    assert (read[1], "contents" in read[0]) == (False, True)
    assert listed == ("lab: test://doc - doc", False)
    assert templates == ("lab: test://{name} - any", False)


async def test_no_resource_tool_without_a_server_that_has_some(tmp_path: Path) -> None:
    servers = {"lab": entry("undeclared")}
    async with served(tmp_path, servers, uses("list_mcp_resources"), say("Done")) as s:
        await s.run("Go")
        assert SEARCH not in declared(s, 0)
        assert results(s) == [("Tool list_mcp_resources not found", True)]


# ---------------------------------------------------------------- subagents


async def run_agent(s: Stage, tools: tuple[str, ...] | None = None) -> list[str]:
    """Run an agent to its end; the texts of its results."""
    agent = Agent(name="a", description="", source="bundled", prompt="", tools=tools)
    task = SubagentTask(
        id="1",
        name="One",
        index=0,
        call_id="c",
        agent=agent,
        assignment="",
        context="",
        file=s.root / "one.jsonl",
        model=scripted_model(),
        level="off",
        wanted=(),
        scope=Scope(),
    )
    engine = s.engine.spawn(task)
    try:
        engine.runner.start((UserMessage(content="Go", timestamp=1),))
        await engine.settled()
        said = engine.session.path_to_leaf()
        return [entry.line.decode() for entry in said if b'"toolResult"' in entry.line]
    finally:
        await engine.close(owns_models=False)


async def test_a_subagent_uses_the_processes_of_its_parent_and_can_search(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    servers = {"lab": counted(path, "plain"), "many": entry("paged", 200)}
    replies = (
        uses(ECHO, text="by the agent"),
        uses(SEARCH, query="tool_7", limit=1),
        say("Done"),
        say("Parent"),
    )
    async with served(tmp_path, servers, *replies) as s:
        called, found = await run_agent(s)
        assert "by the agent" in called
        assert '"loaded":["mcp__many__tool_7"]' in found
        assert declared(s, 2)[-1] == "mcp__many__tool_7"
        # Its end leaves the servers to the parent, whose declarations are its own.
        await s.run("Go")
        assert declared(s)[-1] == SEARCH
        assert (await status(s, "lab"))["pid"] == starts(path)[0]
    assert len(starts(path)) == 1


@pytest.mark.parametrize(
    ("tools", "allowed", "searches"),
    [(("read",), False, False), (("read", "mcp__lab__e*"), True, False), (None, True, True)],
)
async def test_an_agent_definition_limits_what_a_subagent_may_use(
    tmp_path: Path, tools: tuple[str, ...] | None, *, allowed: bool, searches: bool
) -> None:
    replies = (uses(ECHO, text="x"), uses("mcp__lab__peek"), say("Done"))
    async with served(tmp_path, LAB, *replies) as s:
        echoed, peeked = await run_agent(s, tools)
        names = declared(s, 0)
    assert ("not found" not in echoed) is allowed
    assert ("not found" not in peeked) is (tools is None)
    assert (ECHO in names, SEARCH in names) == (allowed, searches)
    assert "list_mcp_resources" not in names
