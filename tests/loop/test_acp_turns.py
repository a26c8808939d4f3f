"""Prompts over ACP: their ends, cancellation, waiting and steering, commands, questions."""

import asyncio
from pathlib import Path

import pytest
from acp import schema

from ludolf.ai.builtin.scripted import ScriptedReply
from tests.acp_frames import check_model
from tests.loop.acp_client import EVERYTHING, AcpClient, acp, choosing, silent
from tests.loop.laws import Record
from tests.loop.stage import asked, call, calls, fails, say, used


def _is_chunk(record: Record) -> bool:
    update = record.get("params", {}).get("update", {})
    return bool(update.get("sessionUpdate") == "agent_message_chunk")


@pytest.mark.parametrize(
    ("reply", "options", "reason"),
    [
        (say("fine"), {}, "end_turn"),
        (say("cut", stop="length"), {}, "max_tokens"),
        (calls(call("read", "c1", path="a")), {"max_turns": 1}, "max_turn_requests"),
        (calls(call("read", "c1", path="a"), usage=used(9)), {"max_tokens": 5}, "max_tokens"),
    ],
)
async def test_a_turn_ends_with_its_reason(
    tmp_path: Path, reply: ScriptedReply, options: dict[str, int], reason: str
) -> None:
    async with acp(tmp_path, reply, say("more"), options=options) as client:
        await client.initialize()
        assert await client.prompt(await client.new(), "Go") == reason


@pytest.mark.parametrize(
    ("failure", "code"),
    [("401 invalid x-api-key", -32000), ("400 nonsense", -32603)],
)
async def test_an_error_of_the_provider_is_an_error_with_its_text(
    tmp_path: Path, failure: str, code: int
) -> None:
    async with acp(tmp_path, fails(failure), say("fine")) as client:
        await client.initialize()
        session = await client.new()
        error = (await client.response(client.say(session, "Go")))["error"]
        assert (error["code"], failure in error["message"]) == (code, True)
        assert await client.prompt(session, "Again") == "end_turn"


async def test_all_updates_come_between_the_answer_that_opens_a_session_and_that_of_the_prompt(
    tmp_path: Path,
) -> None:
    async with acp(tmp_path, calls(call("echo", "c1", name="x")), say("done")) as client:
        await client.initialize()
        session = await client.new()
        number = client.say(session, "Go")
        await client.response(number)
        end = client.place(lambda one: one.get("id") == number and "result" in one)
        assert not any(map(_is_chunk, client.frames[end:]))
        first = client.place(lambda one: one.get("method") == "session/update")
        assert first > client.place(lambda one: "sessionId" in one.get("result", {}))
        question = client.place(lambda one: one.get("method") == "session/request_permission")
        told = client.place(lambda one: '"tool_call"' in str(one).replace("'", '"'))
        assert told < question < end
        assert client.statuses() == ["pending", "in_progress", "completed"]
        for params in client.requests("session/request_permission"):
            check_model(schema.RequestPermissionRequest, params)


async def test_a_further_prompt_waits_for_its_turn(tmp_path: Path) -> None:
    replies = (calls(call("hold", "c1", name="gate")), say("one"), say("two"))
    async with acp(tmp_path, *replies, options={"approval": "never"}) as client:
        await client.initialize()
        session = await client.new()
        first, second = client.say(session, "First"), client.say(session, "Second")
        await client.gates.reached("gate")
        client.gates.open("gate")
        assert (await client.response(second))["result"] == {"stopReason": "end_turn"}
        ended = [one["id"] for one in client.frames if one.get("id") in (first, second)]
        assert ended == [first, second]
        assert client.text() == "onetwo"


async def test_a_prompt_may_steer_the_running_one(tmp_path: Path) -> None:
    replies = (calls(call("hold", "c1", name="gate")), say("both done"))
    async with acp(tmp_path, *replies, options={"approval": "never"}) as client:
        await client.initialize()
        session = await client.new()
        first = client.say(session, "First")
        await client.gates.reached("gate")
        second = client.say(session, "Hurry", _meta={"ludolf/steer": True})
        await client.ask("session/list")
        client.gates.open("gate")
        for number in (first, second):
            assert (await client.response(number))["result"] == {"stopReason": "end_turn"}
        assert asked(client.script.requests[-1])[-1] == "user Hurry"


async def _in_answer(client: AcpClient) -> None:
    await client.until(_is_chunk)


async def _in_call(client: AcpClient) -> None:
    await client.gates.reached("gate")


async def _in_question(client: AcpClient) -> None:
    await client.asked("session/request_permission")


@pytest.mark.parametrize("by_request", [False, True])
@pytest.mark.parametrize(
    ("reply", "approval", "point"),
    [
        (say("begins", hang=True), "never", _in_answer),
        (calls(call("hold", "c1", name="gate")), "never", _in_call),
        (calls(call("hold", "c1", name="gate")), "on-write", _in_question),
    ],
)
async def test_a_cancelled_turn_ends_as_cancelled_and_the_next_one_works(
    tmp_path: Path, reply: ScriptedReply, approval: str, point: object, by_request: bool
) -> None:
    async with acp(tmp_path, reply, say("next"), options={"approval": approval}) as client:
        await client.initialize()
        session = await client.new()
        client.answers["session/request_permission"] = silent
        number, waiting = client.say(session, "Go"), client.say(session, "Wait")
        await point(client)  # type: ignore[operator]  # one of the three above
        if by_request:
            for each in (number, waiting):
                client.notify("$/cancel_request", requestId=each)
        else:
            client.notify("session/cancel", sessionId=session)
        for each in (number, waiting):
            assert (await client.response(each))["result"] == {"stopReason": "cancelled"}
        if point is not _in_answer:
            assert client.statuses()[-1] == "failed"
        if point is _in_question:
            request = await client.asked("session/request_permission")
            assert client.requests("$/cancel_request") == [{"requestId": request["id"]}]
        assert await client.prompt(session, "Next") == "end_turn"


async def test_a_prompt_that_is_cancelled_at_once_runs_nothing(tmp_path: Path) -> None:
    async with acp(tmp_path, say("never")) as client:
        await client.initialize()
        session = await client.new()
        number = client.say(session, "Go")
        client.notify("session/cancel", sessionId=session)
        assert (await client.response(number))["result"] == {"stopReason": "cancelled"}


@pytest.mark.parametrize(
    ("option", "status", "text"),
    [
        ("allow_once", "completed", "x"),
        ("allow_always", "completed", "x"),
        ("reject_once", "failed", "denied"),
        ("unknown", "failed", "denied"),
    ],
)
async def test_the_answer_to_a_question_decides_about_the_call(
    tmp_path: Path, option: str, status: str, text: str
) -> None:
    replies = (*(calls(call("echo", "c1", name="x")),) * 2, say("done"))
    async with acp(tmp_path, *replies) as client:
        await client.initialize()
        client.answers["session/request_permission"] = choosing(option)
        session = await client.new()
        assert await client.prompt(session, "Go") == "end_turn"
        assert client.statuses()[-1] == status
        assert text in str(client.updates("tool_call_update")[-1]["content"])
        count = 1 if option == "allow_always" else 2
        assert len(client.requests("session/request_permission")) == count


async def test_no_answer_in_time_is_a_no_and_the_question_is_withdrawn(tmp_path: Path) -> None:
    settings = {"approval": {"mode": "on-write", "timeoutMs": 1}}
    replies = (calls(call("echo", "c1", name="x")), say("done"))
    async with acp(tmp_path, *replies, settings=settings) as client:
        await client.initialize()
        client.answers["session/request_permission"] = silent
        assert await client.prompt(await client.new(), "Go") == "end_turn"
        assert len(client.requests("$/cancel_request")) == 1
        assert client.statuses()[-1] == "failed"


async def test_an_approval_shows_the_change(tmp_path: Path) -> None:
    edit = call("edit", "c1", path="a.txt", edits=[{"oldText": "old", "newText": "new"}])
    async with acp(tmp_path, calls(edit), say("done")) as client:
        await client.initialize()
        (client.work / "a.txt").write_text("old\n")
        assert await client.prompt(await client.new(), "Go") == "end_turn"
        shown = client.requests("session/request_permission")[0]["toolCall"]
        path = str(client.work / "a.txt")
        diff = {"type": "diff", "path": path, "oldText": "old\n", "newText": "new\n"}
        assert (shown["kind"], shown["status"], shown["content"]) == ("edit", "pending", [diff])
        assert (client.work / "a.txt").read_text() == "new\n"


async def test_unsaved_text_is_read_from_the_editor_and_written_through_it(tmp_path: Path) -> None:
    edit = call("edit", "c1", path="a.txt", edits=[{"oldText": "unsaved", "newText": "changed"}])
    async with acp(tmp_path, calls(edit), say("done"), options={"approval": "never"}) as client:
        await client.initialize(EVERYTHING)
        path = client.work / "a.txt"
        path.write_text("saved\n")
        client.answers["fs/read_text_file"] = lambda params: {"content": "unsaved\n"}
        client.answers["fs/write_text_file"] = lambda params: path.write_text(params["content"])
        assert await client.prompt(await client.new(), "Go") == "end_turn"
        assert path.read_text() == "changed\n"
        assert client.statuses()[-1] == "completed"


async def test_an_approval_shows_the_change_of_unsaved_text(tmp_path: Path) -> None:
    write = call("write", "c1", path="a.txt", content="new\n")
    async with acp(tmp_path, calls(write), say("done")) as client:
        await client.initialize(EVERYTHING)
        (client.work / "a.txt").write_text("saved\n")
        client.answers["fs/read_text_file"] = lambda params: {"content": "unsaved\n"}
        client.answers["fs/write_text_file"] = lambda params: {}
        await client.prompt(await client.new(), "Go")
        (question,) = client.requests("session/request_permission")
        assert question["toolCall"]["content"][0]["oldText"] == "unsaved\n"


async def test_our_own_commands_are_answered_without_a_model(tmp_path: Path) -> None:
    async with acp(tmp_path, say("hello")) as client:
        await client.initialize()
        session = await client.new()
        await client.prompt(session, "Hi")
        assert await client.prompt(session, "/name  My work ") == "end_turn"
        assert client.updates("session_info_update")[-1]["title"] == "My work"
        for command, words in (
            ("/session", session),
            ("/mcp", "No MCP servers"),
            ("/reload", "were read again"),
            ("/export page.html", "page.html"),
            ("/login", "anthropic"),
        ):
            assert await client.prompt(session, command) == "end_turn"
            assert words in client.text().rpartition("hello")[2]
        assert (client.work / "page.html").exists()
        code, text = await _failing(client, session, "/compact")
        assert (code, bool(text)) == (-32603, True)
        assert len(client.script.requests) == 1


async def _failing(client: AcpClient, session: str, text: str) -> tuple[int, str]:
    error = (await client.response(client.say(session, text)))["error"]
    return error["code"], error["message"]


async def test_templates_are_offered_and_expanded(tmp_path: Path) -> None:
    async with acp(tmp_path, say("done")) as client:
        folder = tmp_path / "agent" / "prompts"
        folder.mkdir()
        (folder / "greet.md").write_text("---\ndescription: Greets\n---\nGreet $ARGUMENTS\n")
        await client.initialize()
        session = await client.new()
        assert await client.prompt(session, "/greet Ada") == "end_turn"
        names = [
            one["name"]
            for one in client.updates("available_commands_update")[0]["availableCommands"]
        ]
        assert {"greet", "compact", "session"} <= set(names)
        assert asked(client.script.requests[-1])[-1] == "user Greet Ada"


async def test_a_block_that_is_not_supported_is_refused_by_its_place(tmp_path: Path) -> None:
    async with acp(tmp_path) as client:
        await client.initialize()
        session = await client.new()
        blocks = [{"type": "text", "text": "a"}, {"type": "audio", "data": "", "mimeType": "x"}]
        code, text = await client.refusal("session/prompt", sessionId=session, prompt=blocks)
        assert (code, "prompt[1]" in text) == (-32602, True)


async def test_an_empty_prompt_is_refused_and_a_login_needs_forms(tmp_path: Path) -> None:
    async with acp(tmp_path) as client:
        await client.initialize()
        session = await client.new()
        assert (await client.refusal("session/prompt", sessionId=session, prompt=[]))[0] == -32602
        assert await client.prompt(session, "/login xai") == "end_turn"
        assert "ludolf auth login xai" in client.text()


@pytest.mark.parametrize("turns", range(0, 60, 3))
async def test_a_cancellation_at_any_moment_ends_the_turn(tmp_path: Path, turns: int) -> None:
    replies = (calls(call("echo", "c1", name="x")), say("done"), say("next"))
    async with acp(tmp_path, *replies) as client:
        await client.initialize()
        session = await client.new()
        number = client.say(session, "Go")
        for _ in range(turns):
            await asyncio.sleep(0)
        client.notify("session/cancel", sessionId=session)
        reason = (await client.response(number))["result"]["stopReason"]
        assert reason in ("cancelled", "end_turn")
        opened = len(client.updates("tool_call"))
        ended = [one for one in client.statuses() if one in ("completed", "failed")]
        assert len(ended) == opened
        count = len(client.frames)
        assert await client.prompt(session, "Next") == "end_turn"
        assert client.frames[count:]


async def test_a_retry_that_fails_for_good_keeps_what_was_streamed(tmp_path: Path) -> None:
    broken = ScriptedReply(text="half", error="503 overloaded")
    settings = {"retry": {"maxRetries": 1}}
    async with acp(tmp_path, broken, broken, settings=settings) as client:
        await client.initialize()
        code, text = await _failing(client, await client.new(), "Go")
        assert (code, "overloaded" in text, client.text()) == (-32603, True, "halfhalf")


async def test_an_agent_in_the_background_asks_under_the_session_of_the_client(
    tmp_path: Path,
) -> None:
    tasks = [{"name": "Ada", "task": "Change it"}]
    replies = (
        calls(call("task", "t1", tasks=tasks), match="Go"),
        say("waiting", match="Go"),
        calls(call("echo", "c1", name="x"), match="assignment"),
        calls(call("yield", "y1", result={"data": "done"}), match="assignment"),
        say("all done"),
    )
    async with acp(tmp_path, *replies, settings={"task": {"enabled": True}}) as client:
        await client.initialize()
        session = await client.new()
        assert await client.prompt(session, "Go") == "end_turn"
        assert "all done" in client.text(session)
        asked_about = [one["toolCall"] for one in client.requests("session/request_permission")]
        announced = client.updates("tool_call", session)
        known = {one["toolCallId"]: one for one in announced}
        assert [known[one["toolCallId"]]["name"] for one in asked_about] == ["echo"]
        assert known[asked_about[0]["toolCallId"]]["_meta"] == {"ludolf/agent": "Ada"}
        question = client.place(lambda one: one.get("method") == "session/request_permission")
        first = client.place(lambda one: "ludolf/agent" in str(one))
        assert first < question
