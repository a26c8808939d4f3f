"""Sessions over ACP: open, load, list, fork, delete; options, trust, dialogs, MCP servers."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from acp import schema

from ludolf.base import dumps, loads
from tests.acp_frames import check_model
from tests.loop.acp_client import EVERYTHING, AcpClient, acp, choosing
from tests.loop.laws import Record
from tests.loop.stage import asked, call, calls, say

READ = calls(call("read", "call_0", path="note.txt"))


async def _spoken(tmp_path: Path, *prompts: str) -> list[str]:
    """Hold conversations in a program that has ended; the ids of their sessions."""
    replies = [each for _ in prompts for each in (READ, say("It is mango"))]
    async with acp(tmp_path, *replies) as client:
        await client.initialize()
        (client.work / "note.txt").write_text("mango\n")
        sessions = []
        for text in prompts:
            sessions.append(await client.new())
            assert await client.prompt(sessions[-1], text) == "end_turn"
    return sessions


async def test_a_new_session_says_what_can_be_chosen(tmp_path: Path) -> None:
    async with acp(tmp_path) as client:
        await client.initialize(EVERYTHING)
        given = {"cwd": str(client.work), "mcpServers": []}
        opened = await client.ask("session/new", **given)
        check_model(schema.NewSessionResponse, opened)
        assert [one["id"] for one in opened["configOptions"]] == [
            "mode",
            "model",
            "thinking",
            "auto_compaction",
        ]
        assert opened["modes"]["currentModeId"] == "ask"
        modes = [mode["id"] for mode in opened["modes"]["availableModes"]]
        assert modes == ["ask", "auto", "read-only"]


async def test_a_loaded_session_is_replayed_before_the_answer(tmp_path: Path) -> None:
    (session,) = await _spoken(tmp_path, "What is it?")
    async with acp(tmp_path, say("Still mango")) as client:
        await client.initialize()
        given = {"sessionId": session, "cwd": str(client.work), "mcpServers": []}
        number = client.start("session/load", **given)
        response = await client.response(number)
        check_model(schema.LoadSessionResponse, response["result"])
        end = client.frames.index(response)
        replayed = [one["params"]["update"] for one in client.frames[:end] if "method" in one]
        kinds = [update["sessionUpdate"] for update in replayed]
        assert kinds[:3] == ["user_message_chunk", "tool_call", "agent_message_chunk"]
        assert (replayed[1]["status"], "mango" in str(replayed[1])) == ("completed", True)
        assert await client.prompt(session, "And now?") == "end_turn"
        assert asked(client.script.requests[0])[0] == "user What is it?"


async def test_a_resumed_session_is_not_replayed(tmp_path: Path) -> None:
    (session,) = await _spoken(tmp_path, "What is it?")
    async with acp(tmp_path, say("Still mango")) as client:
        await client.initialize()
        given = {"sessionId": session, "cwd": str(client.work), "mcpServers": []}
        await client.ask("session/resume", **given)
        assert client.updates("user_message_chunk") == []
        assert await client.prompt(session, "And now?") == "end_turn"
        assert len(asked(client.script.requests[0])) > 1
        await client.ask("session/load", **given)
        assert client.text(kind="user_message_chunk") == "What is it?And now?"


async def test_a_session_belongs_to_its_folder(tmp_path: Path) -> None:
    (session,) = await _spoken(tmp_path, "What is it?")
    async with acp(tmp_path, say("A copy")) as client:
        await client.initialize()
        given = {"sessionId": session, "cwd": str(tmp_path), "mcpServers": []}
        code, text = await client.refusal("session/load", **given)
        assert (code, str(client.work) in text) == (-32602, True)
        copy = (await client.ask("session/fork", **given))["sessionId"]
        assert copy != session
        assert await client.prompt(copy, "And now?") == "end_turn"
        assert asked(client.script.requests[0])[0] == "user What is it?"


async def test_sessions_are_listed_in_pages_newest_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ludolf.acp.sessions.PAGE_SIZE", 2)
    sessions = await _spoken(tmp_path, "One " * 60, "Two", "Three")
    async with acp(tmp_path) as client:
        await client.initialize()
        first = await client.ask("session/list", cwd=str(client.work))
        check_model(schema.ListSessionsResponse, first)
        rest = await client.ask("session/list", cursor=first["nextCursor"])
        listed = [*first["sessions"], *rest["sessions"]]
        assert [one["sessionId"] for one in listed] == sessions[::-1]
        assert [len(one["title"]) <= 80 for one in listed] == [True] * 3
        assert listed[0]["_meta"] == {"messageCount": 4}
        assert "nextCursor" not in rest
        assert (await client.ask("session/list", cwd=str(tmp_path)))["sessions"] == []


async def test_a_deleted_session_is_off_the_list_also_if_it_was_open(tmp_path: Path) -> None:
    async with acp(tmp_path, say("Hi")) as client:
        await client.initialize()
        session = await client.new()
        await client.prompt(session, "Hello")
        for _ in range(2):
            assert await client.ask("session/delete", sessionId=session) == {}
        assert (await client.ask("session/list"))["sessions"] == []
        assert (await client.response(client.say(session, "Hello")))["error"]["code"] == -32002


async def test_two_programs_take_turns_with_a_session_that_is_idle(tmp_path: Path) -> None:
    replies = (say("one"), calls(call("hold", "c1", name="gate")), say("three"))
    async with acp(tmp_path, *replies, options={"approval": "never"}) as client:
        await client.initialize()
        session = await client.new()
        await client.prompt(session, "First")
        assert await _name_elsewhere(client, session) == ["result"] * 3
        running = client.say(session, "Second")
        await client.gates.reached("gate")
        assert await _name_elsewhere(client, session) == ["result", -32603, -32002]
        client.gates.open("gate")
        assert "result" in await client.response(running)
        assert await client.prompt(session, "/name") == "end_turn"
        assert client.text().endswith("The session is named: Elsewhere")


async def _name_elsewhere(client: AcpClient, session: str) -> list[Any]:
    """Load a session in another program and name it; how its requests were answered."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ludolf", "acp"),
        cwd=client.work,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert program.stdin is not None
    assert program.stdout is not None
    blocks = [{"type": "text", "text": "/name Elsewhere"}]
    requests = {
        "initialize": {"protocolVersion": 1},
        "session/load": {"sessionId": session, "cwd": str(client.work), "mcpServers": []},
        "session/prompt": {"sessionId": session, "prompt": blocks},
    }
    for number, (method, params) in enumerate(requests.items()):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        program.stdin.write(dumps(message) + b"\n")
    found: list[Any] = []
    while len(found) < len(requests):
        frame = loads(await program.stdout.readline())
        if "method" not in frame:
            found.append("result" if "result" in frame else frame["error"]["code"])
    program.stdin.close()
    assert await program.wait() == 0
    return found


# ---------------------------------------------------------------- options


async def test_modes_and_the_option_mode_stay_in_step(tmp_path: Path) -> None:
    replies = (*(calls(call("echo", "c1", name="x")), say("done")) * 2,)
    async with acp(tmp_path, *replies) as client:
        await client.initialize()
        session = await client.new()
        await client.ask("session/set_mode", sessionId=session, modeId="read-only")
        shown = client.updates("config_option_update")[-1]["configOptions"]
        assert shown[0]["currentValue"] == "read-only"
        await client.prompt(session, "Go")
        assert client.statuses()[-1] == "failed"
        await _choose(client, session, "mode", "auto")
        assert client.updates("current_mode_update") == [
            {"sessionUpdate": "current_mode_update", "currentModeId": "auto"}
        ]
        await client.prompt(session, "Go")
        assert client.statuses()[-1] == "completed"
        assert client.requests("session/request_permission") == []


async def test_the_users_own_approval_settings_are_the_mode_default(tmp_path: Path) -> None:
    async with acp(tmp_path, settings={"approval": {"mode": "always"}}) as client:
        await client.initialize()
        opened = await client.ask("session/new", cwd=str(client.work), mcpServers=[])
        assert opened["modes"]["currentModeId"] == "default"


async def _choose(client: AcpClient, session: str, name: str, value: Any) -> dict[str, Any]:
    params = {"sessionId": session, "configId": name, "value": value}
    result = await client.ask("session/set_config_option", **params)
    check_model(schema.SetSessionConfigOptionResponse, result)
    return {one["id"]: one["currentValue"] for one in result["configOptions"]}


async def test_options_hold_for_the_session_and_not_for_the_settings(tmp_path: Path) -> None:
    async with acp(tmp_path, say("off")) as client:
        await client.initialize(EVERYTHING)
        session = await client.new()
        before = (tmp_path / "agent" / "settings.json").read_bytes()
        assert (await _choose(client, session, "thinking", "high"))["thinking"] == "high"
        assert not (await _choose(client, session, "auto_compaction", False))["auto_compaction"]
        chosen = await _choose(client, session, "model", "ludolf/offline")
        assert chosen["model"] == "ludolf/offline"
        await client.ask("session/set_model", sessionId=session, modelId="ludolf/scripted")
        shown = client.updates("config_option_update")[-1]["configOptions"]
        assert {"ludolf/scripted"} <= {one["currentValue"] for one in shown}
        assert (tmp_path / "agent" / "settings.json").read_bytes() == before
        for name, value in (("model", "no/such"), ("nothing", "x"), ("auto_compaction", "yes")):
            params = {"sessionId": session, "configId": name, "value": value}
            assert (await client.refusal("session/set_config_option", **params))[0] == -32602


async def test_a_change_by_other_means_is_reported(tmp_path: Path) -> None:
    async with acp(tmp_path) as client:
        await client.initialize()
        session = await client.new()
        sessions = client.server._sessions
        assert sessions is not None
        sessions.get(session).engine.models.set_level("low")
        await client.until(lambda one: "config_option_update" in str(one))


# ---------------------------------------------------------------- trust, dialogs, servers

EXTENSION = """
def extension(api):
    @api.command("ask", description="Asks")
    async def ask(arguments, ctx):
        chosen = await ctx.ui.select("Which?", ["Left", "No"])
        sure = await ctx.ui.confirm("Sure?", "Really")
        typed = await ctx.ui.input("Name?")
        ctx.ui.notify(f"{chosen} {sure} {typed}", "info")
"""


@pytest.mark.parametrize(
    ("action", "trusted"), [("accept", True), ("decline", False), ("cancel", None)]
)
async def test_trust_is_asked_for_once_and_only_where_forms_are_offered(
    tmp_path: Path, action: str, trusted: bool | None
) -> None:
    async with acp(tmp_path) as client:
        prompts = client.work / ".pi" / "prompts"
        prompts.mkdir(parents=True)
        (prompts / "mine.md").write_text("Mine\n")
        client.answers["elicitation/create"] = lambda params: {"action": action}
        await client.initialize(EVERYTHING)
        await client.new()
        question = (await client.asked("elicitation/create"))["params"]
        assert (question["mode"], str(client.work) in question["message"]) == ("form", True)
        await client.new()
        if trusted:
            await client.until(lambda one: "'mine'" in str(one))
        assert len(client.requests("elicitation/create")) == 1
        file = tmp_path / "agent" / "trust.json"
        if trusted is not None:
            await client.ask("session/list")
            assert f'": {str(trusted).lower()}' in file.read_text()


async def test_a_client_may_trust_the_folder_when_it_opens_a_session(tmp_path: Path) -> None:
    async with acp(tmp_path) as client:
        prompts = client.work / ".pi" / "prompts"
        prompts.mkdir(parents=True)
        (prompts / "mine.md").write_text("Mine\n")
        await client.initialize()
        await client.new(_meta={"ludolf/trust": True})
        assert "'mine'" in str(client.updates("available_commands_update"))


async def _ask_by_extension(client: AcpClient, capabilities: Record) -> str:
    """Run the command of an extension; the notice with the answers that it got."""
    await client.initialize({**capabilities, "session": {"notices": {}}})
    session = await client.new()
    assert await client.prompt(session, "/ask") == "end_turn"
    return str(client.updates("notice")[-1]["title"])


async def test_dialogs_are_forms_where_they_are_offered(tmp_path: Path) -> None:
    (tmp_path / "ask.py").write_text(EXTENSION)
    options = {"extensions": (str(tmp_path / "ask.py"),)}
    async with acp(tmp_path, options=options) as client:
        client.answers["elicitation/create"] = lambda params: {
            "action": "accept",
            "content": {"value": "Left"},
        }
        assert await _ask_by_extension(client, {"elicitation": {"form": {}}}) == "Left True Left"
        for params in client.requests("elicitation/create"):
            check_model(schema.CreateFormSessionElicitationRequest, params)


async def test_dialogs_are_requests_for_permission_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "ask.py").write_text(EXTENSION)
    options = {"extensions": (str(tmp_path / "ask.py"),)}
    async with acp(tmp_path, options=options) as client:
        client.answers["session/request_permission"] = choosing("0")
        assert await _ask_by_extension(client, {}) == "Left True None"
        for params in client.requests("session/request_permission"):
            check_model(schema.RequestPermissionRequest, params)


SERVER = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    result = {}
    if message["method"] == "initialize":
        version = message["params"]["protocolVersion"]
        info = {"name": "tiny", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    elif message["method"] == "tools/list":
        result = {"tools": [{"name": "word", "inputSchema": {"type": "object"}}]}
    elif message["method"] == "tools/call":
        text = os.environ["WORD"]
        if text == "ask":
            schema = {"type": "object", "properties": {"name": {"type": "string"}}}
            params = {"message": "Who?", "requestedSchema": {**schema, "required": ["name"]}}
            question = {"id": "q", "method": "elicitation/create", "params": params}
            print(json.dumps({"jsonrpc": "2.0", **question}), flush=True)
            text = json.dumps(json.loads(sys.stdin.readline())["result"])
        result = {"content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_servers_of_the_client_are_used_and_broken_ones_only_reported(
    tmp_path: Path,
) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    tiny = {"name": "my tiny", "command": sys.executable, "args": [str(tmp_path / "server.py")]}
    servers = [
        {**tiny, "env": [{"name": "WORD", "value": "papaya $HOME"}]},
        {"name": "gone", "command": "/no/such/program", "args": [], "env": []},
        {"type": "sse", "name": "old", "url": "http://127.0.0.1:1", "headers": []},
    ]
    replies = (calls(call("mcp__my_tiny__word", "c1")), say("done"))
    async with acp(tmp_path, *replies, options={"approval": "never"}) as client:
        await client.initialize({"session": {"notices": {}}})
        session = await client.new(mcpServers=servers)
        assert await client.prompt(session, "Go") == "end_turn"
        assert "papaya $HOME" in str(client.updates("tool_call_update")[-1])
        notices = str(client.updates("notice"))
        assert ("'sse' is not supported" in notices, "gone" in notices) == (True, True)


@pytest.mark.parametrize(
    ("answer", "result"),
    [
        ({"action": "accept", "content": {"name": "Ada"}}, '"content": {"name": "Ada"}'),
        ({"action": "accept", "content": {}}, '"action": "cancel"'),
        ({"action": "decline"}, '"action": "decline"'),
    ],
)
async def test_a_form_of_a_server_is_shown_as_a_whole(
    tmp_path: Path, answer: Record, result: str
) -> None:
    (tmp_path / "server.py").write_text(SERVER)
    tiny = {"name": "tiny", "command": sys.executable, "args": [str(tmp_path / "server.py")]}
    server = {**tiny, "env": [{"name": "WORD", "value": "ask"}]}
    replies = (calls(call("mcp__tiny__word", "c1")), say("done"))
    async with acp(tmp_path, *replies, options={"approval": "never"}) as client:
        client.answers["elicitation/create"] = lambda params: answer
        await client.initialize({"elicitation": {"form": {}}})
        session = await client.new(mcpServers=[server])
        assert await client.prompt(session, "Go") == "end_turn"
        (question,) = client.requests("elicitation/create")
        check_model(schema.CreateFormSessionElicitationRequest, question)
        assert question["message"] == "tiny asks: Who?"
        shown = client.updates("tool_call_update")[-1]["content"][0]["content"]["text"]
        assert result in shown
