"""Servers and the user of a host: approvals, questions during a call, aborts, completions."""

from functools import partial
from pathlib import Path

import pytest

from ludolf.base import dumps, loads
from ludolf.engine.host.approvals import APPROVE, FOR_SESSION
from tests.loop.laws import Record
from tests.loop.mcp_stage import (
    Entry,
    configure,
    ended,
    entry,
    known,
    results,
    served,
    show_dialogs,
    uses,
    warnings,
)
from tests.loop.stage import Stage, say, stage, used

ASK = "mcp__lab__ask"
PEEK = "mcp__lab__peek"
ELICIT, SAMPLE = "elicitation/create", "sampling/createMessage"
ALWAYS = {"approval": "always"}


# The laws do not know dialogs.
talking = partial(served, lawful=False)


async def dialog(s: Stage, since: int = 0) -> Record:
    """The next dialog."""
    return await s.until(
        lambda one: one["type"] == "extension_ui_request" and one["method"] != "cancel", since
    )


async def approving(s: Stage, answers: int, value: str = APPROVE) -> list[Record]:
    """Prompt, and give so many dialogs the same answer; what they showed."""
    shown = []
    seen = len(s.frames)
    await s.data("prompt", message="Go")
    for _ in range(answers):
        request = await dialog(s, seen)
        seen = s.frames.index(request, seen) + 1
        shown.append(request)
        s.send("extension_ui_response", id=request["id"], value=value)
    await s.settled()
    return shown


# ---------------------------------------------------------------- approvals


async def test_a_dialog_shows_the_risk_that_the_users_own_servers_name(tmp_path: Path) -> None:
    lab: dict[str, Entry] = {"lab": entry("plain")}
    configure(tmp_path / "work" / ".mcp.json", {"project": entry("plain")})
    replies = (
        uses("mcp__lab__echo", text="x"),
        uses("mcp__lab__peek"),
        uses("mcp__project__peek"),
        uses("mcp__guest__peek"),
        say("Done"),
    )
    options = {**ALWAYS, "approve": True}
    async with talking(tmp_path, lab, *replies, options=options) as s:
        await s.data("set_mcp_servers", servers={"guest": entry("plain")})
        shown = await approving(s, 4)
        assert [failed for _, failed in results(s)] == [False] * 4
    assert [one["risk"] for one in shown] == ["unknown", "read", "unknown", "read"]
    assert shown[0]["toolName"] == "mcp__lab__echo"
    assert shown[0]["args"] == {"text": "x"}


async def test_an_approval_does_not_cover_a_definition_that_has_changed(tmp_path: Path) -> None:
    lab = {"lab": entry("plain")}
    replies = (uses(PEEK), uses(PEEK), uses("mcp__lab__amend"), say("Amended"))
    async with talking(tmp_path, lab, *replies, uses(PEEK), say("Done"), options=ALWAYS) as s:
        shown = await approving(s, 2, FOR_SESSION)
        assert [one["toolName"] for one in shown] == [PEEK, "mcp__lab__amend"]
        await s.until("warning")
        shown = await approving(s, 1)
        assert [one["toolName"] for one in shown] == [PEEK]
        (warning,) = warnings(s)
        assert 'MCP server "lab" changed the definitions of: peek.' in warning


async def test_a_definition_that_changed_between_programs_is_reported_once(tmp_path: Path) -> None:
    lab = {"lab": entry("plain")}
    await known(tmp_path, lab)
    cache = tmp_path / "agent" / "mcp-cache.json"
    (record,) = (raw := loads(cache.read_bytes()))["servers"].values()
    (peek,) = (tool for tool in record["tools"] if tool["tool"] == "peek")
    peek["digest"] = "of another definition"
    cache.write_bytes(dumps(raw))
    replies = (uses(PEEK), say("Done"), uses(PEEK), say("Done"))
    async with served(tmp_path, lab, *replies) as s:
        await s.run("Go")
        await s.run("Again")
        assert results(s) == [("peeked", False)] * 2
        (warning,) = warnings(s)
        assert "changed the definitions of: peek." in warning
    async with served(tmp_path, lab, uses(PEEK), say("Done")) as s:
        await s.run("Go")
        assert warnings(s) == []


# ---------------------------------------------------------------- questions


@pytest.mark.parametrize("mode", ["plain", "modern"])
@pytest.mark.parametrize("action", ["accept", "decline"])
async def test_a_host_answers_what_a_server_asks_in_a_call(
    tmp_path: Path, mode: str, action: str
) -> None:
    replies = (uses(ASK, method=ELICIT), say("Done"))
    async with talking(tmp_path, {"lab": entry(mode)}, *replies) as s:
        await s.data("prompt", message="Go")
        request = await dialog(s)
        assert request["title"].startswith("lab")
        s.send("extension_ui_response", id=request["id"], confirmed=action == "accept")
        await s.settled()
        (answer,) = ended(s)
    answered = answer if mode == "plain" else answer[0]
    assert answered["action"] == action


@pytest.mark.parametrize("mode", ["plain", "modern"])
async def test_an_abort_withdraws_the_dialog_and_the_server_can_be_used_again(
    tmp_path: Path, mode: str
) -> None:
    replies = (uses(ASK, method=ELICIT), uses("mcp__lab__seen"), say("Done"))
    async with talking(tmp_path, {"lab": entry(mode)}, *replies) as s:
        await s.data("prompt", message="Go")
        request = await dialog(s)
        await s.data("abort")
        await s.settled()
        cancels = [one for one in s.of_type("extension_ui_request") if one["method"] == "cancel"]
        assert [one["targetId"] for one in cancels] == [request["id"]]
        await s.run("Again")
        assert results(s)[0][1]
        assert not results(s)[1][1]
        assert warnings(s) == []


async def test_an_aborted_call_is_cancelled_at_the_server(tmp_path: Path) -> None:
    replies = (uses("mcp__lab__wait"), uses("mcp__lab__seen"), say("Done"))
    async with talking(tmp_path, {"lab": entry("plain")}, *replies) as s:
        await s.data("prompt", message="Go")
        await s.until("tool_execution_update")
        await s.data("abort")
        await s.run("Again")
        seen = loads(results(s)[-1][0].encode())
    (call,) = (one for one in seen if one.get("params", {}).get("name") == "wait")
    (cancelled,) = (one for one in seen if one.get("method") == "notifications/cancelled")
    assert cancelled["params"]["requestId"] == call["id"]


# ---------------------------------------------------------------- completions


async def test_a_server_may_ask_the_model_if_the_settings_allow_it(tmp_path: Path) -> None:
    settings = {"mcp": {"sampling": "allow"}}
    replies = (uses(ASK, method=SAMPLE), say("Sampled", usage=used(7)), say("Done"))
    async with talking(tmp_path, {"lab": entry("plain")}, *replies, settings=settings) as s:
        await s.run("Go")
        (answer,) = ended(s)
        assert answer["content"] == {"type": "text", "text": "Sampled"}
        entries = [frame["entry"] for frame in s.of_type("entry_appended")]
        (stored,) = (one for one in entries if one["type"] == "usage")
        assert (stored["kind"], stored["note"]) == ("mcp", "lab")


async def test_a_server_may_not_ask_the_model_by_default(tmp_path: Path) -> None:
    replies = (uses(ASK, method=SAMPLE), say("Done"))
    async with talking(tmp_path, {"lab": entry("plain")}, *replies) as s:
        await s.run("Go")
        (answer,) = ended(s)
        assert answer["code"] == -32601
        assert len(s.script.requests) == 2


async def test_a_file_of_servers_that_a_reload_finds_is_served_with_dialogs(
    tmp_path: Path,
) -> None:
    replies = (uses(ASK, method=ELICIT), say("Done"))
    async with stage(tmp_path, *replies, lawful=False) as s:
        show_dialogs(s)
        configure(tmp_path / "agent" / "mcp.json", {"lab": entry("plain")})
        await s.data("reload")
        await s.data("prompt", message="Go")
        request = await dialog(s)
        s.send("extension_ui_response", id=request["id"], confirmed=True)
        await s.settled()
        assert ended(s)[0]["action"] == "accept"
