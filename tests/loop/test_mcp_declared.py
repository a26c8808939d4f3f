"""Which tools of MCP servers requests declare: few, found by searches, and a prefix that stays."""

from itertools import pairwise
from pathlib import Path

from ludolf.ai.provider import Request
from ludolf.base import dumps
from tests.loop.laws import Record
from tests.loop.mcp_stage import (
    declared,
    entry,
    in_state,
    known,
    results,
    served,
    uses,
    warnings,
)
from tests.loop.stage import Stage, say, stage
from tests.mcp_server import TOOLS

MANY = {"many": entry("paged", 200)}
LAB = {"lab": entry("plain")}
SEARCH = "tool_search"
SEVEN = "mcp__many__tool_7"


def sizes(request: Request) -> int:
    return len(dumps([[t.name, t.description, t.parameters] for t in request.tools]))


def check_prefixes(s: Stage) -> None:
    """Each request begins with the tools and the system prompt of the one before."""
    requests = s.script.requests
    for before, after in pairwise(requests):
        assert after.system == before.system
        assert dumps(after.tools[: len(before.tools)]) == dumps(before.tools)


async def test_many_tools_cost_little_until_a_search_finds_them(tmp_path: Path) -> None:
    async with stage(tmp_path / "plain", say("Done")) as s:
        await s.run("Go")
        own = sizes(s.script.requests[0])
    replies = (
        uses(SEARCH, query="tool_7", limit=1),
        uses(SEVEN),
        uses(SEARCH, query="tool_3", limit=1),
        say("Done"),
    )
    async with served(tmp_path, MANY, *replies) as s:
        await s.run("Go")
        first = s.script.requests[0]
        assert sizes(first) - own <= 2048
        assert declared(s, 0)[-1] == SEARCH
        assert "- many: Use echo." in str(first.system)
        assert declared(s, 1) == [*declared(s, 0), SEVEN]
        assert declared(s, 3) == [*declared(s, 0), SEVEN, "mcp__many__tool_3"]
        check_prefixes(s)
        found, called, again = results(s)
    assert found[0].startswith(f"{SEVEN}\nThe tool tool_7.\nParameters: ")
    assert "Use echo." in found[0]
    # The tools of this mode are listed, but the server does not know them.
    assert called == ('MCP server "many": Unknown tool: tool_7', True)
    assert "Use echo." not in again[0]


async def test_found_tools_belong_to_the_path_of_the_session(tmp_path: Path) -> None:
    replies = (say("Nothing yet"), uses(SEARCH, query="tool_7", limit=1), say("Found"))
    async with served(tmp_path, MANY, *replies) as s:
        await s.run("First")
        await s.run("Find")
        path, expected = s.path, declared(s)
        assert expected[-1] == SEVEN
    async with served(
        tmp_path, MANY, say("Same"), say("Before"), options={"session": str(path)}
    ) as s:
        await s.run("Again")
        assert declared(s) == expected
        messages = (await s.data("get_fork_messages"))["messages"]
        (entry_id,) = (one["entryId"] for one in messages if one["text"] == "Find")
        await s.data("fork", entryId=entry_id)
        await s.run("Otherwise")
        assert declared(s) == expected[:-1]


async def test_a_known_tool_runs_though_it_was_not_declared(tmp_path: Path) -> None:
    lab = {"lab": entry("plain", exposure="deferred")}
    async with served(tmp_path, lab, uses("mcp__lab__echo", text="x"), say("Done")) as s:
        await s.run("Go")
        assert "mcp__lab__echo" not in declared(s, 0)
        assert results(s) == [("x", False)]


async def test_exposure_is_chosen_per_tool_and_hidden_tools_do_not_exist(tmp_path: Path) -> None:
    patterns = {"e*": "direct", "environment": "hidden", "pee*": "codemode"}
    lab = {"lab": entry("plain", exposure="hidden", toolExposure=patterns)}
    replies = (
        uses("mcp__lab__environment"),
        uses(SEARCH, query="environment"),
        uses(SEARCH, query="mcp__lab__peek"),
        uses("mcp__lab__peek"),
        say("Done"),
    )
    async with served(tmp_path, lab, *replies) as s:
        await s.run("Go")
        served_names = [name for name in declared(s, 0) if name.startswith("mcp__")]
        assert served_names == ["mcp__lab__echo"]
        tools = (await s.data("get_mcp_tools", name="lab"))["tools"]
        exposures = {tool["tool"]: tool["exposure"] for tool in tools}
        called, missed, found, peeked = results(s)
    assert called == ("Tool mcp__lab__environment not found", True)
    assert "mcp__lab__environment" not in missed[0]
    assert found[0].startswith("mcp__lab__peek\n")
    assert peeked == ("peeked", False)
    assert {name for name, each in exposures.items() if each != "hidden"} == {"echo", "peek"}
    assert (exposures["echo"], exposures["peek"]) == ("direct", "deferred")


async def test_a_tool_that_a_server_adds_is_callable_and_the_prefix_stays(tmp_path: Path) -> None:
    replies = (uses("mcp__lab__grow"), say("Grown"))
    more = (uses(SEARCH, query="grown", limit=1), uses("mcp__lab__grown"), say("Done"))
    async with served(tmp_path, LAB, *replies, *more) as s:
        await s.run("Grow")
        count = len(TOOLS)

        def has_grown(frame: Record) -> bool:
            return frame["type"] == "mcp_server" and bool(frame["server"]["tools"] == count + 1)

        await s.until(has_grown)
        await s.run("Use it")
        assert declared(s)[-1] == "mcp__lab__grown"
        check_prefixes(s)
        assert results(s)[-1] == ('MCP server "lab": Unknown tool: grown', True)
        assert warnings(s) == []


async def test_a_server_that_is_late_does_not_change_earlier_tools(tmp_path: Path) -> None:
    await known(tmp_path, LAB)
    gate = tmp_path / "gate"
    servers = {**LAB, "late": entry("paged", 200, env={"GATE": str(gate)})}
    settings = {"mcp": {"firstWaitMs": 10}}
    replies = (say("One"), uses(SEARCH, query="late tool_7", limit=1), say("Done"))
    async with served(tmp_path, servers, *replies, settings=settings) as s:
        await s.run("One")
        gate.touch()
        await in_state(s, "late", "ready")
        await s.run("Two")
        assert declared(s)[-1] == "mcp__late__tool_7"
        check_prefixes(s)
