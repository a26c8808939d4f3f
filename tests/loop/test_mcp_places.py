"""Where servers come from, and who shares them: projects, programs, extensions, sessions."""

from pathlib import Path
from typing import Any

import pytest

from ludolf import create_session
from ludolf.ai.builtin.scripted import Scripted
from ludolf.ai.messages import ToolResultMessage, text_of
from tests.loop.mcp_stage import (
    configure,
    counted,
    ends,
    entry,
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
from tests.process.extending import lay, told
from tests.process.harness import Lab

ECHO = "mcp__lab__echo"


# ---------------------------------------------------------------- trust


@pytest.mark.parametrize("name", [".mcp.json", ".pi/mcp.json"])
async def test_servers_of_a_project_start_only_if_the_project_is_trusted(
    tmp_path: Path, name: str
) -> None:
    path = tmp_path / "starts"
    file = tmp_path / "work" / name
    configure(file, {"lab": counted(path, "plain")})
    replies = (say("Untrusted"), uses(ECHO, text="x"), say("Trusted"), say("Again"))
    async with stage(tmp_path, *replies) as s:
        await s.run("Go")
        assert await statuses(s) == []
        assert starts(path) == []
        await s.data("set_project_trust", trusted=True, remember=True)
        await s.data("mcp_reconnect", name="lab")
        await s.run("Go")
        assert results(s) == [("x", False)]
        lab = await status(s, "lab")
        assert (lab["source"], lab["path"]) == ("project", str(file))
        await s.data("set_project_trust", trusted=False)
        await s.run("Again")
        assert await statuses(s) == []
        await until(lambda: ends(path) == starts(path))


async def test_a_changed_file_of_a_project_revokes_the_stored_trust(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    file = tmp_path / "work" / ".mcp.json"
    configure(file, {"lab": counted(path, "plain")})
    async with stage(tmp_path) as s:
        await s.data("set_project_trust", trusted=True, remember=True)
    async with stage(tmp_path) as s:
        await s.data("reload")
        assert [one["name"] for one in await statuses(s)] == ["lab"]
        configure(file, {"evil": counted(path, "plain")})
        await s.data("reload")
        assert await statuses(s) == []
    async with stage(tmp_path, say("Done")) as s:
        await s.run("Go")
        assert await statuses(s) == []
        assert starts(path) == []


async def test_a_program_reads_files_of_servers_only_if_it_asks_for_them(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    configure(tmp_path / "agent" / "mcp.json", {"lab": entry("plain")})
    configure(tmp_path / "work" / ".mcp.json", {"project": entry("plain")})
    found = {}
    for discover, trust in ((False, None), (True, None), (True, True)):
        more: dict[str, Any] = {} if trust is None else {"trust_project": trust}
        async with create_session(
            model=Scripted([]),
            cwd=tmp_path / "work",
            agent_dir=tmp_path / "agent",
            discover=discover,
            on_warning=lambda text: None,
            **more,
        ) as session:
            statuses = session.engine.mcp.administration.statuses()
            found[discover, trust] = {one.name for one in statuses}
    assert found == {
        (False, None): set(),
        (True, None): {"lab"},
        (True, True): {"lab", "project"},
    }


# ---------------------------------------------------------------- sharing


async def test_sessions_of_a_program_share_a_process_until_the_last_one_closes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "starts"

    def opened(*replies: Any) -> Any:
        return create_session(
            model=Scripted(replies),
            cwd=tmp_path,
            settings={},
            agent_dir=tmp_path / "agent",
            mcp_servers={"lab": counted(path, "plain")},
        )

    async with opened(uses(ECHO, text="one"), say("Done")) as first:
        async with opened(uses(ECHO, text="two"), say("Done")) as second:
            for session, text in ((first, "one"), (second, "two")):
                await session.prompt("Go")
                assert text in str(session.messages)
            assert len(starts(path)) == 1
        assert ends(path) == []
    assert ends(path) == starts(path)


async def test_each_session_exposes_a_shared_server_as_its_own_entry_says(tmp_path: Path) -> None:
    scripts = [Scripted([say("Done"), say("Done")]) for _ in range(2)]

    def opened(script: Scripted, exposure: str) -> Any:
        return create_session(
            model=script,
            cwd=tmp_path,
            settings={},
            agent_dir=tmp_path / "agent",
            mcp_servers={"lab": entry("plain", exposure=exposure)},
        )

    async with opened(scripts[0], "direct") as first, opened(scripts[1], "hidden") as second:
        for session in (first, second, first, second):
            await session.prompt("Go")
        shown = [one.exposure for one in first.engine.mcp.administration.statuses()]
    assert shown == ["direct"]
    for script, expected in zip(scripts, (True, False), strict=True):
        names = [{tool.name for tool in request.tools} for request in script.requests]
        assert [ECHO in each for each in names] == [expected, expected]


async def test_a_reload_restarts_only_servers_whose_entries_have_changed(tmp_path: Path) -> None:
    path = tmp_path / "starts"
    file = tmp_path / "agent" / "mcp.json"
    servers = {"same": counted(path, "plain"), "other": counted(path, "plain")}
    async with served(tmp_path, servers, *map(say, ("One", "Two", "Three"))) as s:
        await s.run("One")
        before = {one["name"]: one["pid"] for one in await statuses(s)}
        other = counted(path, "modern", inheritEnv=True)
        configure(file, {"same": {**servers["same"], "timeout": 5}, "other": other})
        await s.data("reload")
        await s.run("Two")
        await until(lambda: ends(path) == [before["other"]])
        await s.data("mcp_reconnect", name="other")
        after = {one["name"]: one for one in await statuses(s)}
        assert after["same"]["pid"] == before["same"]
        assert after["other"]["pid"] != before["other"]
        assert after["other"]["protocolVersion"] == "2026-07-28"
        configure(file, {"same": servers["same"], "other": {**other, "inheritEnv": False}})
        await s.data("reload")
        await s.run("Three")
        await until(lambda: after["other"]["pid"] in ends(path))
        assert before["same"] not in ends(path)
        assert warnings(s) == []


async def test_a_session_of_another_folder_uses_the_servers_of_that_folder(tmp_path: Path) -> None:
    there = tmp_path / "there"
    configure(there / ".mcp.json", {"far": entry("plain")})
    configure(tmp_path / "work" / ".mcp.json", {"near": entry("plain")})
    async with stage(tmp_path, say("There"), options={"cwd": there}) as s:
        await s.data("set_project_trust", trusted=True, remember=True)
        await s.run("Go")
        far = s.path
        assert [one["name"] for one in await statuses(s)] == ["far"]
    async with stage(tmp_path, say("Near"), options={"approve": True}) as s:
        assert [one["name"] for one in await statuses(s)] == ["near"]
        await s.data("switch_session", sessionPath=str(far))
        assert [one["name"] for one in await statuses(s)] == ["far"]


# ---------------------------------------------------------------- extensions


async def test_an_extension_brings_a_server(tmp_path: Path) -> None:
    def extension(api: Any) -> None:
        api.mcp_server("lab", entry("plain"))

    async with create_session(
        model=Scripted([uses(ECHO, text="x"), say("Done")]),
        cwd=tmp_path,
        settings={},
        agent_dir=tmp_path / "agent",
        extensions=[extension],
    ) as session:
        await session.prompt("Go")
        (lab,) = session.engine.mcp.administration.statuses()
        (result,) = (one for one in session.messages if isinstance(one, ToolResultMessage))
        await session.engine.reload()
        (same,) = session.engine.mcp.administration.statuses()
    assert same.pid == lab.pid
    assert (lab.source, lab.state) == ("extension", "ready")
    assert (text_of(result.content), result.is_error) == ("x", False)


async def test_a_bad_server_of_an_extension_is_an_error_of_that_extension(lab: Lab) -> None:
    good = f"""
        def extension(api):
            api.mcp_server("good", {entry("plain")!r})
    """
    bad = """
        def extension(api):
            api.mcp_server("bad", {"command": 5})
    """
    place = lay(lab, bad, "a.py")
    lay(lab, good, "b.py")
    async with lab.client("--no-session") as client:
        servers = (await client.ask("get_mcp_servers"))["servers"]
    assert [one["name"] for one in servers] == ["good"]
    (error,) = (one for one in told(lab) if one["type"] == "extension_error")
    assert (error["event"], error["extensionPath"]) == ("mcp_server", str(place))
    assert '"bad"' in error["error"]
