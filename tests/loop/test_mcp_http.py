"""Servers over HTTP in a session: calls, and a login that is missing."""

from pathlib import Path

from ludolf.config.mcp.auth_file import ServerLogin
from tests.loop.mcp_stage import (
    Entry,
    declared,
    in_state,
    results,
    served,
    status,
    uses,
    warnings,
)
from tests.loop.stage import say
from tests.mcp_server import HttpMcp

ECHO = "mcp__lab__echo"


def log_in(root: Path, url: str, token: str) -> None:
    stored = {"tokens": {"access_token": token, "token_type": "Bearer"}}
    ServerLogin(root / "agent", "lab", url).change(lambda old: stored)


async def test_a_server_over_http_is_used_and_left(tmp_path: Path) -> None:
    with HttpMcp("plain") as server:
        lab = {"lab": {"url": server.url, "headers": {"X-Team": "blue"}}}
        async with served(tmp_path, lab, uses(ECHO, text="x"), say("Done")) as s:
            await s.run("Go")
            assert results(s) == [("x", False)]
            shown = await status(s, "lab")
            assert (shown["transport"], shown["state"], shown.get("pid")) == ("http", "ready", None)
        assert server.sessions == set()
        assert {headers["x-team"] for _, _, headers, _ in server.requests} == {"blue"}


async def test_a_server_that_wants_a_login_says_so_once_and_waits_for_it(tmp_path: Path) -> None:
    replies = (say("One"), say("Two"), uses(ECHO, text="x"), say("Three"))
    with HttpMcp("locked") as server:
        async with served(tmp_path, {"lab": {"url": server.url}}, *replies) as s:
            await s.run("One")
            await in_state(s, "lab", "needs_login")
            asked = len(server.requests)
            await s.run("Two")
            assert len(server.requests) == asked
            assert (await status(s, "lab"))["state"] == "needs_login"
            assert warnings(s) == ['MCP server "lab" needs a login. Run "ludolf mcp login lab".']
            assert "login" in await s.refusal("mcp_reconnect", name="lab")
            assert len(warnings(s)) == 1
            log_in(tmp_path, server.url, "good")
            (lab,) = (await s.data("mcp_reconnect", name="lab"))["servers"]
            assert lab["state"] == "ready"
            await s.run("Three")
            assert results(s) == [("x", False)]
            assert ECHO not in declared(s, 1)


async def test_a_login_that_ends_is_reported_by_the_call_that_needs_it(tmp_path: Path) -> None:
    replies = [reply for _ in range(4) for reply in (uses(ECHO, text="x"), say("Done"))]
    with HttpMcp("locked") as server:
        log_in(tmp_path, server.url, "good")
        async with served(tmp_path, {"lab": {"url": server.url}}, *replies) as s:
            await s.run("One")
            log_in(tmp_path, server.url, "bad")
            await s.run("Two")
            await in_state(s, "lab", "needs_login")
            await s.run("Three")
            assert (await status(s, "lab"))["state"] == "needs_login"
            log_in(tmp_path, server.url, "good")
            (lab,) = (await s.data("mcp_reconnect"))["servers"]
            assert lab["state"] == "ready"
            await s.run("Four")
            assert [failed for _, failed in results(s)] == [False, True, True, False]
            assert all("log" in text for text, failed in results(s) if failed)
            assert len(warnings(s)) == 1


async def test_a_logout_is_answered_and_removes_the_login(tmp_path: Path) -> None:
    with HttpMcp("locked") as server:
        lab: dict[str, Entry] = {
            "lab": {"url": server.url},
            "pipe": {"command": "true", "enabled": False},
        }
        log_in(tmp_path, server.url, "good")
        async with served(tmp_path, lab) as s:
            gone = await s.data("mcp_logout", name="lab")
            assert gone == {"name": "lab", "removed": True}
            assert (await s.data("mcp_logout", name="lab"))["removed"] is False
            refusal = await s.refusal("mcp_logout", name="pipe")
            assert "only HTTP servers have logins" in refusal
    assert ServerLogin(tmp_path / "agent", "lab", server.url).load() is None
