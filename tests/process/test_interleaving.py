"""Commands in any order and at any time: one reply each, rest at the end, a whole file."""

import os
import random
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import loads
from tests.process.harness import Lab, read_entries, types
from tests.process.script import Answer, Cut, Failure, answer, bash, say

_CHOICES: list[dict[str, Any]] = [
    {"type": "prompt", "message": "Go"},
    {"type": "prompt", "message": "Go", "streamingBehavior": "steer"},
    {"type": "prompt", "message": "Go", "streamingBehavior": "followUp"},
    {"type": "prompt", "message": 7},
    {"type": "abort"},
    {"type": "abort_bash"},
    {"type": "bash", "command": "echo hi"},
    {"type": "bash", "command": "sleep 0.05; echo late; exit 3", "excludeFromContext": True},
    {"type": "bash"},
    {"type": "get_state"},
    {"type": "get_messages"},
    {"type": "get_session_stats"},
    {"type": "get_last_assistant_text"},
    {"type": "no_such_thing"},
]


def _replies(chance: random.Random) -> list[Answer | Failure]:
    choices: list[Answer | Failure] = [
        answer("Fine."),
        answer("Looking.", bash("echo hi")),
        answer(bash("sleep 0.05; echo a", "a"), bash("exit 1", "b")),
        answer(say("Half ", Cut())),
        Failure(status=400),
        Failure(status=529),
    ]
    return chance.choices(choices, k=400)


@pytest.mark.parametrize("seed", range(3))
async def test_random_commands_get_one_reply_each_and_leave_a_whole_session(
    lab: Lab, seed: int
) -> None:
    chance = random.Random(seed)
    lab.server.add(*_replies(chance))
    async with lab.client() as client:
        sent = []
        for _ in range(250):
            params = dict(chance.choice(_CHOICES))
            sent.append(await client.send(params.pop("type"), **params))
            if chance.random() < 0.3:
                await client.reply_to(sent[-1])
        await client.send("abort_bash", id="stop")
        await client.request("abort", id="last")
        for command_id in set(sent) - _answered(lab):
            await client.reply_to(command_id)
        state = await client.ask("get_state")
        assert client.process.stderr == ""
    records = [loads(line) for line in lab.lines]
    replied = [record["id"] for record in records if record["type"] == "response"]
    assert sorted(replied[:-1]) == sorted([*sent, "stop", "last"])
    assert not any("Internal error" in record.get("error", "") for record in records)
    assert not state["isStreaming"]
    assert types(records).count("agent_start") == types(records).count("agent_end")
    for path in lab.sessions:
        assert read_entries(path)


def _answered(lab: Lab) -> set[str]:
    records = [loads(line) for line in lab.lines]
    return {record["id"] for record in records if record["type"] == "response"}


async def test_many_prompts_leave_no_descriptors_and_no_children(lab: Lab) -> None:
    lab.server.add(*[reply for _ in range(50) for reply in (answer(bash("true")), answer("Ok."))])
    async with lab.client("--rpc-dialect", "pi-delta") as client:
        await client.prompt_and_collect("Go")
        before = _open_descriptors(client.process.pid)
        for _ in range(49):
            await client.prompt_and_collect("Go")
        assert _open_descriptors(client.process.pid) <= before + 2
        assert _children(client.process.pid) <= 1


def _open_descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _children(pid: int) -> int:
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
