"""An extension that asks, tells and fails on demand."""

import json
from typing import Any

from ludolf.client import Client, Record
from tests.conformance.stage import Stage, Story
from tests.process.extending import is_dialog

PLACE = "home/.pi/agent/extensions/mine.py"
SOURCE = """
import json
from pathlib import Path

def extension(api):
    def show(ctx, value):
        ctx.ui.notify(json.dumps({"shown": value}))

    @api.command("say", description="Speaks for the user")
    async def speak(args, ctx):
        ctx.send_user_message(args, deliver_as=None if ctx.is_idle else "steer")

    @api.command("bare")
    async def bare(args, ctx): ...

    @api.on("turn_start")
    def turn(event, ctx):
        raise RuntimeError("no turn")

    @api.command("boom")
    async def boom(args, ctx):
        raise RuntimeError("it failed")

    @api.command("leave")
    async def leave(args, ctx):
        ctx.shutdown()

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

    @api.command("hold")
    async def hold(args, ctx):
        answer = await ctx.ui.confirm("Sure?", "Really?", timeout=60_000)
        Path("held").write_text(repr(answer))

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
        show(ctx, "done")

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


async def told_by(client: Client, command: str) -> Record:
    """Have the extension act, and wait for what it shows at the end."""
    await client.send("prompt", id=command, message=f"/{command}")
    return (await client.collect(lambda one: is_dialog("notify")(one) and _is_shown(one)))[-1]


def _is_shown(note: Record) -> bool:
    return str(note["message"]).startswith('{"shown"')


async def ask_all(client: Client) -> None:
    """Open every dialog, answer a stranger first, then it."""
    for name, (given, _) in ANSWERS.items():
        method = name.split()[0]
        await client.send("prompt", id=name, message=f"/ask {method}")
        request = await client.wait_for(is_dialog(method))
        await client.send("extension_ui_response", id="nobody", value="A", confirmed=True)
        await client.request("get_state", id=f"while {name}")
        await client.send("extension_ui_response", id=request["id"], **given)
        await client.wait_for(is_dialog("notify"))
    for name in ("ask late-select", "ask late-confirm", "oneway", "constants"):
        await told_by(client, name)


async def play(stage: Stage) -> None:
    """All dialogs and notices, a command that fails, and a dialog that the end breaks off."""
    stage.lay(PLACE, SOURCE)
    async with stage.client() as client:
        await ask_all(client)
        await client.send("prompt", id="boom", message="/boom")
        await client.wait_for("extension_error")
        await client.send("prompt", id="hold", message="/hold")
        await client.wait_for(is_dialog("confirm"))


def requests(story: Story, method: str) -> list[Record]:
    return [one for one in story.events("extension_ui_request") if one["method"] == method]


def shown(story: Story) -> list[Any]:
    """What the extension showed, in order."""
    notes = [one for one in requests(story, "notify") if _is_shown(one)]
    return [json.loads(one["message"])["shown"] for one in notes]
