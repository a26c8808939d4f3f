"""Tools of MCP servers as the model uses them: calls, results, failures."""

from pathlib import Path

import pytest

from tests.loop.mcp_stage import declared, entry, results, served, uses
from tests.loop.stage import asked, call, calls, say

LAB = {"lab": entry("plain")}


async def test_a_tool_of_a_server_is_declared_called_and_answers_the_model(tmp_path: Path) -> None:
    replies = (uses("mcp__lab__echo", text="hëllo"), say("Done"))
    async with served(tmp_path, LAB, *replies) as s:
        await s.run("Go")
        (end,) = s.of_type("tool_execution_end")
        (spec,) = (t for t in s.script.requests[0].tools if t.name == "mcp__lab__echo")
        heard = asked(s.script.requests[1])
    assert spec.description == "The tool echo."
    assert spec.parameters["properties"] == {"text": {"type": "string"}}
    assert end["isError"] is False
    assert end["result"]["content"] == [{"type": "text", "text": "hëllo"}]
    assert end["result"]["details"] == {"server": "lab", "tool": "echo"}
    assert heard[-1] == "toolResult hëllo"


async def test_failures_of_tools_are_error_results_and_the_run_continues(tmp_path: Path) -> None:
    names = ("fail", "refuse", "echo", "missing", "odd", "peek")
    replies = [uses(f"mcp__lab__{name}") for name in names]
    async with served(tmp_path, LAB, *replies, say("Done")) as s:
        await s.run("Go")
        got = results(s)
    assert [failed for _, failed in got] == [True, True, True, True, True, False]
    assert [text for text, _ in got[:2]] == [
        "it did not work",
        'MCP server "lab": refused by the server',
    ]
    assert "text" in got[2][0]
    assert "mcp__lab__missing" in got[3][0]
    assert got[5][0] == "peeked"


async def test_calls_of_several_servers_run_in_one_batch(tmp_path: Path) -> None:
    servers = {"lab": entry("plain"), "other-one": entry("modern")}
    batch = calls(
        call("mcp__lab__echo", "c1", text="one"), call("mcp__other_one__echo", "c2", text="two")
    )
    async with served(tmp_path, servers, batch, say("Done")) as s:
        await s.run("Go")
        assert sorted(results(s)) == [("one", False), ("two", False)]


async def test_progress_of_a_call_is_shown_to_the_host(tmp_path: Path) -> None:
    replies = (uses("mcp__lab__steps", count=2, pause=0), say("Done"))
    async with served(tmp_path, LAB, *replies) as s:
        await s.run("Go")
        shown = [str(frame["partialResult"]) for frame in s.of_type("tool_execution_update")]
    assert "1: step 1" in shown[0]


@pytest.mark.parametrize(
    ("options", "callable_names", "searches"),
    [
        ({"exclude_tools": ("mcp__lab__e*",)}, {"peek"}, True),
        ({"exclude_tools": ("mcp__lab__e*", "*_search")}, {"peek"}, False),
        ({"exclude_tools": ("mcp__*",)}, set(), False),
        ({"tools": ("read",)}, {"peek", "echo"}, True),
        ({"tools": ("read", "mcp__lab__peek")}, {"peek"}, False),
        ({"tools": ("read", "mcp__lab__peek", "read_mcp_resource")}, {"peek"}, True),
        ({"no_tools": True}, set(), False),
    ],
)
async def test_options_restrict_what_is_declared_found_and_called(
    tmp_path: Path, options: dict[str, object], callable_names: set[str], *, searches: bool
) -> None:
    names = {"c-peek": "mcp__lab__peek", "c-echo": "mcp__lab__echo"}
    wanted = calls(call(names["c-peek"], "c-peek"), call(names["c-echo"], "c-echo", text="x"))
    async with served(tmp_path, LAB, wanted, say("Done"), options=options) as s:
        await s.run("Go")
        ends = s.of_type("tool_execution_end")
        shown = declared(s, 0)
        tools = (await s.data("get_mcp_tools", name="lab"))["tools"]
    ran = {end["toolCallId"] for end in ends if not end["isError"]}
    assert ran == {f"c-{name}" for name in callable_names}
    assert {each for each, name in names.items() if name in shown} == ran
    assert ("tool_search" in shown) is searches
    direct = {tool["tool"] for tool in tools if tool["exposure"] == "direct"}
    assert direct & {"peek", "echo"} == callable_names
