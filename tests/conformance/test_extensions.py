"""Extensions as hosts meet them: commands, vetoes, errors, and dialogs over the wire."""

import json
from typing import Any

import pytest

from ludolf.client import Client, Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, prompts, tell, users
from tests.process.harness import types
from tests.process.script import Gate, answer, say

PLACE = "home/.pi/agent/extensions/mine.py"
MINE = """
import json

def extension(api):
    def show(ctx, value):
        ctx.ui.notify(json.dumps(value))

    @api.command("say", description="Speaks for the user")
    async def speak(args, ctx):
        ctx.send_user_message(args, deliver_as=None if ctx.is_idle else "steer")

    @api.command("bare")
    async def bare(args, ctx): ...

    @api.command("boom", description="Fails")
    async def boom(args, ctx):
        raise RuntimeError("it failed")

    @api.on("turn_start")
    def turn(event, ctx):
        raise RuntimeError("no turn")

    @api.command("ask")
    async def ask(args, ctx):
        ui = ctx.ui
        asked = {
            "select": lambda: ui.select("Pick", ["A", "B"]),
            "confirm": lambda: ui.confirm("Sure?", "Really?"),
            "input": lambda: ui.input("Name?", "Ada"),
            "editor": lambda: ui.editor("Edit", "text"),
            "late-select": lambda: ui.select("Pick", ["A", "B"], timeout=30),
            "late-confirm": lambda: ui.confirm("Sure?", "Really?", timeout=30),
        }
        show(ctx, await asked[args]())

    @api.command("oneway")
    async def oneway(args, ctx):
        ui = ctx.ui
        ui.notify("plain")
        ui.notify("careful", "warning")
        ui.notify("broken", "error")
        ui.notify("fyi", "info")
        ui.set_status("key", "working")
        ui.set_status("key", None)
        ui.set_widget("box", ["one", "two"])
        ui.set_widget("box", ["below"], placement="belowEditor")
        ui.set_widget("box", None)
        ui.set_widget("box", lambda: None)
        ui.set_title("a title")
        ui.set_editor_text("a text")
        ui.paste_to_editor("pasted")

    @api.command("constants")
    async def constants(args, ctx):
        ui = ctx.ui
        nothing = [ui.set_working_message("x"), ui.set_working_indicator("x"), ui.set_footer(None),
                   ui.set_header(None), ui.set_editor_component(None), ui.set_tools_expanded(True),
                   await ui.custom(lambda: {}), ui.get_theme("dark")]
        show(ctx, {"nothing": nothing, "editor": ui.get_editor_text(),
                   "expanded": ui.get_tools_expanded(), "themes": ui.get_all_themes(),
                   "theme": ui.set_theme("dark"), "mode": ctx.mode, "ui": ctx.has_ui})
"""
VETO = """
def extension(api):
    for name in ("session_before_switch", "session_before_fork"):
        api.on(name, lambda event, ctx: {"cancel": True})
"""
# What a host answers to each dialog in turn, and what the extension then has.
ANSWERS: dict[str, tuple[dict[str, Any], Any]] = {
    "select": ({"value": "B"}, "B"),
    "select cancelled": ({"cancelled": True}, None),
    "confirm": ({"confirmed": True}, True),
    "confirm no": ({"confirmed": False}, False),
    "confirm cancelled": ({"cancelled": True}, False),
    "input": ({"value": "Grace"}, "Grace"),
    "input cancelled": ({"cancelled": True}, None),
    "editor": ({"value": "new text"}, "new text"),
    "editor cancelled": ({"cancelled": True}, None),
}


def _requests(story: Story, method: str) -> list[Record]:
    return [one for one in story.events("extension_ui_request") if one["method"] == method]


def _after(story: Story, command_id: str) -> list[Record]:
    """What was told since the reply before that to this command."""
    place = story.records.index(story.reply(command_id))
    earlier = [n for n in range(place) if story.records[n]["type"] == "response"]
    return story.records[earlier[-1] + 1 if earlier else 0 : place]


# ---------------------------------------------------------------- commands and errors


async def _commands(stage: Stage) -> None:
    stage.lay(PLACE, MINE)
    gate = Gate()
    stage.server.add(answer("One."), answer(say("Hold ", gate, "on.")), answer("Three."))
    async with stage.client() as client:
        await client.request("get_commands", id="commands")
        await client.request("prompt", id="idle", message="/say Hello from afar")
        await client.wait_for("agent_settled")
        await client.request("prompt", id="prompt", message="Go")
        await client.wait_for("message_update")
        await client.request("prompt", id="busy", message="/say Meanwhile")
        await client.request("steer", id="steer", message="/say No")
        await client.request("follow_up", id="follow up", message="/say No")
        gate.open()
        await client.wait_for("agent_settled")
        await client.request("prompt", id="boom", message="/boom")


@pytest.fixture(scope="module")
def commands(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _commands)


@proves("RPC4-commands-15", "RPC4-commands-16", "RPC4-commands-17", "RPC4-commands-18")
def test_commands_of_extensions_are_listed(commands: Story) -> None:
    listed = {one["name"]: one for one in commands.data("commands")["commands"]}
    assert listed["say"]["description"] == "Speaks for the user"
    assert "description" not in listed["bare"]
    for one in listed.values():
        assert one["source"] == "extension"
        assert "location" not in one
        assert one["path"] == str(commands.stage.root / PLACE)


@proves("RPC4-prompt-20", "RPC4-prompt-22", "RPC3-extensions-01")
def test_a_command_runs_at_once_also_during_a_run(commands: Story) -> None:
    assert commands.reply("idle")["success"]
    assert commands.reply("busy")["success"]
    names = types(commands.run("prompt"))
    busy = commands.run("prompt").index(commands.reply("busy"))
    assert busy < names.index("message_end assistant")


@proves("RPC4-prompt-21")
def test_a_command_talks_to_the_model_on_its_own(commands: Story) -> None:
    assert prompts(commands.requests[0]) == ["Hello from afar"]
    assert users(commands.run("prompt")) == ["Go", "Meanwhile"]


@proves("RPC4-steer-09", "RPC4-follow-up-09")
@pytest.mark.parametrize("name", ["steer", "follow up"])
def test_a_command_cannot_wait_in_a_line(commands: Story, name: str) -> None:
    reply = commands.reply(name)
    assert reply["success"] is False
    assert "/say" in reply["error"]


@proves(
    *("RPC4-extension-error-01", "RPC4-extension-error-02", "RPC4-extension-error-03"),
    *("RPC4-extension-error-04", "RPC3-extensions-03"),
)
def test_errors_of_extensions_are_told(commands: Story) -> None:
    error = commands.events("extension_error")[0]
    assert error == {
        **{"type": "extension_error", "extensionPath": str(commands.stage.root / PLACE)},
        **{"event": "turn_start", "error": "no turn"},
    }
    (boom,) = [one for one in commands.events("extension_error") if one["event"] == "command"]
    assert boom["error"] == "it failed"
    assert commands.reply("boom")["success"]


# ---------------------------------------------------------------- vetoes


async def _vetoes(stage: Stage) -> None:
    stage.lay(PLACE, VETO)
    stage.server.add(answer("Hello."))
    async with stage.client() as client:
        await client.prompt_and_collect("Hi")
        found = await client.ask("get_fork_messages")
        await client.request("get_state", id="before")
        await client.request("new_session", id="new")
        path = (await client.ask("get_state"))["sessionFile"]
        await client.request("switch_session", id="switch", sessionPath=path)
        await client.request("fork", id="fork", entryId=found["messages"][0]["entryId"])
        await client.request("clone", id="clone")
        await client.request("get_state", id="after")


@pytest.fixture(scope="module")
def vetoes(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _vetoes)


@proves("RPC4-cancel-01", "RPC4-cancel-02", "RPC4-cancel-03", "RPC4-cancel-04")
def test_a_change_of_session_can_be_cancelled(vetoes: Story) -> None:
    assert vetoes.data("new") == {"cancelled": True}
    assert vetoes.data("switch") == {"cancelled": True}
    assert vetoes.data("after")["sessionId"] == vetoes.data("before")["sessionId"]


@proves("RPC4-cancel-05", "RPC4-cancel-06", "RPC4-cancel-07", "RPC4-cancel-08")
def test_a_fork_and_a_clone_can_be_cancelled(vetoes: Story) -> None:
    fork = vetoes.data("fork")
    assert fork["cancelled"] is True
    assert "text" in fork
    assert vetoes.data("clone") == {"cancelled": True}
    assert len(vetoes.stage.sessions) == 1


# ---------------------------------------------------------------- dialogs


async def _ask(client: Client, name: str, given: dict[str, Any]) -> None:
    await client.send("prompt", id=name, message=f"/ask {name.split()[0]}")
    request = await client.wait_for("extension_ui_request")
    await client.request("get_state", id=f"while {name}")
    await client.send("extension_ui_response", id=f"not {request['id']}", value="A")
    await client.request("get_state", id=f"still {name}")
    await client.send("extension_ui_response", id=request["id"], **given)
    await client.reply_to(name)
    await client.wait_for("extension_ui_request")


async def _dialogs(stage: Stage) -> None:
    stage.lay(PLACE, MINE)
    async with stage.client() as client:
        for name, (given, _) in ANSWERS.items():
            await _ask(client, name, given)
        for name in ("late-select", "late-confirm"):
            await client.request("prompt", id=name, message=f"/ask {name}")


@pytest.fixture(scope="module")
def dialogs(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _dialogs)


def _had(story: Story, name: str) -> Any:
    """What an extension got for an answer, as it tells before its command is answered."""
    told = [one for one in _after(story, name) if one.get("method") == "notify"]
    return json.loads(told[-1]["message"])


@proves(
    *("RPC4-ui-01", "RPC4-ui-02", "RPC4-ui-35", "RPC3-extensions-02", "RPC3-extensions-04"),
    *("RPC3-extensions-05", "RPC3-extensions-06"),
)
def test_a_dialog_waits_for_the_response_with_its_id(dialogs: Story) -> None:
    for name in ANSWERS:
        reply = dialogs.records.index(dialogs.reply(name))
        for stage in ("while", "still"):
            assert dialogs.records.index(dialogs.reply(f"{stage} {name}")) < reply
    assert [one["command"] for one in dialogs.records if one["type"] == "response"].count(
        "extension_ui_response"
    ) == 0


@proves(
    *("RPC4-ui-18", "RPC4-ui-20", "RPC4-ui-22", "RPC4-ui-24", "RPC4-ui-36", "RPC4-ui-37"),
    *("RPC4-ui-38", "RPC3-extensions-08"),
)
@pytest.mark.parametrize("name", ANSWERS)
def test_the_answer_reaches_the_extension(dialogs: Story, name: str) -> None:
    assert _had(dialogs, name) == ANSWERS[name][1]


@proves("RPC4-ui-15", "RPC4-ui-16", "RPC4-ui-19", "RPC4-ui-21", "RPC4-ui-23")
def test_requests_have_the_fields_of_their_method(dialogs: Story) -> None:
    wanted: dict[str, dict[str, Any]] = {
        "select": {"title": "Pick", "options": ["A", "B"]},
        "confirm": {"title": "Sure?", "message": "Really?"},
        "input": {"title": "Name?", "placeholder": "Ada"},
        "editor": {"title": "Edit", "prefill": "text"},
    }
    for method, fields in wanted.items():
        first = _requests(dialogs, method)[0]
        head = {"type": "extension_ui_request", "id": first["id"], "method": method}
        assert first == {**head, **fields}
    ids = [one["id"] for one in dialogs.events("extension_ui_request")]
    assert len(set(ids)) == len(ids)


@proves("RPC4-ui-04", "RPC4-ui-16", "RPC4-ui-17", "RPC4-ui-19")
def test_a_dialog_with_a_timeout_settles_itself(dialogs: Story) -> None:
    assert _requests(dialogs, "select")[-1]["timeout"] == 30
    assert _requests(dialogs, "confirm")[-1]["timeout"] == 30
    assert _had(dialogs, "late-select") is None
    assert _had(dialogs, "late-confirm") is False


# ---------------------------------------------------------------- without an answer


async def _one_way(stage: Stage) -> None:
    stage.lay(PLACE, MINE)
    async with stage.client() as client:
        await client.request("prompt", id="oneway", message="/oneway")
        await client.request("prompt", id="constants", message="/constants")


@pytest.fixture(scope="module")
def one_way(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _one_way)


@proves("RPC4-ui-03", "RPC3-extensions-07")
def test_notices_are_written_and_nobody_waits(one_way: Story) -> None:
    methods = [one["method"] for one in _after(one_way, "oneway")]
    assert methods == [
        *("notify", "notify", "notify", "notify", "setStatus", "setStatus"),
        *("setWidget", "setWidget", "setWidget", "setTitle"),
        *("set_editor_text", "set_editor_text"),
    ]


@proves("RPC4-ui-25", "RPC4-ui-26")
def test_notify_has_a_message_and_a_kind(one_way: Story) -> None:
    told = [(one["message"], one.get("notifyType")) for one in _requests(one_way, "notify")]
    assert told[:4] == [
        *(("plain", None), ("careful", "warning"), ("broken", "error"), ("fyi", "info")),
    ]


@proves("RPC4-ui-27", "RPC4-ui-28")
def test_a_status_is_set_and_cleared(one_way: Story) -> None:
    shown, cleared = _requests(one_way, "setStatus")
    assert (shown["statusKey"], shown["statusText"]) == ("key", "working")
    assert cleared["statusKey"] == "key"
    assert "statusText" not in cleared


@proves("RPC4-ui-29", "RPC4-ui-30", "RPC4-ui-31", "RPC4-ui-32")
def test_a_widget_is_set_placed_and_cleared_and_factories_are_left_aside(one_way: Story) -> None:
    first, below, cleared = _requests(one_way, "setWidget")
    assert (first["widgetKey"], first["widgetLines"]) == ("box", ["one", "two"])
    assert first.get("widgetPlacement", "aboveEditor") == "aboveEditor"
    assert (below["widgetLines"], below["widgetPlacement"]) == (["below"], "belowEditor")
    assert "widgetLines" not in cleared


@proves("RPC4-ui-33", "RPC4-ui-34", "RPC4-ui-09")
def test_title_and_editor_text_are_set_also_by_pasting(one_way: Story) -> None:
    assert [one["title"] for one in _requests(one_way, "setTitle")] == ["a title"]
    texts = [one["text"] for one in _requests(one_way, "set_editor_text")]
    assert texts == ["a text", "pasted"]


@proves(
    *("RPC4-ui-05", "RPC4-ui-06", "RPC4-ui-07", "RPC4-ui-08", "RPC4-ui-10", "RPC4-ui-11"),
    *("RPC4-ui-12", "RPC4-ui-13", "RPC4-ui-14", "RPC3-extensions-09"),
)
def test_what_needs_a_terminal_is_answered_with_a_constant(one_way: Story) -> None:
    seen = _had(one_way, "constants")
    assert seen["nothing"] == 8 * [None]
    assert (seen["editor"], seen["expanded"], seen["themes"]) == ("", False, [])
    assert seen["theme"]["success"] is False
    assert seen["theme"]["error"]
    assert (seen["mode"], seen["ui"]) == ("rpc", True)
