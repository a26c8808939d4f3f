"""Random commands in random moments: nothing hangs, no law breaks, nothing that waits is lost."""

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings

from ludolf.session.tree import open_session
from tests.loop.chance import Play, Step, plays
from tests.loop.law_of_queue import LEAVING
from tests.loop.laws import Said, Sent
from tests.loop.stage import SMALL, Stage, stage, texts

# More of them, other ones each time, and a smallest one that fails: on demand, for it takes long.
EXAMPLES = os.environ.get("LUDOLF_LOOP_EXAMPLES")
PHASES = tuple(phase for phase in Phase if EXAMPLES or phase is not Phase.shrink)
REST_SECONDS = 30.0  # a busy machine may be ten times slower
SETTINGS: dict[str, Any] = {"compaction": SMALL, "retry": {"maxRetries": 2}}


@pytest.mark.timeout(0 if EXAMPLES else 60)
@settings(
    max_examples=int(EXAMPLES or 100),
    derandomize=EXAMPLES is None,
    phases=PHASES,
    report_multiple_bugs=False,
)
@given(plays())
def test_whatever_a_host_does_the_laws_hold_and_nothing_is_lost(play: Play) -> None:
    asyncio.run(_perform(play))


async def _perform(play: Play) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        async with stage(
            root, *play.replies, settings=dict(SETTINGS), waits=cycle(play.waits)
        ) as s:
            actor = Actor(s)
            for step in play.steps:
                await actor.do(step)
            await actor.come_to_rest()
            actor.check_queue()
            await actor.check_file()


class Actor:
    """Turns the steps of a play into commands that fit the moment."""

    def __init__(self, s: Stage) -> None:
        self.s = s
        self._texts = 0
        self._files: list[str] = []

    async def do(self, step: Step) -> None:
        name = step.name
        if name == "open":
            self.s.gates.open("gate")
        elif name != "settle":
            command, fields = self._command(step)
            self.s.send(command, **fields)
        if name in ("settle", "run"):
            await self._settle()
        for _ in range(step.pause):
            await asyncio.sleep(0)

    async def come_to_rest(self) -> None:
        """An abort ends everything; every command has been answered then."""
        await self.s.data("abort")
        async with asyncio.timeout(REST_SECONDS):
            # What had to wait its turn may have begun after the abort; children die in their time.
            while self._unanswered() or self.s.engine.runner.running:
                await self.s.data("abort")
                await self.s.data("abort_bash")
                await asyncio.sleep(0.001)
        state = await self.s.data("get_state")
        assert not state["isStreaming"]
        assert not state["isCompacting"]

    def check_queue(self) -> None:
        """Each accepted text was delivered once, or waits, was given back, or its session left."""
        accepted = Counter(self._accepted())
        gone = Counter(texts(self.s.frames))
        steering, follow_up = self.s.queue
        gone.update([*steering, *follow_up])
        for record in self.s.frames:
            if record.get("command") == "clear_queue":
                gone.update([*record["data"]["steering"], *record["data"]["followUp"]])
        gone.update(self._left_behind())
        assert gone == accepted

    def _left_behind(self) -> Iterator[str]:
        """What still waited when the session was changed."""
        waits: list[str] = []
        dropped: list[str] = []
        for record in self.s.frames:
            if record["type"] == "queue_update":
                before, waits = waits, [*record["steering"], *record["followUp"]]
                dropped = [] if waits else before
            elif record["type"] == "message_start":
                dropped = []
            elif record.get("command") in LEAVING and record["success"]:
                yield from dropped
                dropped = []
            elif record.get("command") == "clear_queue":
                dropped = []

    async def check_file(self) -> None:
        """What is on disk is what is in memory."""
        session = self.s.engine.session
        if not session.saved:
            return
        again = open_session(self.s.path, "/", lambda text: None, write=False)
        assert [e.line for e in again.entries()] == [e.line for e in session.entries()]
        for entry_id in session.omitted:
            again.omit(entry_id)
        again.branch_to(session.leaf)
        assert again.context.messages() == session.context.messages()

    # ------------------------------------------------------------ private

    def _command(self, step: Step) -> tuple[str, dict[str, Any]]:
        name, pick = step.name, step.pick
        match name:
            case "prompt" | "steer" | "follow_up" | "abort_and_prompt":
                return name, {"message": self._text()}
            case "run":
                return "prompt", {"message": self._text()}
            case "queue_prompt":
                return "prompt", {"message": self._text(), "streamingBehavior": step.how}
            case "switch_session":
                return name, {"sessionPath": self._file(pick)}
            case "fork":
                return name, {"entryId": self._entry(pick, users=True)}
            case "navigate_tree":
                return name, {"targetId": self._entry(pick)}
            case "summarise_tree":
                return "navigate_tree", {"targetId": self._entry(pick), "summarize": True}
            case _:
                return name, _fields(name, pick)

    def _text(self) -> str:
        self._texts += 1
        # Some are long, so that there is something to compact.
        return f"t{self._texts}" + " and so on" * (60 if self._texts % 2 else 0)

    def _file(self, pick: int) -> str:
        path = str(self.s.path)
        if path not in self._files:
            self._files.append(path)
        return self._files[pick % len(self._files)]

    def _entry(self, pick: int, *, users: bool = False) -> str:
        entries = self.s.engine.session.entries()
        ids = [e.id for e in entries if not users or b'"role":"user"' in e.line]
        return ids[pick % len(ids)] if ids else "none"

    def _unanswered(self) -> list[str]:
        answered = {r.get("id") for r in self.s.frames if r["type"] == "response"}
        sent = [item.record["id"] for item in self.s.log if isinstance(item, Sent)]
        return [number for number in sent if number not in answered]

    def _accepted(self) -> list[str]:
        sent = {i.record["id"]: i.record for i in self.s.log if isinstance(i, Sent)}
        replies = [item.record for item in self.s.log if isinstance(item, Said)]
        return [
            sent[reply["id"]]["message"]
            for reply in replies
            if reply["type"] == "response" and reply["success"] and "message" in sent[reply["id"]]
        ]

    async def _settle(self) -> None:
        """Until nothing goes on, or it is clear that only an abort would end it."""
        for _ in range(200):
            if not self.s.engine.runner.running:
                return
            await asyncio.sleep(0)


def _fields(name: str, pick: int) -> dict[str, Any]:
    choices: dict[str, list[dict[str, Any]]] = {
        "bash": [{"command": "true"}, {"command": "echo hi"}, {"command": "sleep 60"}],
        "set_model": [
            {"provider": "ludolf", "modelId": name} for name in ("scripted", "plain", "none")
        ],
        "set_thinking_level": [{"level": level} for level in ("off", "low", "high", "x")],
        "set_steering_mode": [{"mode": mode} for mode in ("all", "one-at-a-time")],
        "set_follow_up_mode": [{"mode": mode} for mode in ("all", "one-at-a-time")],
        "set_auto_compaction": [{"enabled": True}, {"enabled": False}],
        "set_auto_retry": [{"enabled": True}, {"enabled": False}],
        "set_session_name": [{"name": "a name"}, {"name": " "}],
        "set_limits": [{}, {"maxTurns": 2}, {"maxTokens": 3_000}],
    }
    given = choices.get(name, [{}])
    return given[pick % len(given)]
