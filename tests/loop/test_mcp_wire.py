"""Commands and events about MCP servers: what hosts list, change and hear."""

from pathlib import Path

import pytest

from ludolf.base import dumps, loads
from tests.loop.mcp_stage import (
    counted,
    declared,
    ends,
    entry,
    in_state,
    known,
    results,
    served,
    starts,
    status,
    statuses,
    until,
    uses,
    warnings,
)
from tests.loop.stage import say, stage
from tests.mcp_server import TOOLS

ECHO = "mcp__lab__echo"
LAB = {"lab": entry("plain")}


async def test_a_host_without_servers_sees_nothing_of_them(tmp_path: Path) -> None:
    async with stage(tmp_path, say("Done")) as s:
        assert await statuses(s) == []
        await s.run("Go")
        assert s.of_type("mcp_server") == []
        assert "tool_search" not in declared(s)
        assert "<mcp_servers>" not in str(s.script.requests[0].system)
        assert await s.refusal("get_mcp_tools", name="x") == (
            'Unknown MCP server: "x". Servers: none.'
        )


async def test_a_host_lists_servers_and_their_tools(tmp_path: Path) -> None:
    servers = {"lab": entry("plain"), "off": entry("plain", enabled=False)}
    async with served(tmp_path, servers, say("Done")) as s:
        assert {one["name"]: one["state"] for one in await statuses(s)} == {
            "lab": "starting",
            "off": "disabled",
        }
        await s.run("Go")
        lab = await status(s, "lab")
        tools = (await s.data("get_mcp_tools", name="lab"))["tools"]
    assert lab.pop("pid") > 0
    assert lab == {
        "name": "lab",
        "source": "user",
        "path": str(tmp_path / "agent" / "mcp.json"),
        "transport": "stdio",
        "state": "ready",
        "exposure": "auto",
        "tools": len(TOOLS),
        "prompts": 1,
        "resources": 1,
        "protocolVersion": "2025-11-25",
        "serverInfo": {"name": "test-server", "version": "7"},
    }
    assert [tool["tool"] for tool in tools] == [tool["name"] for tool in TOOLS]
    assert [tool["tool"] for tool in tools if tool.get("readOnly")] == ["peek"]
    (echo,) = (tool for tool in tools if tool["tool"] == "echo")
    assert (echo["name"], echo["exposure"]) == (ECHO, "direct")
    assert echo["inputSchema"]["required"] == ["text"]


@pytest.mark.parametrize("dialect", ["pi", "pi-delta", "omp", "xcsh", "pi-early", "pi-0.79"])
async def test_hosts_of_a_dialect_with_the_event_see_each_state(
    tmp_path: Path, dialect: str
) -> None:
    has_event = dialect in ("pi", "pi-delta")
    replies = (uses(ECHO, text="x"), say("Done"))
    async with served(tmp_path, LAB, *replies, dialect=dialect, lawful=False) as s:
        s.send("prompt", message="Go")
        await until(lambda: len(s.script.requests) == 2 and not s.engine.runner.running)
        states = [frame["server"]["state"] for frame in s.of_type("mcp_server")]
        assert states == (["starting", "ready"] if has_event else [])


async def test_a_server_is_switched_off_and_on(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    replies = (say("On"), uses(ECHO, text="x"), say("Off"), uses(ECHO, text="y"), say("On"))
    async with served(tmp_path, {"lab": counted(path, "plain")}, *replies) as s:
        await s.run("On")
        seen = len(s.frames)
        changed = await s.data("set_mcp_server", name="lab", enabled=False)
        assert changed["server"]["state"] == "disabled"
        await in_state(s, "lab", "disabled", seen)
        await until(lambda: ends(path) == starts(path))
        await s.run("Off")
        assert ECHO not in declared(s)
        assert results(s)[-1] == (f"Tool {ECHO} not found", True)
        seen = len(s.frames)
        changed = await s.data("set_mcp_server", name="lab", enabled=True)
        assert changed["server"]["state"] == "known"
        await in_state(s, "lab", "known", seen)
        await s.run("On")
        assert results(s)[-1] == ("y", False)
    assert len(starts(path)) == 2


async def test_a_changed_exposure_holds_for_the_next_request(tmp_path: Path) -> None:
    replies = (say("Direct"), say("Deferred"), say("Hidden"))
    async with served(tmp_path, LAB, *replies) as s:
        await s.run("Direct")
        await s.data("set_mcp_server", name="lab", exposure="deferred")
        await s.run("Deferred")
        assert (ECHO in declared(s, 0), ECHO in declared(s, 1)) == (True, False)
        assert "tool_search" in declared(s, 1)
        await s.data("set_mcp_server", name="lab", exposure="hidden")
        await s.run("Hidden")
        assert not [name for name in declared(s, 2) if name.startswith("mcp__")]


async def test_a_saved_change_keeps_what_else_is_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "agent" / "mcp.json"
    async with served(tmp_path, {"lab": entry("plain", future={"x": 1})}) as s:
        raw = loads(file.read_bytes())
        file.write_bytes(dumps({"others": 7, **raw}))
        await s.data("set_mcp_server", name="lab", exposure="hidden", enabled=False, save=True)
        saved = loads(file.read_bytes())
        assert await s.data("set_mcp_servers", servers={"guest": entry("plain")})
        refusal = await s.refusal("set_mcp_server", name="guest", enabled=False, save=True)
    lab = {**raw["mcpServers"]["lab"], "exposure": "hidden", "enabled": False}
    assert saved == {"others": 7, "mcpServers": {"lab": lab}}
    assert "comes from the host" in refusal


async def test_a_host_replaces_the_whole_set_of_its_servers(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    replies = (uses("mcp__guest__echo", text="x"), say("Done"), say("Gone"))
    async with stage(tmp_path, *replies) as s:
        given = await s.data("set_mcp_servers", servers={"guest": counted(path, "plain")})
        assert [(one["name"], one["source"]) for one in given["servers"]] == [("guest", "host")]
        await s.run("Go")
        assert results(s) == [("x", False)]
        refusal = await s.refusal(
            "set_mcp_servers", servers={"good": entry("plain"), "bad": {"command": 5}}
        )
        assert '"bad"' in refusal
        twice = {"a-b": entry("plain"), "a_b": entry("plain")}
        assert "means the same" in await s.refusal("set_mcp_servers", servers=twice)
        (guest,) = await statuses(s)
        assert (guest["name"], guest["state"], guest["pid"]) == ("guest", "ready", starts(path)[0])
        assert (await s.data("set_mcp_servers", servers={}))["servers"] == []
        await s.run("Gone")
        assert not [name for name in declared(s) if name.startswith("mcp__")]
        await until(lambda: ends(path) == starts(path))
    assert not (tmp_path / "agent" / "mcp.json").exists()


async def test_a_reconnect_that_cannot_succeed_says_why(tmp_path: Path) -> None:
    servers = {"bad": entry("exit"), "off": entry("plain", enabled=False)}
    async with served(tmp_path, servers) as s:
        assert await s.refusal("mcp_reconnect", name="what") == (
            'Unknown MCP server: "what". Servers: bad, off.'
        )
        assert "disabled" in await s.refusal("mcp_reconnect", name="off")
        assert "exit code 3" in await s.refusal("mcp_reconnect", name="bad")
        # Without a name each server says in its state how it went.
        states = (await s.data("mcp_reconnect"))["servers"]
        assert {one["name"]: one["state"] for one in states} == {"bad": "failed", "off": "disabled"}


async def test_a_reconnect_gives_a_running_server_a_new_process(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    async with served(tmp_path, {"lab": counted(path, "plain")}, say("Done")) as s:
        await s.run("Go")
        (lab,) = (await s.data("mcp_reconnect"))["servers"]
        assert lab["pid"] == starts(path)[1]
        assert ends(path) == starts(path)[:1]
        assert warnings(s) == []


async def test_a_call_that_waits_for_a_start_survives_a_reconnect(tmp_path: Path) -> None:
    await known(tmp_path, LAB)
    gate = tmp_path / "gate"
    slow = {"lab": entry("plain", env={"GATE": str(gate)})}
    gate.touch()
    await known(tmp_path, slow)
    gate.unlink()
    async with served(tmp_path, slow, uses(ECHO, text="x"), say("Done")) as s:
        await s.data("prompt", message="Go")
        await in_state(s, "lab", "starting")
        number = s.send("mcp_reconnect", name="lab")
        gate.touch()
        assert (await s.reply(number))["success"]
        await s.settled()
        ((text, failed),) = results(s)
        assert (text, failed) == ("x", False)


async def test_a_call_whose_server_the_host_removes_fails_and_the_run_continues(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path, uses("mcp__guest__wait"), say("Done")) as s:
        await s.data("set_mcp_servers", servers={"guest": entry("plain")})
        await s.data("prompt", message="Go")
        await s.until("tool_execution_update")
        await s.data("set_mcp_servers", servers={})
        await s.settled()
        ((text, failed),) = results(s)
        assert failed
        assert 'MCP server "guest"' in text
        assert len(s.script.requests) == 2
        assert "mcp__guest__wait" not in declared(s)
