"""The life of MCP servers: when they start, when they end, and what a host hears of it."""

import asyncio
import gc
import os
import signal
from pathlib import Path
from typing import Any
from warnings import catch_warnings, simplefilter

import pytest

from ludolf.config.mcp.cache import read_cached_servers
from ludolf.config.mcp.entries import parse_entry
from ludolf.config.mcp.resolution import server_cache_key
from ludolf.engine.features.mcp import servers as life
from tests.loop.mcp_stage import (
    counted,
    declared,
    ended,
    ends,
    entry,
    known,
    results,
    served,
    starts,
    status,
    until,
    uses,
    warnings,
)
from tests.loop.stage import call, calls, say, text_of
from tests.mcp_server import TOOLS, program

ECHO, DIE, PEEK = "mcp__lab__echo", "mcp__lab__die", "mcp__lab__peek"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed servers start again without a delay."""
    monkeypatch.setattr(life, "DELAYS", (0.0, 0.0, 0.0))


async def test_a_known_server_starts_when_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    lab = {"lab": counted(path, "plain")}
    await known(tmp_path, lab)
    (first,) = starts(path)
    replies = (say("Nothing"), uses(ECHO, text="x"), say("Done"))
    async with served(tmp_path, lab, *replies) as s:
        await s.run("Nothing")
        assert (await status(s, "lab"))["state"] == "known"
        assert ECHO in declared(s, 0)
        assert starts(path) == [first]
        await s.run("Use it")
        (update,) = s.of_type("tool_execution_update")
        assert text_of(update["partialResult"]) == 'Starting MCP server "lab"...'
        assert results(s) == [("x", False)]
        running = await status(s, "lab")
    assert (running["state"], running["pid"]) == ("ready", starts(path)[-1])
    assert ends(path) == starts(path)


async def test_what_a_server_offers_is_stored_under_the_digest_of_its_entry(
    tmp_path: Path,
) -> None:
    raw = entry("plain")
    await known(tmp_path, {"lab": raw})
    key = server_cache_key(parse_entry("lab", raw, "user"), os.environ, tmp_path / "work")
    cache = tmp_path / "agent" / "mcp-cache.json"
    (record,) = read_cached_servers(cache, (key,), dict[str, Any]).values()
    assert len(record["tools"]) == len(TOOLS)
    assert os.stat(tmp_path / "agent" / "mcp-cache.json").st_mode & 0o777 == 0o600


async def test_a_server_may_end_on_its_own_terms_when_the_program_ends(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    servers = {"lab": counted(path, "plain"), "two": counted(path, "modern")}
    async with served(tmp_path, servers, say("Done")) as s:
        await s.run("Go")
    assert sorted(ends(path)) == sorted(starts(path))
    assert len(starts(path)) == 2
    assert warnings(s) == []


async def test_the_first_prompt_does_not_wait_longer_than_the_settings_say(tmp_path: Path) -> None:
    lab = {"lab": entry("plain")}
    await known(tmp_path, lab)
    servers = {**lab, "mute": entry("mute", description="Says nothing.")}
    settings = {"mcp": {"firstWaitMs": 20}}
    replies = (uses(ECHO, text="x"), say("Done"), say("Again"))
    async with served(tmp_path, servers, *replies, settings=settings) as s:
        await s.run("Go")
        assert (await status(s, "mute"))["state"] == "starting"
        assert results(s) == [("x", False)]
        assert "- mute: Says nothing." in str(s.script.requests[0].system)
        await s.run("Again")
        assert s.script.requests[0].system == s.script.requests[-1].system


async def test_only_the_first_prompt_waits(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    settings = {"mcp": {"firstWaitMs": 3_600_000}}
    replies = (say("One"), say("Two"))
    async with served(tmp_path, {"mute": counted(path, "mute")}, *replies, settings=settings) as s:
        s.send("prompt", message="Go")
        await until(lambda: len(starts(path)) == 1)
        assert s.script.requests == []
        os.kill(starts(path)[0], signal.SIGKILL)
        await until(lambda: bool(s.script.requests))
        await s.settled()
        await s.run("Again")
        assert len(s.script.requests) == 2
        assert (await status(s, "mute"))["state"] == "starting"


async def test_calls_at_the_same_time_start_one_process(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    lab = {"lab": counted(path, "plain")}
    await known(tmp_path, lab)
    batch = calls(*(call(ECHO, f"c{number}", text=str(number)) for number in range(3)))
    async with served(tmp_path, lab, batch, say("Done")) as s:
        await s.run("Go")
        assert sorted(results(s)) == [("0", False), ("1", False), ("2", False)]
    assert len(starts(path)) == 2


async def test_an_abort_ends_the_wait_for_a_server(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    settings = {"mcp": {"firstWaitMs": 3_600_000}}
    async with served(tmp_path, {"mute": counted(path, "mute")}, settings=settings) as s:
        s.send("prompt", message="Go")
        await until(lambda: len(starts(path)) == 1)
        await s.data("abort")
        await s.settled()
        assert s.script.requests == []
    assert ends(path) == starts(path)


# ---------------------------------------------------------------- failures


async def test_a_server_that_dies_in_a_call_is_started_by_the_next_use(
    tmp_path: Path, impatient: None
) -> None:
    path = tmp_path / "starts"
    replies = (uses(DIE), uses(ECHO, text="x"), say("Done"))
    async with served(tmp_path, {"lab": counted(path, "plain")}, *replies) as s:
        await s.run("Go")
        (died, failed), answered = results(s)
        assert failed
        assert 'MCP server "lab"' in died
        assert "exit code 9" in died
        assert "the end is near" in died
        assert answered == ("x", False)
        (warning,) = warnings(s)
        assert "exit code 9" in warning
    # The call was not sent to the second process: it lives, and was asked to end.
    assert len(starts(path)) == 2
    assert ends(path) == starts(path)[1:]


async def test_a_server_that_fails_three_times_waits_for_mcp_reconnect(
    tmp_path: Path, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "starts"
    lab = {"lab": counted(path, "plain")}
    replies = (*(uses(DIE) for _ in range(3)), uses(ECHO, text="x"), say("Done"))
    again = [reply for _ in range(2) for reply in (uses(ECHO, text="y"), say("Done"))]
    async with served(tmp_path, lab, *replies, *again) as s:
        await s.run("Go")
        assert len(starts(path)) == 3
        text, failed = results(s)[-1]
        assert failed
        assert "failed 3 times" in text
        assert "mcp_reconnect" in text
        assert (await status(s, "lab"))["state"] == "failed"
        # The time that has passed since then makes no difference.
        monkeypatch.setattr(life, "FAILURE_SECONDS", -1.0)
        await s.run("Later")
        assert len(starts(path)) == 3
        assert (await s.data("mcp_reconnect", name="lab"))["servers"][0]["state"] == "ready"
        await s.run("Again")
        assert results(s)[-1] == ("y", False)
    assert len(starts(path)) == 4


async def test_a_start_that_fails_is_reported_once_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "secret")
    servers = {"bad": entry("exit"), "lab": entry("plain")}
    async with served(tmp_path, servers, uses(ECHO, text="x"), say("Done")) as s:
        await s.run("Go")
        assert results(s) == [("x", False)]
        bad = await status(s, "bad")
    (warning,) = warnings(s)
    for words in ('"bad"', "exit code 3", "the database is missing", "DATABASE_PASSWORD"):
        assert words in warning
    assert "secret" not in warning
    assert bad["state"] == "failed"
    assert "exit code 3" in bad["error"]


async def test_secrets_of_the_environment_stay_here_unless_the_entry_passes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "secret")
    monkeypatch.setenv("OTHER_TOKEN", "secret")
    monkeypatch.setenv("HARMLESS", "1")
    servers = {
        "closed": entry("plain"),
        "open": entry("plain", inheritEnv=["OTHER_TOKEN"], env={"MINE": "${DATABASE_PASSWORD}"}),
    }
    replies = (uses("mcp__closed__environment"), uses("mcp__open__environment"), say("Done"))
    async with served(tmp_path, servers, *replies) as s:
        await s.run("Go")
        closed, opened = (set(one["names"]) for one in ended(s))
        assert ended(s)[0]["cwd"] == str(tmp_path / "work")
    names = {"DATABASE_PASSWORD", "OTHER_TOKEN", "HARMLESS", "MINE"}
    assert closed & names == {"HARMLESS"}
    assert opened & names == {"HARMLESS", "OTHER_TOKEN", "MINE"}


async def test_a_server_that_is_stopped_before_its_lists_are_asked_for_leaves_no_work() -> None:
    async def launch() -> life.ServerLaunch:
        return life.ServerLaunch(address=program("plain"))

    async def keep(catalog: life.Catalog) -> None:
        del catalog

    server = life.McpServer("lab", launch, None, keep)
    await server.use()
    server.refresh_later()
    # The first turn of the loop waits for further notices; the second one plans the requests.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    with catch_warnings(record=True) as seen:
        simplefilter("always")
        await server.close()
        gc.collect()
    assert [str(each.message) for each in seen] == []
