"""Node starts early, and commands that only read do not wait for extensions in TypeScript."""

import asyncio
import os
import shlex
from pathlib import Path

from ludolf.base import dumps, loads
from ludolf.config.settings.home import Home
from ludolf.engine.features.script_extensions.early import launch_host
from ludolf.engine.features.script_extensions.node import find_node
from tests.process.extending import lay
from tests.process.harness import Lab, write_all
from tests.script_host import NODE, needs_node

pytestmark = needs_node
WAITS = """
import { readFileSync } from "node:fs";
export default function (pi: any) {
  readFileSync("gate");
  pi.registerCommand("late", { handler: async () => {} });
  pi.on("session_start", (event: any, ctx: any) => ctx.ui.setStatus("s", "started"));
}
"""


def _log_starts(lab: Lab) -> Path:
    """Let a program that notes its arguments start Node."""
    assert NODE is not None
    log, program = lab.root / "starts", lab.root / "node"
    run = f'echo "$@" >> {shlex.quote(str(log))}\nexec {shlex.join(NODE.words)} "$@"\n'
    program.write_text(f"#!/bin/sh\n{run}")
    program.chmod(0o755)
    lab.settings(nodeCommand=str(program))
    return log


def test_one_node_starts_for_a_session(lab: Lab) -> None:
    log = _log_starts(lab)
    lay(lab, "export default () => {};", "empty.ts")
    ask = b'{"type":"get_commands"}\n'
    assert lab.run("--mode", "rpc", stdin=ask).code == 0
    first = log.read_text().splitlines()
    assert [line == "--version" for line in first] == [True, False]
    assert lab.run("--mode", "rpc", stdin=ask).code == 0
    assert log.read_text().splitlines() == [*first, first[1]]


def test_node_starts_before_there_is_an_engine(lab: Lab) -> None:
    log = _log_starts(lab)
    home = Home(agent=lab.agent, cwd=lab.work, user=lab.root / "home")
    command = str(lab.root / "node")
    asyncio.run(find_node(home, os.environ, command))
    log.unlink()
    os.mkfifo(log)
    host = launch_host(home, os.environ, command)
    assert host is not None
    assert log.read_text().endswith("3 4 5\n")
    asyncio.run(host.close())


def test_readers_are_answered_while_a_script_loads_and_replies_keep_their_order(lab: Lab) -> None:
    lay(lab, WAITS, "waits.ts")
    os.mkfifo(lab.work / "gate")
    kinds = ("get_state", "get_messages", "get_commands", "get_session_stats")
    with lab.popen() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for kind in kinds:
            write_all(process.stdin, dumps({"type": kind}) + b"\n")
        seen = [loads(process.stdout.readline()) for _ in range(2)]
        assert [one["command"] for one in seen] == ["get_state", "get_messages"]
        (lab.work / "gate").write_bytes(b"")
        frames = [loads(process.stdout.readline()) for _ in range(3)]
        process.stdin.close()
    assert frames[0]["statusText"] == "started"
    assert [one["command"] for one in frames[1:]] == ["get_commands", "get_session_stats"]
    assert "late" in [one["name"] for one in frames[1]["data"]["commands"]]
