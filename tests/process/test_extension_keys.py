"""Completions of command arguments and keys of extensions, over the protocol and at a terminal."""

from typing import Any

import pytest

from ludolf.client import Client
from tests.process.extending import errors, lay, notes, told
from tests.process.harness import Lab
from tests.process.tmux_stage import tmux_terminal
from tests.script_host import lay_script, needs_node

PYTHON = """
def extension(api):
    async def places(prefix):
        if prefix == "fail":
            raise ValueError("no places")
        found = [one for one in ("staging", "production") if one.startswith(prefix)]
        return [{"value": one, "label": f"to {one}"} for one in found]

    @api.command("deploy", description="Deploy to a place", completions=places)
    async def deploy(args, ctx):
        ctx.ui.notify(f"Deployed to {args}")

    @api.command("plain")
    async def plain(args, ctx): ...

    @api.shortcut("ctrl+shift+y", description="Say the model")
    async def say(ctx):
        ctx.ui.notify(f"Model {ctx.model.id}")

    @api.shortcut("f9")
    def nine(ctx):
        ctx.ui.notify("Nine was pressed")

    @api.shortcut("f8")
    def broken(ctx):
        raise ValueError("broken key")
"""


async def _completed(client: Client, name: str, prefix: str) -> Any:
    return await client.ask("complete_command", name=name, prefix=prefix)


@pytest.mark.parametrize("language", ["python", pytest.param("script", marks=needs_node)])
async def test_hosts_complete_arguments_and_press_keys(lab: Lab, language: str) -> None:
    path = lay(lab, PYTHON) if language == "python" else lay_script(lab, "keys")
    async with lab.client() as client:
        one = {"value": "staging", "label": "to staging"}
        assert await _completed(client, "deploy", "st") == {"items": [one]}
        assert await _completed(client, "deploy", "x") == {"items": []}
        assert await _completed(client, "deploy", "fail") == {"items": []}
        assert await _completed(client, "plain", "") is None
        assert await _completed(client, "missing", "") is None
        found = (await client.ask("get_shortcuts"))["shortcuts"]
        await client.ask("run_shortcut", key="CTRL+shift+y")
        await client.ask("run_shortcut", key="f8")
        refused = await client.request("run_shortcut", key="f7")
    first = {"key": "ctrl+shift+y", "description": "Say the model", "extensionPath": str(path)}
    assert found[0] == first
    assert [one["key"] for one in found[1:]] == ["f9", "f8"]
    assert notes(lab) == ["Model large"]
    assert refused["error"] == "No extension has registered the key f7."
    assert errors(told(lab)) == [("completions", "no places"), ("shortcut:f8", "broken key")]


def test_the_terminal_offers_arguments_and_obeys_keys(lab: Lab) -> None:
    lay(lab, PYTHON)
    with tmux_terminal(lab) as terminal:
        terminal.start()
        terminal.wait_for("large")
        terminal.press("F9")
        terminal.wait_for("Nine was pressed")
        terminal.type("/deploy st")
        terminal.wait_for("to staging")
        terminal.press("Tab")
        terminal.wait_for("> /deploy staging")
        terminal.press("Enter")
        terminal.wait_for("Deployed to staging")
