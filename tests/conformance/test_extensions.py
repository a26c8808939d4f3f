"""Extensions as hosts meet them: commands and errors."""

import pytest

from tests.conformance import asking
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, prompts, tell, users
from tests.process.harness import types
from tests.process.script import Gate, answer, say

# ---------------------------------------------------------------- commands and errors


async def _commands(stage: Stage) -> None:
    stage.lay(asking.PLACE, asking.SOURCE)
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
        assert one["path"] == str(commands.stage.root / asking.PLACE)


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
        **{"type": "extension_error", "extensionPath": str(commands.stage.root / asking.PLACE)},
        **{"event": "turn_start", "error": "no turn"},
    }
    (boom,) = [one for one in commands.events("extension_error") if one["event"] == "command"]
    assert boom["error"] == "it failed"
    assert commands.reply("boom")["success"]
