"""Session files between this program and the real pi, both ways.

Runs only where a pi is at hand: `LUDOLF_PEER_PI="node path/to/pi/dist/cli.js" make test-peers`.
"""

import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from ludolf.client import Client
from tests.process.conftest import lab
from tests.process.harness import RPC, Lab
from tests.process.script import answer, bash

PEER = os.environ.get("LUDOLF_PEER_PI", "")
pytestmark = pytest.mark.skipif(not PEER, reason="LUDOLF_PEER_PI names no pi to compare with")
PROGRAMS = {"ludolf": RPC, "pi": (*shlex.split(PEER), "--mode", "rpc")}
# What pi adds to messages since the version that the default dialect follows.
NEWER = ("rawStopReason",)

__all__ = ["lab"]


def _client(lab: Lab, program: str, *arguments: str) -> Client:
    return Client(*arguments, program=PROGRAMS[program], cwd=lab.work, env=lab.env)


def _plain(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    spoken = [message for message in messages if message["role"] != "system"]
    return [{k: v for k, v in message.items() if k not in NEWER} for message in spoken]


async def _converse(client: Client) -> list[dict[str, Any]]:
    await client.ask("bash", command="echo beside")
    for text in ("Go", "More"):
        await client.request("prompt", message=text)
        await client.wait_for("agent_end")
    data: dict[str, Any] = await client.ask("get_messages")
    return _plain(data["messages"])


@pytest.mark.parametrize(("writer", "reader"), [("ludolf", "pi"), ("pi", "ludolf")])
async def test_what_one_writes_the_other_reads(lab: Lab, writer: str, reader: str) -> None:
    lab.server.add(answer("Let me.", bash("echo hi")), answer("done é漢😀"), answer("two"))
    folder = lab.root / "sessions"
    async with _client(lab, writer, "--session-dir", str(folder)) as client:
        written = await _converse(client)
    copy = Path(shutil.copy(next(folder.glob("*.jsonl")), lab.root / "copy.jsonl"))
    async with _client(lab, reader, "--session", str(copy)) as client:
        data = await client.ask("get_messages")
    assert _plain(data["messages"]) == written
    assert len(written) >= 4
