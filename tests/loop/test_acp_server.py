"""The ACP server: handshake, mistakes of the client, order of requests, bugs, the end of input."""

import asyncio
from pathlib import Path

import pytest
from acp import schema

from ludolf.acp.requests import RequestFault
from tests.acp_frames import check_model
from tests.loop.acp_client import EVERYTHING, acp, silent
from tests.loop.stage import call, calls, say


async def test_initialize_is_answered_without_an_engine(tmp_path: Path) -> None:
    async with acp(tmp_path) as client:
        hello = await client.initialize()
        check_model(schema.InitializeResponse, hello)
        assert hello["protocolVersion"] == 1
        assert hello["agentInfo"]["name"] == "ludolf"
        assert hello["authMethods"] == []


async def test_logins_are_offered_to_clients_that_can_show_them(tmp_path: Path) -> None:
    async with acp(tmp_path) as client:
        hello = await client.initialize(EVERYTHING)
        check_model(schema.InitializeResponse, hello)
        terminal, *others = hello["authMethods"]
        assert (terminal["type"], terminal["args"]) == ("terminal", ["--login"])
        assert others
        assert await client.refusal("authenticate", methodId="nothing") == (
            -32602,
            "methodId: there is no login 'nothing' here. In a terminal, `ludolf auth login` stores "
            "keys and logins.",
        )


async def test_a_request_before_initialize_is_refused(tmp_path: Path) -> None:
    async with acp(tmp_path) as client:
        code, text = await client.refusal("session/list")
        assert (code, "initialize" in text) == (-32600, True)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"jsonrpc": "2.0", "id": 1, "method"', -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 5000, -32700),
        (b"[]", -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "initialize"}', -32600),
        (b'{"jsonrpc": "2.0"}', -32600),
    ],
)
async def test_a_line_that_is_not_a_message_gets_an_error_and_the_next_one_works(
    tmp_path: Path, line: bytes, code: int
) -> None:
    async with acp(tmp_path) as client:
        client.feed(line, b"")
        assert (await client.response(None))["error"]["code"] == code
        await client.initialize()


async def test_answers_that_were_not_asked_for_are_ignored(tmp_path: Path) -> None:
    async with acp(tmp_path) as client:
        client.feed(b'{"jsonrpc": "2.0", "id": 99, "result": {}}')
        client.notify("something/else", x=1)
        client.notify("session/cancel")
        client.notify("session/cancel", sessionId="unknown")
        client.notify("$/cancel_request", requestId=77)
        await client.initialize()
        assert len(client.frames) == 1


@pytest.mark.parametrize(
    ("method", "params", "code", "words"),
    [
        ("_x/unknown", {}, -32601, "_x/unknown"),
        ("session/new", {"mcpServers": []}, -32602, "cwd"),
        ("session/new", {"cwd": 7, "mcpServers": []}, -32602, "cwd"),
        ("session/new", {"cwd": "work", "mcpServers": []}, -32602, "absolute"),
        ("session/new", {"cwd": "/no/such/folder", "mcpServers": []}, -32602, "no folder"),
        ("session/prompt", {"prompt": []}, -32602, "sessionId"),
        ("session/prompt", {"sessionId": "s", "prompt": []}, -32002, "No such session: s"),
        ("session/close", {"sessionId": "s"}, -32002, "No such session"),
        ("session/set_mode", {"sessionId": "s", "modeId": "ask"}, -32002, "No such session"),
        ("session/list", {"cwd": "work"}, -32602, "absolute"),
        ("session/list", {"cursor": "?"}, -32602, "cursor"),
    ],
)
async def test_wrong_requests_are_refused_with_a_code_and_a_reason(
    tmp_path: Path, method: str, params: dict[str, object], code: int, words: str
) -> None:
    async with acp(tmp_path) as client:
        await client.initialize()
        found, text = await client.refusal(method, **params)
        assert (found, words in text) == (code, True), text


async def test_an_unknown_session_cannot_be_loaded(tmp_path: Path) -> None:
    async with acp(tmp_path) as client:
        await client.initialize()
        given = {"sessionId": "unknown", "cwd": str(client.work), "mcpServers": []}
        for method in ("session/load", "session/resume", "session/fork"):
            assert (await client.refusal(method, **given))[0] == -32002
        assert await client.ask("session/delete", sessionId="unknown") == {}


async def test_a_bug_is_an_error_and_not_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with acp(tmp_path) as client:
        await client.initialize()
        session = await client.new()
        client.server._methods["session/list"] = _broken
        code, text = await client.refusal("session/list")
        assert (code, text) == (-32603, "Internal error in session/list: KeyError: 'a bug'")
        assert "a bug" in capsys.readouterr().err
        assert await client.prompt(session, "Hello") == "end_turn"


async def _broken(request: object) -> object:
    raise KeyError("a bug")


async def test_a_request_with_the_id_of_a_running_one_is_refused(tmp_path: Path) -> None:
    async with acp(tmp_path, say("Hi", hang=True)) as client:
        await client.initialize()
        session = await client.new()
        number = client.say(session, "Hello")
        await client.until(lambda one: "agent_message_chunk" in str(one))
        line = b'{"jsonrpc":"2.0","id":%d,"method":"session/list","params":{}}' % number
        client.feed(line)
        assert (await client.response(number))["error"]["code"] == -32600


async def test_requests_about_one_session_begin_in_order(tmp_path: Path) -> None:
    async with acp(tmp_path, say("one")) as client:
        await client.initialize()
        session = await client.new()
        changed = client.start("session/set_mode", sessionId=session, modeId="auto")
        prompt = client.say(session, "Hello")
        closed = client.start("session/close", sessionId=session)
        late = client.say(session, "Too late")
        assert "result" in await client.response(changed)
        assert "result" in await client.response(closed)
        assert (await client.response(prompt))["result"]["stopReason"] in ("end_turn", "cancelled")
        assert (await client.response(late))["error"]["code"] == -32002


async def test_a_running_session_does_not_delay_another(tmp_path: Path) -> None:
    replies = (
        calls(call("hold", "c1", name="gate"), match="slow"),
        say("slow done", match="slow"),
        say("quick", match="fast"),
    )
    async with acp(tmp_path, *replies, options={"approval": "never"}) as client:
        await client.initialize()
        one, two = await client.new(), await client.new()
        first = client.say(one, "slow")
        await client.gates.reached("gate")
        assert await client.prompt(two, "fast") == "end_turn"
        client.gates.open("gate")
        assert (await client.response(first))["result"]["stopReason"] == "end_turn"
        assert (client.text(one), client.text(two)) == ("slow done", "quick")


async def test_the_end_of_input_ends_what_runs(tmp_path: Path) -> None:
    replies = (calls(call("hold", "c1", name="gate")),)
    async with acp(tmp_path, *replies, options={"approval": "never"}) as client:
        await client.initialize()
        session = await client.new()
        number = client.say(session, "Go")
        await client.gates.reached("gate")
        client.end()
        assert (await client.response(number))["result"]["stopReason"] == "cancelled"
        assert client.statuses()[-1] == "failed"


async def test_the_end_of_input_answers_questions_with_no(tmp_path: Path) -> None:
    async with acp(tmp_path, calls(call("echo", "c1", name="x")), say("after")) as client:
        await client.initialize()
        session = await client.new()
        client.answers["session/request_permission"] = silent
        number = client.say(session, "Go")
        await client.asked("session/request_permission")
        client.end()
        assert (await client.response(number))["result"]["stopReason"] == "cancelled"


async def test_a_session_that_is_opened_at_the_end_of_input_is_closed(tmp_path: Path) -> None:
    async with acp(tmp_path) as client:
        await client.initialize()
        number = client.start("session/new", cwd=str(client.work), mcpServers=[])
        client.end()
        session = (await client.response(number))["result"]["sessionId"]
    assert client.server._sessions is not None
    with pytest.raises(RequestFault, match=session):
        client.server._sessions.get(session)


async def test_cancelling_another_request_ends_it_with_an_error(tmp_path: Path) -> None:
    async with acp(tmp_path) as client:
        await client.initialize()
        waiting = asyncio.Event()

        async def wait(request: object) -> object:
            await waiting.wait()
            return {}

        client.server._load()
        client.server._methods["session/list"] = wait
        number = client.start("session/list")
        await asyncio.sleep(0)
        client.notify("$/cancel_request", requestId=number)
        assert (await client.response(number))["error"]["code"] == -32800
