"""The host process of scripts: life, calls and cancellation over its pipes."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ludolf.engine.features.script_extensions.link import (
    ScriptError,
    ScriptFrame,
    ScriptHostGone,
    ScriptLink,
    TakeUpdate,
)
from ludolf.engine.features.script_extensions.process import ScriptProcess
from ludolf.tools.process import ProcessCommand
from tests.script_host import NODE, needs_node

pytestmark = needs_node

SCRIPT = """
export default function (pi) {
  const command = (name, handler) => pi.registerCommand(name, { handler });
  command("spin", () => { for (;;); });
  command("sleep", () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700));
  command("waits", () => new Promise(() => {}));
  command("asks", async (args, ctx) => {
    const found = await ctx.ui.select("Which?", ["a"]);
    ctx.ui.notify(`chosen ${found}`);
  });
  command("sums", (args, ctx) => { ctx.ui.notify(String(pi.getFlag("x").length)); });
}
"""


class Owner:
    """Answers as an engine would: flags are long texts, dialogs wait for ever."""

    def __init__(self) -> None:
        self.frames: list[ScriptFrame] = []
        self.asked: asyncio.Event = asyncio.Event()
        self.cancelled = False
        self.reasons: list[str] = []

    def answer_question(self, frame: ScriptFrame) -> Any:
        return "y" * 3_000_000

    async def answer_call(self, frame: ScriptFrame, update: TakeUpdate) -> Any:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    def take_notice(self, frame: ScriptFrame) -> None:
        self.frames.append(frame)

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)

    def has_room(self) -> bool:
        return True

    async def room(self) -> None: ...

    def notes(self) -> list[str]:
        return [one["a"]["message"] for one in self.frames if one.get("m") == "ui.notify"]


@asynccontextmanager
async def _host(folder: Path, silence: float = 30.0) -> AsyncIterator[tuple[ScriptLink, Owner]]:
    assert NODE is not None
    owner = Owner()
    link = ScriptLink(owner, silence=silence)
    command = ProcessCommand(argv=NODE.argv(), cwd=folder, env=dict(os.environ))
    process = ScriptProcess(command)
    link.attach(process)
    await process.start(link)
    try:
        await link.ready
        path = folder / "x.mjs"
        path.write_text(SCRIPT)
        info = {"cwd": str(folder), "jiti": None}
        link.tell(t="open", gen=1, fresh=False, info=info)
        await link.call("load", {"ext": 1, "path": str(path), "gen": 1})
        link.tell(t="bind", info=info)
        yield link, owner
    finally:
        await link.close()


async def _command(link: ScriptLink, name: str) -> Any:
    return await link.call("command", {"ext": 1, "name": name, "args": ""})


async def test_an_endless_loop_is_killed_and_its_calls_fail(tmp_path: Path) -> None:
    async with _host(tmp_path, silence=0.5) as (link, owner):
        with pytest.raises(ScriptHostGone, match=r"did not answer for 0\.5 s"):
            await _command(link, "spin")
        assert len(owner.reasons) == 1
        with pytest.raises(ScriptHostGone):
            await _command(link, "sums")


async def test_a_process_that_waits_for_something_is_not_taken_for_a_loop(tmp_path: Path) -> None:
    async with _host(tmp_path, silence=0.2) as (link, owner):
        await _command(link, "sleep")
        assert owner.reasons == []


async def test_a_large_package_may_take_longer_to_load(tmp_path: Path) -> None:
    async with _host(tmp_path, silence=0.4) as (link, owner):
        path = tmp_path / "large.mjs"
        busy = "const end = performance.now() + 900; while (performance.now() < end);"
        path.write_text(f"{busy} export default () => {{}};")
        await link.call("load", {"ext": 2, "path": str(path), "gen": 1})
        assert owner.reasons == []


async def test_a_long_answer_to_a_synchronous_question_arrives_whole(tmp_path: Path) -> None:
    async with _host(tmp_path) as (link, owner):
        await _command(link, "sums")
        assert owner.notes() == ["3000000"]


async def test_cancelling_a_call_cancels_what_it_asked_for(tmp_path: Path) -> None:
    async with _host(tmp_path) as (link, owner):
        running = asyncio.ensure_future(_command(link, "asks"))
        await owner.asked.wait()
        running.cancel()
        await asyncio.wait((running,))
        while "chosen undefined" not in owner.notes():
            await _command(link, "sums")
        assert owner.cancelled


TYPED = """
import { Type, type Static } from "typebox";
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import { greeting, type Greeting } from "./parts/greeting";
enum Level { Low = 3 }
export default async function (pi: ExtensionAPI) {
  const words: Greeting = greeting(Level.Low);
  const parameters = Type.Object({ path: Type.String({ description: words.text }) });
  pi.registerTool({ name: "t", description: "", parameters, execute: async () => ({}) } as any);
}
"""
GREETING = """
export interface Greeting { text: string }
export const greeting = (level: number): Greeting => ({ text: `hello ${level}` });
"""


@pytest.mark.parametrize("loader", ["native", "jiti"])
async def test_both_loaders_run_typescript_with_parts_and_packages(
    loader: str, tmp_path: Path
) -> None:
    if loader == "jiti" and (NODE is None or NODE.jiti is None):
        pytest.skip("jiti is not installed; make installs it, or ludolf install --pi-loader")
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "greeting.ts").write_text(GREETING)
    (tmp_path / "typed.ts").write_text(TYPED)
    assert NODE is not None
    jiti = str(NODE.jiti) if loader == "jiti" else None
    async with _host(tmp_path) as (link, owner):
        for number in (2, 3):  # the second time from the cache
            info = {"cwd": str(tmp_path), "jiti": jiti, "cache": str(tmp_path / "cache")}
            link.tell(t="open", gen=number, fresh=True, info=info)
            path = str(tmp_path / "typed.ts")
            await link.call("load", {"ext": number, "path": path, "gen": number})
    tools = [one["def"] for one in owner.frames if one["t"] == "tool"]
    properties = {"path": {"type": "string", "description": "hello 3"}}
    assert [tool["parameters"]["properties"] for tool in tools] == [properties, properties]


async def test_an_error_of_code_has_its_text(tmp_path: Path) -> None:
    async with _host(tmp_path) as (link, _):
        with pytest.raises(ScriptError, match="undefined"):
            await link.call("command", {"ext": 1, "name": "none", "args": ""})
