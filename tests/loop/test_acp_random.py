"""Random requests of a client at random moments: each is answered once, none breaks the agent."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.builtin.scripted import ScriptedReply
from tests.loop.acp_client import AcpClient, acp, choosing, silent
from tests.loop.stage import call, calls, say

PROMPTS = ("Go", "/name New name", "/session", "/compact", "/reload", "")
CODES = (-32602, -32002, -32603, -32000, -32800)


def _replies(chance: random.Random) -> list[ScriptedReply]:
    kinds = (
        say("words " * 5),
        calls(call("echo", "call_0", name="x")),
        calls(call("read", "call_0", path="a"), call("echo", "call_1", name="y")),
        say("hangs", hang=True),
        ScriptedReply(error="400 refused"),
    )
    return chance.choices(kinds, weights=(4, 4, 3, 1, 1), k=60)


class RandomClient:
    """Sends requests about a few sessions; `numbers` are those that need an answer."""

    def __init__(self, client: AcpClient, chance: random.Random, sessions: list[str]) -> None:
        self.client = client
        self.chance = chance
        self.sessions = sessions
        self.numbers: list[int] = []

    def act(self) -> None:
        session, client = self.chance.choice(self.sessions), self.client
        opened = {"sessionId": session, "cwd": str(client.work), "mcpServers": []}
        text, steer = self.chance.choice(PROMPTS), self.chance.random() < 0.2
        requests: list[tuple[str, dict[str, Any]]] = [
            ("session/load", opened),
            ("session/resume", opened),
            ("session/fork", opened),
            ("session/close", {"sessionId": session}),
            ("session/list", {}),
            ("session/set_mode", {"sessionId": session, "modeId": "auto"}),
            ("session/set_config_option", {**opened, "configId": "thinking", "value": "low"}),
        ]
        kind = self.chance.random()
        if kind < 0.5:
            more = {"_meta": {"ludolf/steer": True}} if steer else {}
            self.numbers.append(client.say(session, text, **more))
        elif kind < 0.65:
            client.notify("session/cancel", sessionId=session)
        elif kind < 0.75 and self.numbers:
            client.notify("$/cancel_request", requestId=self.chance.choice(self.numbers))
        else:
            method, params = self.chance.choice(requests)
            self.numbers.append(client.start(method, **params))


@pytest.mark.parametrize("seed", range(6))
async def test_random_requests_are_answered_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    async with acp(tmp_path, *_replies(chance)) as client:
        await client.initialize()
        sessions = [await client.new() for _ in range(2)]
        driver = RandomClient(client, chance, sessions)
        for _ in range(60):
            answer = silent if chance.random() < 0.3 else choosing("allow_once")
            client.answers["session/request_permission"] = answer
            driver.act()
            for _ in range(chance.choice((0, 1, 3, 20))):
                await asyncio.sleep(0)
        client.end()
        answered = [await client.response(number) for number in driver.numbers]
    errors = [one["error"] for one in answered if "error" in one]
    assert [error for error in errors if error["code"] not in CODES] == []
    assert [error for error in errors if "Internal error" in error["message"]] == []
    count = Counter(one["id"] for one in client.frames if "method" not in one)
    assert [number for number in driver.numbers if count[number] != 1] == []
