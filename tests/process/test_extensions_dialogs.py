"""Dialogs over the wire: answers, cancels, time limits, strays; and modes without anybody there."""

import json
from typing import Any

import pytest

from ludolf.base import dumps, loads
from tests.process.extending import asked, dialog, lay, notes, reply, told
from tests.process.harness import Lab, only
from tests.process.script import answer, bash
from tests.script_host import needs_node

ASKING = """
import json

def extension(api):
    def add(name, ask):
        @api.command(name)
        async def run(args, ctx):
            ctx.ui.notify(name + "=" + json.dumps(await ask(ctx.ui)))

    add("select", lambda ui: ui.select("Pick", ["A", "B"]))
    add("confirm", lambda ui: ui.confirm("Sure?", "Really?"))
    add("input", lambda ui: ui.input("Name?", "Ada"))
    add("editor", lambda ui: ui.editor("Edit", "text"))
    add("late", lambda ui: ui.select("Pick", ["A", "B"], timeout=30))
    add("late-confirm", lambda ui: ui.confirm("Sure?", "Really?", timeout=30))
    add("late-editor", lambda ui: ui.editor("Edit", timeout=30))
"""
ANSWERS: list[tuple[str, dict[str, Any], Any]] = [
    ("select", {"value": "B"}, "B"),
    ("select", {"cancelled": True}, None),
    ("select", {"value": 7}, None),
    ("select", {"value": "Z"}, "Z"),  # as in pi
    ("select", {"confirmed": True}, None),
    ("confirm", {"confirmed": True}, True),
    ("confirm", {"confirmed": False}, False),
    ("confirm", {"cancelled": True}, False),
    ("confirm", {"value": "yes"}, False),
    ("input", {"value": "Grace"}, "Grace"),
    ("input", {"value": ""}, ""),
    ("input", {"cancelled": True}, None),
    ("editor", {"value": "a\nb"}, "a\nb"),
    ("editor", {"cancelled": True}, None),
]


async def test_answers_reach_the_extension(lab: Lab) -> None:
    lay(lab, ASKING)
    async with lab.client() as client:
        for number, (method, given, _) in enumerate(ANSWERS):
            await client.send("prompt", id=number, message=f"/{method}")
            await reply(client, await dialog(client, method), **given)
            assert (await client.reply_to(number))["success"]
    assert notes(lab) == [f"{method}={json.dumps(value)}" for method, _, value in ANSWERS]
    replies = only(told(lab), "response")
    assert [one["id"] for one in replies] == list(range(len(ANSWERS)))


async def test_requests_have_the_fields_of_their_method(lab: Lab) -> None:
    lay(lab, ASKING)
    async with lab.client() as client:
        for method in ("select", "confirm", "input", "editor"):
            await client.send("prompt", message=f"/{method}")
            await reply(client, await dialog(client, method), cancelled=True)
        await client.ask("get_state")
    dialogs = [one for one in asked(told(lab)) if one["method"] != "notify"]
    ids = [one.pop("id") for one in dialogs]
    assert len(set(ids)) == 4
    kind = {"type": "extension_ui_request"}
    assert dialogs == [
        {**kind, "method": "select", "title": "Pick", "options": ["A", "B"]},
        {**kind, "method": "confirm", "title": "Sure?", "message": "Really?"},
        {**kind, "method": "input", "title": "Name?", "placeholder": "Ada"},
        {**kind, "method": "editor", "title": "Edit", "prefill": "text"},
    ]


async def test_a_dialog_whose_time_is_up_gives_its_default(lab: Lab) -> None:
    lay(lab, ASKING)
    async with lab.client() as client:
        for name in ("late", "late-confirm", "late-editor"):
            await client.ask("prompt", message=f"/{name}")
        request = asked(told(lab), "select")[0]
        await reply(client, request, value="A")  # too late: it changes nothing
        await client.ask("get_state")
    assert request["timeout"] == 30
    assert notes(lab) == ["late=null", "late-confirm=false", "late-editor=null"]


async def test_strays_settle_nothing(lab: Lab) -> None:
    lay(lab, ASKING)
    async with lab.client() as client:
        await client.send("prompt", id="p", message="/select")
        request = await dialog(client, "select")
        await client.send("extension_ui_response", id="nobody", value="A")
        await client.process.write(b'{"type":"extension_ui_response","value":"A"}\n')
        await client.process.write(b'{"type":"extension_ui_response","id":7,"value":"A"}\n')
        await client.ask("get_state")
        assert notes(lab) == []
        await reply(client, request, value="B")
        await reply(client, request, value="A")
        await client.reply_to("p")
    assert notes(lab) == ['select="B"']
    assert [one["command"] for one in only(told(lab), "response")] == ["get_state", "prompt"]


async def test_commands_are_answered_while_dialogs_are_open(lab: Lab) -> None:
    lay(lab, ASKING)
    lab.server.add(answer("Hello."))
    async with lab.client() as client:
        await client.send("prompt", id="a", message="/select")
        first = await dialog(client, "select")
        await client.send("prompt", id="b", message="/confirm")
        second = await dialog(client, "confirm")
        assert (await client.ask("get_state"))["isStreaming"] is False
        assert (await client.ask("bash", command="echo hi"))["output"] == "hi\n"
        await client.prompt_and_collect("Hi")
        await reply(client, second, confirmed=True)
        await client.reply_to("b")
        await reply(client, first, value="A")
        await client.reply_to("a")
    assert notes(lab) == ["confirm=true", 'select="A"']


GATE = """
def extension(api):
    @api.on("tool_call")
    async def gate(event, ctx):
        if not await ctx.ui.confirm("Run it?", event.input["command"]):
            return {"block": True, "reason": "refused"}
"""


async def test_abort_withdraws_the_dialog_of_a_handler(lab: Lab) -> None:
    lay(lab, GATE)
    lab.server.add(answer(bash("touch a.txt")))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        request = await dialog(client, "confirm")
        assert (await client.request("abort"))["success"]
        await client.wait_for("agent_settled")
        await reply(client, request, confirmed=True)
        await client.ask("get_state")
    assert not (lab.work / "a.txt").exists()


@pytest.mark.parametrize("mode", [("-p",), ("--mode", "json")])
def test_with_nobody_there_dialogs_give_their_defaults_at_once(
    lab: Lab, mode: tuple[str, ...]
) -> None:
    lay(
        lab,
        """
        import json, sys

        def extension(api):
            @api.on("before_agent_start")
            async def ask(event, ctx):
                ui = ctx.ui
                ui.notify("a notice")
                ui.set_status("key", "unseen")
                said = [ctx.mode, ctx.has_ui, await ui.select("Pick", ["A"]),
                        await ui.confirm("Sure?", ""), await ui.input("Name?"),
                        await ui.editor("Edit"), ui.set_theme("dark")["error"]]
                sys.stderr.write(json.dumps(said))
        """,
    )
    lab.server.add(answer("Hello."))
    done = lab.run(*mode, "Hi")
    assert done.code == 0
    name = "json" if "json" in mode else "print"
    *notices, last = done.stderr.splitlines()
    assert notices == (["a notice"] if name == "print" else [])
    assert json.loads(last) == [
        *(name, False, None, False, None, None, "UI not available"),
    ]
    assert b"unseen" not in done.stdout


async def test_the_end_of_input_settles_an_open_dialog(lab: Lab) -> None:
    lay(
        lab,
        """
        from pathlib import Path

        def extension(api):
            @api.command("ask")
            async def ask(args, ctx):
                said = await ctx.ui.confirm("Sure?", "")
                Path("said").write_text(repr(said))
        """,
    )
    lines = lab.feed(dumps({"id": 1, "type": "prompt", "message": "/ask"}) + b"\n")
    assert [one["type"] for one in lines] == ["extension_ui_request", "response"]
    assert (lab.work / "said").read_text() == "False"


async def test_dialogs_are_asked_in_the_words_of_omp_too(lab: Lab) -> None:
    lay(lab, ASKING)
    async with lab.client("--rpc-dialect", "omp") as client:
        await client.send("prompt", id="p", message="/confirm")
        request = await dialog(client, "confirm")
        await reply(client, request, confirmed=True)
        await dialog(client, "notify")
    assert notes(lab) == ["confirm=true"]


ASKS_AT_START = """
def extension(api):
    @api.on("session_start")
    async def start(event, ctx):
        ctx.ui.notify(f"answer {await ctx.ui.confirm('Trust it?', 'Really?')}")
"""
SCRIPT_ASKS = """
export default function (pi: any) {
  pi.on("session_start", async (event: any, ctx: any) => {
    ctx.ui.notify(`answer ${(await ctx.ui.confirm("Trust it?", "Really?")) ? "True" : "False"}`);
  });
}
"""
LANGUAGES = [ASKS_AT_START, pytest.param(SCRIPT_ASKS, marks=needs_node)]


def _asks(lab: Lab, source: str) -> None:
    lay(lab, source, "asks.py" if "def extension" in source else "asks.ts")


@pytest.mark.parametrize("source", LANGUAGES, ids=["python", "script"])
@pytest.mark.parametrize("dialect", ["pi", "omp"])
async def test_a_host_answers_a_question_that_is_asked_during_the_start(
    lab: Lab, source: str, dialect: str
) -> None:
    _asks(lab, source)
    async with lab.client("--rpc-dialect", dialect) as client:
        asked_now = await dialog(client, "confirm")
        assert (await client.request("get_state"))["success"]
        await client.send("get_commands", id="later")
        await reply(client, asked_now, confirmed=True)
        assert (await client.reply_to("later"))["success"]
    assert notes(lab) == ["answer True"]


@pytest.mark.parametrize("source", LANGUAGES, ids=["python", "script"])
def test_a_host_that_leaves_a_question_of_the_start_open_ends_the_program(
    lab: Lab, source: str
) -> None:
    _asks(lab, source)
    done = lab.run("--mode", "rpc", stdin=b'{"type":"get_state","id":"1"}\n')
    assert done.code == 0
    frames = [loads(line) for line in done.stdout.splitlines()]
    methods = {one.get("method", one.get("command")) for one in frames}
    assert methods - {"confirm"} == {"get_state", "notify"}
