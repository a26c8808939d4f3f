"""Clients that are cut at any moment miss nothing and get nothing twice."""

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ludolf.ai.builtin.scripted import PlaybackBlock, ScriptedReply
from ludolf.base import dumps, loads
from ludolf.protocol.dialects import NAMES
from ludolf.serve.lines import UnixDoor
from ludolf.serve.options import RingLimits
from ludolf.serve.slot import Slot
from tests.loop.stage import SMALL, call, calls, fails, say, text_of, used
from tests.serve.service import Client, Record, Service, SocketClient, service

SEEDS = range(15)
CUTS = 70
RINGS = (1_000, 5_000, 40_000, 300_000, 2 << 20)
SETTINGS = {"compaction": SMALL, "retry": {"maxRetries": 3}}
KINDS = ("prompt",) * 7 + ("steer", "follow_up") * 2 + ("ask", "bash", "state")
DIALOGS = ("select", "input", "confirm")


class Truth:
    """All frames of a session's log, also those that have left it, and what each adds up to."""

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.frames: list[Record] = []
        add = slot.log.add

        def tap(line: bytes) -> None:
            self.frames.append(loads(line))
            add(line)

        vars(slot.log)["add"] = tap

    def until(self, number: int) -> "State":
        state = State()
        for frame in self.frames[:number]:
            state.take(frame)
        return state

    def ended(self, after: int) -> list[Record]:
        """The messages that ended after a number."""
        later = self.frames[after:]
        return [frame["message"] for frame in later if frame["type"] == "message_end"]


class State:
    """What a client knows that has seen every frame up to some number."""

    def __init__(self) -> None:
        self.messages: list[Record] = []
        self.blocks: list[str] | None = None
        self.tools: dict[str, Any] = {}
        self.dialogs: list[str] = []
        self.queue: list[str] = []
        self.retries = self.compacts = False

    def take(self, frame: Record) -> None:
        kind = frame["type"]
        if kind == "message_start" and frame["message"]["role"] == "assistant":
            self.blocks = []
        elif kind == "message_update":
            self._grow(frame["assistantMessageEvent"])
        elif kind == "message_end":
            self.messages.append(frame["message"])
            if frame["message"]["role"] == "assistant":
                self.blocks = None
            self.tools.pop(frame["message"].get("toolCallId"), None)
        elif kind == "tool_execution_start":
            self.tools[frame["toolCallId"]] = None
        elif kind == "tool_execution_update":
            self.tools[frame["toolCallId"]] = frame["partialResult"]
        elif kind == "extension_ui_request":
            self._ask(frame)
        else:
            self._note(kind, frame)

    def _grow(self, event: Record) -> None:
        assert self.blocks is not None
        if event["type"].endswith("_start"):
            self.blocks.append("")
        elif event["type"].endswith("_delta"):
            self.blocks[event["contentIndex"]] += event["delta"]

    def _ask(self, frame: Record) -> None:
        if frame["method"] in DIALOGS:
            self.dialogs.append(frame["id"])
        elif frame["method"] == "cancel":
            self.dialogs.remove(frame["targetId"])

    def _note(self, kind: str, frame: Record) -> None:
        if kind == "queue_update":
            self.queue = [*frame["steering"], *frame["followUp"]]
        elif kind.startswith("auto_retry"):
            self.retries = kind.endswith("start")
        elif kind.startswith("compaction"):
            self.compacts = kind.endswith("start")


def check_snapshot(data: Record, truth: Truth) -> None:
    """A snapshot says what the frames up to its cursor add up to."""
    number = int(data["cursor"].rpartition("-")[2])
    state, underway = truth.until(number), data["underway"]
    stored = [each["message"] for each in data["entries"] if each["type"] == "message"]
    said = [each for each in stored if each["role"] != "bashExecution"]
    assert said == state.messages
    message = underway.get("message")
    assert (message is None) == (state.blocks is None)
    if message is not None:
        assert [_body(block) for block in message["content"]] == [
            body if block["type"] != "toolCall" else ""
            for body, block in zip(state.blocks or (), message["content"], strict=True)
        ]
    tools = {each["toolCallId"]: each.get("partialResult") for each in underway.get("tools", ())}
    assert tools == state.tools
    assert [each["id"] for each in underway.get("dialogs", ())] == state.dialogs
    assert [*underway.get("steering", ()), *underway.get("followUp", ())] == state.queue
    assert ("retry" in underway, "compaction" in underway) == (state.retries, state.compacts)


def _body(block: Record) -> str:
    return str(block.get("text", block.get("thinking", "")))


class CutClient(Client):
    """A client that is cut again and again; it asks again for what it has no reply to."""

    truth: Truth
    session: str

    def follow_up_on(self, truth: Truth) -> None:
        """Prepare for the session that the truth is about."""
        self.pauses = True
        self.checked_one_in = 10
        self.truth = truth
        self.session = truth.slot.id
        self.cursor: str | None = None
        self.seq: int | None = None
        self.since = 0
        self.ends: list[Record] = []
        self.modes: Counter[str] = Counter()
        # Commands without a reply, and how often each reply came.
        self.pending: dict[str, bytes] = {}
        self.replies: dict[str, Record] = {}
        self.asked_again: set[str] = set()
        # Replies whose place is not checked yet, with the number that each followed.
        self._placed: list[tuple[Record, int]] = []

    @property
    def reads_log(self) -> bool:
        return self.dialect == "pi-delta" and not self.bare

    def come(self) -> None:
        """Connect and attach, where the last connection was lost."""
        self.connect()
        self.seq = None
        about = {"client": self.name, "dialect": self.dialect, "bare": self.bare}
        self.feed(dumps({"type": "hello", **about}))
        cursor = {"cursor": self.cursor} if self.cursor else {}
        self.feed(dumps({"type": "attach", "session": self.session, "last": 1000, **cursor}))
        if not self.bare:
            self.asked_again |= self.pending.keys()
            self.feed(*self.pending.values())

    def order(self, kind: str, id: str, **fields: Any) -> None:
        line = dumps({"id": id, "type": kind, "session": self.session, **fields})
        self.pending[id] = line
        self.feed(line)

    def step(self, lines: int) -> None:
        for record in self.read(lines):
            self.follow(record)

    def follow(self, record: Record) -> None:
        if record["type"] == "resync" or record.get("command") == "attach":
            self._begin(record["data"])
        elif record["type"] == "response":
            self._note(record)
        elif "seq" in record:
            self._check(record)
        elif record["type"] == "message_end":
            self.ends.append(record["message"])
        if record["type"] == "extension_ui_request" and record["method"] in DIALOGS:
            line = {"type": "extension_ui_response", "id": record["id"], "value": self.name}
            self.feed(dumps({**line, "session": self.session}))

    def _begin(self, data: Record) -> None:
        number = int(data["cursor"].rpartition("-")[2])
        self.modes[data["mode"]] += 1
        if data["mode"] == "replay":
            assert data["cursor"] == self.cursor
        else:
            check_snapshot(data, self.truth)
        self.cursor, self.seq = data["cursor"], number
        self.since, self.ends = number, []
        self._placed.clear()  # replies come before a snapshot that stands for lost frames
        for dialog in data.get("underway", {}).get("dialogs", ()):
            line = {"type": "extension_ui_response", "id": dialog["id"], "value": self.name}
            self.feed(dumps({**line, "session": self.session}))

    def _check(self, record: Record) -> None:
        """Each frame is the one after the last."""
        assert self.reads_log
        assert self.seq is not None, "a frame before the reply to attach"
        assert self.cursor is not None
        for reply, number in self._placed:
            self._check_place(reply, self.truth.frames[:number])
        self._placed.clear()
        self.seq += 1
        assert record["seq"] == self.seq
        plain = {key: value for key, value in record.items() if key not in ("session", "seq")}
        assert plain == self.truth.frames[self.seq - 1]
        if plain["type"] == "bash_execution_update":
            assert plain["id"] not in self.replies or plain["id"] in self.asked_again
        self.cursor = f"{self.cursor.rpartition('-')[0]}-{self.seq}"

    def _note(self, record: Record) -> None:
        id = record.get("id")
        if id is None:
            return
        assert record["success"], record
        assert id not in self.replies
        assert "repeated" not in record or id in self.asked_again
        self.replies[id] = record
        del self.pending[id]
        if "repeated" not in record and self.reads_log and self.seq is not None:
            self._placed.append((record, self.seq))

    def _check_place(self, record: Record, seen: list[Record]) -> None:
        """A reply comes after the frames that its command caused before it, and before others."""
        text, kind = f"{record['id']}. ", record["command"]
        if kind == "prompt":
            ended = (each["message"] for each in seen if each["type"] == "message_end")
            assert text not in [text_of(each) for each in ended if each["role"] == "user"]
        elif kind in ("steer", "follow_up"):
            queues = [each for each in seen if each["type"] == "queue_update"]
            assert any(text in each["steering"] + each["followUp"] for each in queues)
        elif kind == "bash":
            shown = [each for each in seen if each["type"] == "bash_execution_update"]
            assert record["id"] in [each.get("id") for each in shown]

    @property
    def is_level(self) -> bool:
        """Whether it has read everything."""
        if self.pending and not self.bare:
            return False
        if self.reads_log:
            return self.seq == self.truth.slot.log.last
        return not self.wire

    def check_rendered(self) -> None:
        """A client with its own dialect sees every message that ends after its snapshot."""
        later = [each["role"] for each in self.truth.ended(self.since)]
        assert [each["role"] for each in self.ends] == later[: len(self.ends)]


class CutSocket(SocketClient, CutClient):
    """The same on a socket."""


class Play:
    """One session, its clients, and chance. With a path, the clients come over a socket."""

    def __init__(
        self, s: Service, chance: random.Random, truth: Truth, path: Path | None = None
    ) -> None:
        self.s = s
        self.chance = chance
        self.truth = truth
        self.sent = 0
        self.cuts = 0
        kinds: list[dict[str, Any]] = [{}, {}, {}, {"bare": True}]
        kinds += [{"dialect": name} for name in chance.sample(NAMES, 2)]
        kinds += [{"dialect": chance.choice(NAMES), "bare": True}]
        self.clients: list[CutClient] = []
        for n, about in enumerate(kinds):
            name = f"c{n}"
            made = CutClient(s, name, **about) if path is None else CutSocket(path, name, **about)
            made.follow_up_on(truth)
            self.clients.append(made)
        self.marks = s.work / "marks"

    async def perform(self, cuts: int) -> None:
        for client in self.clients:
            client.come()
        while self.cuts < cuts:
            if not self.truth.slot.engine.runner.running or self.chance.random() < 0.05:
                self.speak()
            for _ in range(self.chance.randrange(8)):
                await asyncio.sleep(0)
            client = self.chance.choice(self.clients)
            client.step(self.chance.choice((0, 1, 3, 1_000)))
            if not client.is_connected:
                client.come()
            elif self.chance.random() < 0.35:
                client.cut()
                self.cuts += 1
                if self.chance.random() < 0.6:
                    client.come()
        await self.come_to_rest()

    def speak(self) -> None:
        """Let a client say something."""
        self.sent += 1
        client = self.chance.choice(self.clients[:3])
        if not client.is_connected:
            return
        id = f"n{self.sent}"
        text = f"{id}. "
        kind = self.chance.choice(
            ("prompt",) * 7 + ("steer", "follow_up") * 2 + ("ask", "bash", "state")
        )
        if kind == "prompt":
            self.s.script.add(*answers(self.chance))
            client.order("prompt", id, message=text, streamingBehavior="followUp")
        elif kind == "ask":
            client.order("prompt", id, message=f"/ask {text}")
        elif kind == "bash":
            client.order("bash", id, command=f"echo {id} >> {self.marks}; echo done")
        elif kind == "state":
            client.order("get_state", id)
        else:
            client.order(kind, id, message=text)

    def leave(self) -> None:
        for client in self.clients:
            client.cut()

    async def come_to_rest(self) -> None:
        """Let all clients come back and read everything."""
        async with asyncio.timeout(30):
            while True:
                for client in self.clients:
                    if not client.is_connected:
                        client.come()
                    client.step(10_000)
                level = all(client.is_level for client in self.clients)
                if level and self.truth.slot.activity == "idle":
                    return
                await asyncio.sleep(0)

    def check(self) -> None:
        for client in self.clients:
            client.check_rendered()
        users = [each for each in self.truth.ended(0) if each["role"] == "user"]
        waiting = self.truth.until(len(self.truth.frames)).queue
        found = Counter([*map(text_of, users), *waiting])
        for client in self.clients:
            for id, reply in client.replies.items():
                is_message = (reply.get("data") or {}).get("disposition") in ("started", "queued")
                if is_message or reply["command"] in ("steer", "follow_up"):
                    assert found[f"{id}. "] == 1
        marks = self.marks.read_text().split() if self.marks.exists() else []
        assert len(marks) == len(set(marks))


def answers(chance: random.Random) -> list[ScriptedReply]:
    """What the model says to one prompt."""
    pace = {"chunk": chance.choice((3, 9, 40)), "per_read": chance.choice((1, 1, 5))}
    thinking = PlaybackBlock(thinking="Let me think about it.")
    text = PlaybackBlock(text="Some words of an answer. " * chance.choice((1, 4)))
    tool = call("echo", f"c{chance.randrange(10**9)}", name="x" * chance.choice((1, 50)))
    other = call("fail", f"d{chance.randrange(10**9)}", name="y")
    tokens = used(chance.choice((0, 0, 0, 2_000)))
    options: list[list[ScriptedReply]] = [
        [calls(thinking, text, usage=tokens, **pace)],
        [calls(thinking, text, tool, other, **pace), say("After tools. " * 3, **pace)],
        [fails("overloaded"), calls(text, **pace)],
        [calls(text, error="overloaded", **pace), calls(text, **pace)],
    ]
    return chance.choice(options)


async def _play(s: Service, seed: int, cuts: int, path: Path | None = None) -> Counter[str]:
    opener = await s.join("opener")
    truth = Truth(s.slot((await opener.open())["session"]))
    opener.cut()
    play = Play(s, random.Random(seed), truth, path)
    await play.perform(cuts)
    play.check()
    play.leave()
    return sum((client.modes for client in play.clients), Counter[str]())


@pytest.mark.parametrize("seed", SEEDS)
async def test_clients_that_are_cut_at_random_miss_nothing(tmp_path: Path, seed: int) -> None:
    ring = RingLimits(size=RINGS[seed % len(RINGS)])
    async with service(tmp_path, settings=dict(SETTINGS), ring=ring) as s:
        modes = await _play(s, seed, CUTS)
        assert modes["replay" if seed % len(RINGS) > 1 else "snapshot"] > 0


@pytest.mark.parametrize("seed", range(3))
async def test_clients_on_a_socket_that_are_cut_miss_nothing(tmp_path: Path, seed: int) -> None:
    ring = RingLimits(size=RINGS[2 * seed])
    async with service(tmp_path, settings=dict(SETTINGS), ring=ring) as s:
        door = UnixDoor(s.server, tmp_path / "s")
        await door.open()
        try:
            modes = await _play(s, seed, 40, door.path)
            assert modes["replay"] + modes["snapshot"] > 15
            await s.holds(lambda: not s.server.connections)
        finally:
            await door.close()
