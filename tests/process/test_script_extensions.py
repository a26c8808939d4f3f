"""Extensions in TypeScript do what those in Python do, through the same runner."""

import json
from pathlib import Path
from typing import Any

import pytest

from ludolf.client import Client
from tests.process.extending import asked, dialog, errors, lay, notes, told, write
from tests.process.harness import Lab, messages, text_of
from tests.process.script import answer, bash, call
from tests.script_host import lay_script, needs_node

pytestmark = needs_node


async def _say(client: Client, text: str) -> None:
    reply = await client.request("prompt", message=text)
    assert reply["success"], reply["error"]


def _shown(lab: Lab) -> list[Any]:
    return [json.loads(text) for text in notes(lab)]


async def test_state_is_read_synchronously_and_is_exact(lab: Lab) -> None:
    lay_script(lab, "reads")
    lab.server.add(answer("Hello."))
    async with lab.client("--loud") as client:
        await client.prompt_and_collect("Hi")
        for name in ("state", "session", "run", "choose"):
            await _say(client, f"/{name}")
    assert errors(told(lab)) == []
    state, session, run, choice = _shown(lab)
    assert state == {
        "early": "Extension runtime not initialized. "
        "Action methods cannot be called during extension loading.",
        "loud": True,
        "mode": "rpc",
        "cwd": True,
        "idle": True,
        "wrapped": f"largetrue{len(str(lab.work))}",
        "model": "large",
        "found": "large",
        "missing": True,
        "tools": ["read", "bash", "edit", "write"],
        "commands": ["state", "session", "run", "choose"],
        "signal": True,
        "prompt": True,
        "theme": "plain",
        "pi": True,
    }
    assert session["roles"] == ["user", "assistant"]
    assert (session["data"], session["label"]) == ({"n": 1}, "here")
    assert session["name"] == ["Named", "Named"]
    assert "extensions read the session only" in session["write"]
    assert run == {"stdout": "out\n", "stderr": "", "code": 3, "killed": False}
    assert choice == [True, "chat"]


PYTHON = """
def extension(api):
    @api.on("tool_result")
    def last(event, ctx):
        return {"content": [*event.content, {"type": "text", "text": "from Python"}]}
"""


async def test_handlers_see_a_run_and_change_it_in_the_order_of_all_languages(lab: Lab) -> None:
    lay_script(lab, "hooks")
    lay(lab, PYTHON, "later.py")
    lab.server.add(answer("Looking.", bash("echo hi")), answer("Done."))
    async with lab.client() as client:
        await client.prompt_and_collect("Go")
        await _say(client, "/seen")
    assert errors(told(lab)) == []
    first = lab.server.requests[0]
    assert "Be brief." in json.dumps(first.body["system"])
    assert first.body["messages"][0]["content"][0]["text"] == "changed"
    assert first.body["metadata"] == {"user_id": "me"}
    assert first.headers["x-mine"] == "1"
    (result,) = [one for one in messages(lab.entries) if one["role"] == "toolResult"]
    texts = [part["text"] for part in result["content"]]
    assert texts == ["changed\n", "and more", "from Python"]
    (seen,) = _shown(lab)
    assert [name for name in seen if ":" not in name][:3] == [
        "agent_start",
        "turn_start",
        "message_start",
    ]
    assert "text:Looking." in seen
    assert "call:bash" in seen
    assert seen[-1] == "agent_end"


async def test_module_state_survives_a_new_session_but_not_a_reload(lab: Lab) -> None:
    lay_script(lab, "sessions")
    lab.server.add(answer("Hello."))
    async with lab.client() as client:
        await _say(client, "/fresh")
        await _say(client, "/loads")
        await _say(client, "/again")
        await _say(client, "/loads")
    assert errors(told(lab)) == []
    inside, entries, before, after = _shown(lab)
    assert inside["entries"][-1] == "prepared"
    assert (inside["loads"], inside["shared"]) == (2, 2)
    assert entries > len(inside["entries"])
    assert (before, after) == ([2, 2], [1, 3])
    reasons = [one["statusText"] for one in asked(told(lab), "setStatus")]
    assert reasons == ["startup", "new", "reload"]
    assert 'RESULT {"cancelled":false,"stale":true}' in client.process.stderr
    for reason in ("new", "reload", "quit"):
        assert f"END {reason}" in client.process.stderr


async def test_a_provider_streams_text_and_calls_and_models_can_be_asked(lab: Lab) -> None:
    lay_script(lab, "provider")
    lab.server.add(answer(call("upper", {"words": "loud"})), answer("Done."), answer("Aside."))
    async with lab.client() as client:
        await client.prompt_and_collect("Go")
        await _say(client, "/ask")
        await client.ask("set_model", provider="parrot", modelId="polly")
        await client.prompt_and_collect("Say")
    assert errors(told(lab)) == []
    said = messages(lab.entries)
    results = [text_of(one) for one in said if one["role"] == "toolResult"]
    assert results == ["LOUD", "hi\n"]
    assert "upper: shout" in json.dumps(lab.server.requests[0].body["system"])
    assert text_of(said[-1]) == "key secret"
    assert said[-1]["usage"]["totalTokens"] == 7
    assert (said[-1]["provider"], said[-1]["api"]) == ("parrot", "parrot-api")
    assert _shown(lab) == [["Aside.", "key-of-the-lab"]]


def test_a_broken_script_ends_the_start_if_it_was_named(lab: Lab) -> None:
    path = write(lab.work / "broken.ts", "export default function (pi) { this is not a program")
    done = lab.run("-e", str(path), "-p", "Hi")
    assert done.code == 1
    assert f'Failed to load extension "{path}"' in done.stderr


@pytest.mark.parametrize("text", ["export const x = 1;", "export default 3;"])
def test_a_script_without_a_factory_is_reported(text: str, lab: Lab) -> None:
    path: Path = lay(lab, text, "empty.ts")
    lab.server.add(answer("Hello."))
    done = lab.run("-p", "Hi")
    assert done.code == 0
    assert f"does not export a valid factory function: {path}" in done.stderr


@pytest.mark.parametrize("place", ["lib/helper.ts", ".pi/extensions/node_modules/helper/index.js"])
async def test_a_changed_file_that_a_script_imports_costs_the_trust(place: str, lab: Lab) -> None:
    helper = write(lab.work / place, "export const text = 'first';")
    write(helper.parent / "package.json", '{"type": "module", "main": "index.js"}')
    name = "helper" if "node_modules" in place else "../../lib/helper"
    source = f"""
    import {{ text }} from "{name}";
    export default function (pi: any) {{
      pi.on("session_start", (event: any, ctx: any) => ctx.ui.notify(text));
    }}
    """
    write(lab.work / ".pi" / "extensions" / "ours.ts", source)
    assert lab.run("trust", "--yes").code == 0
    for _ in range(2):
        async with lab.client() as client:
            await client.ask("get_commands")
    assert notes(lab) == ["first", "first"]
    helper.write_text("export const text = 'second';")
    async with lab.client() as client:
        await client.ask("get_commands")
    assert notes(lab) == ["first", "first"]


async def test_actions_take_effect_at_once_and_operations_run_a_command(lab: Lab) -> None:
    path = lay_script(lab, "actions")
    write(path.parent / "prompts" / "greet.md", "Say hello.")
    write(lab.work / ".pi" / "settings.json", "{}")
    async with lab.client() as client:
        await _say(client, "/act")
        result = await client.ask("bash", command="remote ls")
        await _say(client, "/compacts")
    assert errors(told(lab)) == []
    acted, compacted = _shown(lab)
    assert acted == {
        "heard": {"n": 1},
        "tools": ["read", "late"],
        "level": "low",
        "last": "kept",
        "usage": 200_000,
        "trusted": True,
        "prompts": ["greet"],
    }
    assert (result["exitCode"], result["output"]) == (5, f"ran remote ls in {lab.work}\n")
    assert compacted[0] == "error"


QUITS = """
import { existsSync } from "node:fs";
export default function (pi: any) {
  pi.registerCommand("quit", { handler: async (args: string, ctx: any) => ctx.shutdown() });
  pi.on("session_shutdown", async (event: any, ctx: any) => {
    ctx.ui.notify("ending");
    while (!existsSync("go")) await new Promise((resolve) => setTimeout(resolve, 5));
  });
}
"""


async def test_a_shutdown_answers_its_command_and_nothing_that_arrives_later(lab: Lab) -> None:
    lay(lab, QUITS, "quits.ts")
    async with lab.client() as client:
        assert (await client.request("prompt", message="/quit"))["success"]
        await dialog(client, "notify")
        await client.send("prompt", id="late", message="Too late")
        write(lab.work / "go", "")
        assert await client.process.wait() == 0
    assert [one for one in told(lab) if one.get("id") == "late"] == []
    assert lab.server.requests == []
