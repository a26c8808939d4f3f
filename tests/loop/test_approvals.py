"""Approval over the wire: who is asked about what, and that no answer is a no."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ludolf import create_session
from ludolf.base import dumps
from ludolf.client import Client, Record
from ludolf.engine.host.approvals import APPROVE, DENY, FOR_SESSION
from tests.process.extending import asked, dialog, lay, reply, told
from tests.process.harness import Lab, only, text_of
from tests.process.model_server import TwoScripts
from tests.process.script import answer, bash, call

OPTIONS = [APPROVE, FOR_SESSION, DENY]
HOST_TOOL = {"name": "peek", "description": "Look", "parameters": {"type": "object"}}


async def _prompt(client: Client, text: str = "Go") -> None:
    await client.ask("prompt", message=text)


async def _answer(client: Client, value: str) -> Record:
    request = await dialog(client, "select")
    await reply(client, request, value=value)
    return request


def _results(lab: Lab) -> list[tuple[str, bool]]:
    ends = only(told(lab), "tool_execution_end")
    return [(text_of(end["result"]), end["isError"]) for end in ends]


def _dialogs(lab: Lab) -> list[Record]:
    return asked(told(lab), "select")


# ---------------------------------------------------------------- answers


async def test_an_approved_call_runs(lab: Lab) -> None:
    lab.server.add(answer(bash("echo hello")), answer("Done."))
    async with lab.client("--approval", "on-write") as client:
        await _prompt(client)
        request = await _answer(client, APPROVE)
        await client.collect("agent_settled")
        state = await client.ask("get_state")
    assert request.pop("id")
    assert request == {
        "type": "extension_ui_request",
        "method": "select",
        "title": "Allow bash: echo hello",
        "options": OPTIONS,
        "timeout": 300_000,
        "toolName": "bash",
        "toolCallId": "call_1",
        "args": {"command": "echo hello"},
        "risk": "execute",
        "sessionId": state["sessionId"],
    }
    assert _results(lab) == [("hello\n", False)]


@pytest.mark.parametrize(
    "given",
    [{"value": DENY}, {"value": "Sure"}, {"value": ""}, {"value": 1}, {"cancelled": True}, {}],
)
async def test_any_other_answer_is_a_no_that_the_model_reads(
    lab: Lab, given: dict[str, Any]
) -> None:
    lab.server.add(answer(call("write", {"path": "a.txt", "content": "x"})), answer("Then not."))
    async with lab.client("--approval", "on-write") as client:
        await _prompt(client)
        await reply(client, await dialog(client, "select"), **given)
        await client.collect("agent_settled")
    ((text, failed),) = _results(lab)
    assert failed
    assert text.startswith("Not run: the user denied this call of write.")
    assert text in str(lab.server.requests[1].body)
    assert not (lab.work / "a.txt").exists()


async def test_an_approval_for_the_session_covers_the_same_call_in_this_session(lab: Lab) -> None:
    same, other = bash("echo 1"), bash("echo 2")
    for block in (same, same, other, same):
        lab.server.add(answer(block), answer("Done."))
    async with lab.client("--approval", "always") as client:
        await _prompt(client)
        await _answer(client, FOR_SESSION)
        await client.collect("agent_settled")
        await client.prompt_and_collect("Again")
        await _prompt(client, "Another")
        await _answer(client, APPROVE)
        await client.collect("agent_settled")
        await client.ask("new_session")
        await _prompt(client, "In a new session")
        await _answer(client, APPROVE)
        await client.collect("agent_settled")
    assert [text for text, _ in _results(lab)] == ["1\n", "1\n", "2\n", "1\n"]
    assert len(_dialogs(lab)) == 3


async def test_a_file_that_is_approved_for_the_session_is_one_file(lab: Lab) -> None:
    (lab.work / "link").symlink_to("a.txt")
    names = ("a.txt", "./x/../a.txt", "link", "b.txt")
    for path in names:
        lab.server.add(answer(call("write", {"path": path, "content": path})), answer("Done."))
    async with lab.client("--approval", "on-write") as client:
        await _prompt(client)
        await _answer(client, FOR_SESSION)
        await client.collect("agent_settled")
        await client.prompt_and_collect("Again")
        await client.prompt_and_collect("By a link")
        await _prompt(client)
        await _answer(client, DENY)
        await client.collect("agent_settled")
    assert [failed for _, failed in _results(lab)] == [False, False, False, True]


# ---------------------------------------------------------------- no answer


async def test_when_the_time_is_up_the_dialog_is_withdrawn_and_the_call_denied(lab: Lab) -> None:
    lab.settings(approval={"mode": "always", "timeoutMs": 30})
    lab.server.add(answer(bash("touch made")), answer("Done."))
    async with lab.client() as client:
        await client.prompt_and_collect("Go")
        (request,) = _dialogs(lab)
        await reply(client, request, value=APPROVE)  # too late
        await client.ask("get_state")
    assert request["timeout"] == 30
    (cancel,) = asked(told(lab), "cancel")
    assert cancel["targetId"] == request["id"]
    ((text, failed),) = _results(lab)
    assert (text, failed) == (
        "Not run: this call of bash was not approved within 0.03 seconds.",
        True,
    )
    assert not (lab.work / "made").exists()


async def test_an_abort_withdraws_the_dialog(lab: Lab) -> None:
    lab.server.add(answer(bash("touch made"), bash("touch more", "call_2")), answer("Next."))
    async with lab.client("--approval", "on-write") as client:
        await _prompt(client)
        request = await dialog(client, "select")
        await client.ask("abort")
        await client.collect("agent_settled")
        await client.prompt_and_collect("And now?")
    (cancel,) = asked(told(lab), "cancel")
    assert cancel["targetId"] == request["id"]
    assert len(_dialogs(lab)) == 1
    assert all(failed for _, failed in _results(lab))
    assert list(lab.work.iterdir()) == []


async def test_calls_of_one_answer_are_asked_about_one_after_another(lab: Lab) -> None:
    names = ("call_1", "call_2", "call_3")
    lab.server.add(answer(*(bash(f"touch {name}", name) for name in names)), answer("Done."))
    async with lab.client("--approval", "on-write") as client:
        await _prompt(client)
        order: list[str] = []
        for value in (APPROVE, DENY, APPROVE):
            request = await dialog(client, "select")
            await client.ask("get_state")
            assert len(_dialogs(lab)) == len(order) + 1  # the next waits for this one
            assert not list(lab.work.iterdir())  # and none runs before all are answered
            order.append(request["toolCallId"])
            await reply(client, request, value=value)
        await client.collect("agent_settled")
    assert order == list(names)
    assert sorted(path.name for path in lab.work.iterdir()) == ["call_1", "call_3"]


async def test_a_host_that_leaves_approves_nothing(lab: Lab) -> None:
    lab.server.add(answer(bash("touch made")), answer("Done."))
    async with lab.client("--approval", "on-write") as client:
        await _prompt(client)
        await dialog(client, "select")
    assert not (lab.work / "made").exists()


@pytest.mark.parametrize("words", [("-p",), ("--mode", "json")])
def test_where_nobody_can_be_asked_the_call_is_denied(lab: Lab, words: tuple[str, ...]) -> None:
    lab.server.add(answer(bash("touch made")), answer("Then not."))
    lab.settings(approval={"mode": "on-write"})
    done = lab.run(*words, "Go")
    assert done.code == 0
    assert "no host is connected to approve it" in str(lab.server.requests[1].body)
    assert not (lab.work / "made").exists()


async def test_a_dialect_without_dialogs_denies_at_once(lab: Lab) -> None:
    lab.server.add(answer(bash("touch made")), answer("Then not."))
    async with lab.client("--rpc-dialect", "pi-early", "--approval", "always") as client:
        await client.send("prompt", message="Go")
        await client.collect("agent_end")
    assert "no host is connected to approve it" in str(lab.server.requests[1].body)
    assert not (lab.work / "made").exists()


# ---------------------------------------------------------------- what is asked about


async def test_by_default_nothing_is_asked(lab: Lab) -> None:
    lab.server.add(answer(bash("touch made")), answer("Done."))
    async with lab.client() as client:
        await client.prompt_and_collect("Go")
    assert asked(told(lab)) == []
    assert (lab.work / "made").exists()


async def test_reading_is_asked_about_only_if_everything_is(lab: Lab) -> None:
    (lab.work / "a.txt").write_text("text")
    for _ in range(2):
        lab.server.add(answer(call("read", {"path": "a.txt"})), answer("Done."))
    async with lab.client("--approval", "on-write") as client:
        await client.prompt_and_collect("Go")
    assert _dialogs(lab) == []
    async with lab.client("--approval", "always") as client:
        await _prompt(client)
        request = await _answer(client, APPROVE)
        await client.collect("agent_settled")
    assert (request["title"], request["risk"]) == ("Allow read: a.txt", "read")


async def test_tools_of_hosts_and_extensions_are_asked_about_unless_they_only_read(
    lab: Lab,
) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.tool()
            def change() -> str:
                "Change something"
                return "changed"

            @api.tool(read_only=True)
            def look() -> str:
                "Look at something"
                return "looked"
        """,
    )
    calls = [call(name, {}, name) for name in ("change", "look", "peek", "poke")]
    lab.server.add(answer(*calls), answer("Done."))
    tools = [{**HOST_TOOL, "readOnly": True}, {**HOST_TOOL, "name": "poke"}]
    async with lab.client("--approval", "on-write") as client:
        await client.ask("set_host_tools", tools=tools)
        await _prompt(client)
        first = await _answer(client, DENY)
        second = await _answer(client, DENY)
        sent = await client.wait_for("host_tool_call")
        content = [{"type": "text", "text": "peeked"}]
        await client.send("host_tool_result", id=sent["id"], result={"content": content})
        await client.collect("agent_settled")
    assert [one["toolName"] for one in (first, second)] == ["change", "poke"]
    assert {one["risk"] for one in (first, second)} == {"unknown"}
    assert sorted(text for text, failed in _results(lab) if not failed) == ["looked", "peeked"]


async def test_an_extension_may_change_a_call_before_it_is_asked_about(lab: Lab) -> None:
    lay(
        lab,
        """
        def extension(api):
            @api.on("tool_call")
            def change(event, ctx):
                event.input["command"] = "touch other"
        """,
    )
    rules = [{"tool": "bash", "command": "touch made", "action": "allow"}]
    lab.settings(approval={"rules": rules})
    lab.server.add(answer(bash("touch made")), answer("Done."))
    async with lab.client() as client:
        await _prompt(client)
        request = await _answer(client, DENY)
        await client.collect("agent_settled")
    assert list(lab.work.iterdir()) == []
    assert request["title"] == "Allow bash: touch other"
    assert request["args"] == {"command": "touch other"}


@pytest.mark.parametrize("word", ["command", "path"])
async def test_an_approval_of_a_tool_of_a_host_covers_all_its_arguments(
    lab: Lab, word: str
) -> None:
    for host in ("test", "production"):
        lab.server.add(answer(call("peek", {word: "deploy", "host": host})), answer("Done."))
    async with lab.client("--approval", "on-write") as client:
        await client.ask("set_host_tools", tools=[HOST_TOOL])
        await _prompt(client)
        first = await _answer(client, FOR_SESSION)
        sent = await client.wait_for("host_tool_call")
        content = [{"type": "text", "text": "deployed"}]
        await client.send("host_tool_result", id=sent["id"], result={"content": content})
        await client.collect("agent_settled")
        await _prompt(client, "Again")
        second = await _answer(client, DENY)
        await client.collect("agent_settled")
    assert "test" in first["title"]
    assert "production" in second["title"]
    assert [failed for _, failed in _results(lab)] == [False, True]


async def test_another_spelling_of_a_file_is_no_way_around_a_rule(lab: Lab) -> None:
    rules = [
        {"tool": "*", "path": "ada\u2019s/**", "action": "deny"},
        {"tool": "*", "path": "private/**", "action": "deny"},
        {"tool": "*", "action": "allow"},
    ]
    lab.settings(approval={"rules": rules})
    for folder in ("ada\u2019s", "private"):
        (lab.work / folder).mkdir()
        (lab.work / folder / "key").write_text("the-secret")
    calls = [
        call("read", {"path": "ada's/key"}, "c1"),
        call("grep", {"pattern": "secret", "path": "private"}, "c2"),
        call("grep", {"pattern": "secret"}, "c3"),
    ]
    lab.server.add(answer(*calls), answer("Done."))
    async with lab.client("--tools", "read,grep") as client:
        await _prompt(client)
        request = await _answer(client, DENY)
        await client.collect("agent_settled")
    assert request["toolCallId"] == "c3"
    assert [failed for _, failed in _results(lab)] == [True, True, True]
    assert "the-secret" not in str(_results(lab))


async def test_rules_decide_and_what_they_cannot_read_is_asked_about(lab: Lab) -> None:
    rules = [
        {"tool": "bash", "command": "git push *", "action": "deny"},
        {"tool": "bash", "command": "echo *", "action": "allow"},
        {"tool": "write", "path": "src/**", "action": "allow"},
    ]
    lab.settings(approval={"mode": "rules", "rules": rules})
    (lab.work / "src").mkdir()
    (lab.work / "src" / "out").symlink_to(lab.root)
    calls = [
        bash("echo fine", "c1"),
        bash("echo fine; touch made", "c2"),
        bash("git push --force", "c3"),
        call("write", {"path": "src/a", "content": "x"}, "c4"),
        call("write", {"path": "src/../b", "content": "x"}, "c5"),
        call("write", {"path": "src/out/c", "content": "x"}, "c6"),
    ]
    lab.server.add(answer(*calls), answer("Done."))
    async with lab.client() as client:
        await _prompt(client)
        questions = [await _answer(client, DENY) for _ in range(3)]
        await client.collect("agent_settled")
    assert [one["toolCallId"] for one in questions] == ["c2", "c5", "c6"]
    ends = {end["toolCallId"]: end for end in only(told(lab), "tool_execution_end")}
    assert text_of(ends["c3"]["result"]) == "Not run: a rule of the user forbids this call of bash."
    assert not ends["c1"]["isError"]
    assert not ends["c4"]["isError"]
    assert not (lab.root / "c").exists()
    assert not (lab.work / "b").exists()


async def test_a_dialog_shows_the_whole_call_even_if_its_title_cannot(lab: Lab) -> None:
    command = "echo a\n\x1b[2Krm -rf x\u202e\u3164\u2800\U000e0101" + "#" * 1000
    lab.server.add(answer(bash(command)), answer("Done."))
    async with lab.client("--approval", "always") as client:
        await _prompt(client)
        request = await _answer(client, DENY)
        await client.collect("agent_settled")
    assert request["title"].startswith(
        r"Allow bash: echo a\n\x1b[2Krm -rf x\u202e\u3164\u2800\U000e0101###"
    )
    assert request["title"].endswith(" more characters)")
    assert request["args"] == {"command": command}


async def test_a_trusted_project_can_ask_for_more_and_not_for_less(lab: Lab) -> None:
    (lab.work / ".pi").mkdir()
    project = lab.work / ".pi" / "settings.json"
    project.write_bytes(dumps({"approval": {"mode": "on-write"}}))
    lab.server.add(answer(bash("echo 1")), answer("Done."))
    async with lab.client("--approve") as client:
        await _prompt(client)
        await _answer(client, DENY)
        await client.collect("agent_settled")
    loose = {"mode": "rules", "rules": [{"tool": "*", "action": "allow"}], "timeoutMs": 10**9}
    project.write_bytes(dumps({"approval": loose}))
    lab.server.add(answer(bash("echo 2")), answer("Done."))
    async with lab.client("--approve", "--approval", "on-write") as client:
        await _prompt(client)
        request = await _answer(client, DENY)
        await client.collect("agent_settled")
    assert request["timeout"] == 300_000
    assert [failed for _, failed in _results(lab)] == [True, True]


async def test_a_project_that_is_trusted_later_is_heard_then(lab: Lab) -> None:
    (lab.work / ".pi").mkdir()
    (lab.work / ".pi" / "settings.json").write_bytes(dumps({"approval": {"mode": "always"}}))
    lab.server.add(answer(bash("echo 1")), answer("Done."), answer(bash("echo 2")), answer("Done."))
    async with lab.client() as client:
        await client.prompt_and_collect("Go")
        await client.ask("set_project_trust", trusted=True, remember=False)
        await _prompt(client)
        await _answer(client, DENY)
        await client.collect("agent_settled")
    assert [failed for _, failed in _results(lab)] == [False, True]


# ---------------------------------------------------------------- others who ask


async def test_hosts_of_omp_are_asked_as_they_know_it(lab: Lab) -> None:
    lab.server.add(answer(bash("echo hello")), answer("Done."))
    words = ("--rpc-dialect", "omp", "--approval-mode", "write")
    async with lab.client(*words) as client:
        await _prompt(client)
        request = await _answer(client, "Approve")
        await client.collect("agent_end")
    assert {"Approve", "Deny"} <= set(request["options"])
    assert "hello" in str(lab.server.requests[1].body)


async def test_agents_in_the_background_ask_through_the_same_host(tmp_path: Path) -> None:
    with TwoScripts() as server:
        lab = Lab(tmp_path, server)
        lab.settings(task={"enabled": True})
        server.add(
            answer(call("task", {"tasks": [{"name": "Ada", "task": "Touch it"}]})),
            answer("Started."),
            answer("So it goes."),
        )
        server.of_agents += (
            answer(bash("touch made")),
            answer(call("yield", {"result": {"data": "not done"}})),
        )
        async with lab.client("--approval", "on-write") as client:
            await _prompt(client)
            request = await _answer(client, DENY)
            while "So it goes." not in str(told(lab)):
                await client.collect("agent_settled")
            state = await client.ask("get_state")
    assert (request["toolName"], request["args"]) == ("bash", {"command": "touch made"})
    assert request["sessionId"] != state["sessionId"]
    assert any("the user denied" in str(one.body) for one in server.requests)
    assert not (lab.work / "made").exists()


def test_a_program_answers_by_a_function_and_denies_without_one(lab: Lab) -> None:
    questions: list[Any] = []

    def approve(request: Any) -> str:
        questions.append(request)
        return APPROVE

    async def run(**more: Any) -> None:
        async with create_session(
            model=_says_touch, cwd=lab.work, approval="on-write", agent_dir=lab.agent, **more
        ) as session:
            await session.prompt("Go")

    asyncio.run(run())
    assert not (lab.work / "made").exists()
    asyncio.run(run(on_dialog=approve))
    assert [one.tool_name for one in questions] == ["bash"]
    assert (lab.work / "made").exists()


async def _says_touch(context: Any) -> Any:
    from ludolf.ai.messages import ToolCall

    if any(getattr(message, "role", "") == "toolResult" for message in context.messages):
        yield "Done."
    else:
        yield ToolCall(id="c", name="bash", arguments={"command": "touch made"})


# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("settings", "words", "complaint"),
    [
        ({"approval": {"mode": "allways"}}, (), "approval"),
        ({"approval": True}, (), "approval"),
        ({}, ("--approval", "sometimes"), "never, on-command, on-write, always, rules"),
    ],
)
def test_a_mistake_ends_the_start(
    lab: Lab, settings: dict[str, Any], words: tuple[str, ...], complaint: str
) -> None:
    lab.settings(**settings)
    done = lab.run("-p", *words, "Go")
    assert (done.code, done.stdout) == (1, b"")
    assert complaint in done.stderr


def test_a_spoilt_file_that_speaks_of_safety_ends_the_start_and_no_other_does(lab: Lab) -> None:
    path = lab.agent / "settings.json"
    text = path.read_text()
    path.write_text(text + " {")
    lab.server.add(answer("Hello."))
    assert lab.run("-p", "--model", "claude/large", "Go").code == 0
    path.write_text('{"approval": {"mode": "always"},}')
    done = lab.run("-p", "--model", "claude/large", "Go")
    assert done.code == 1
    assert "Correct it first" in done.stderr


@pytest.mark.parametrize(
    "mistake", [{"approval": {"mode": "nver"}}, {"approval": None, "approvals": {"mode": "always"}}]
)
async def test_a_mistake_made_later_changes_nothing(lab: Lab, mistake: dict[str, Any]) -> None:
    lab.settings(approval={"mode": "always"})
    lab.server.add(answer(bash("touch made")), answer("Done."))
    async with lab.client() as client:
        await client.ask("get_state")
        lab.settings(**mistake)
        await client.ask("reload")
        await _prompt(client)
        await _answer(client, DENY)
        await client.collect("agent_settled")
    assert not (lab.work / "made").exists()
    assert any("the previous ones stay in effect" in str(one) for one in told(lab))
