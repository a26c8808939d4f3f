"""A whole engine in process: the real server on pipes of memory, a scripted model behind it."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import repeat
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import structs

from ludolf.agent.events import MessageEnd
from ludolf.agent.scope import Tasks
from ludolf.ai.access import Access
from ludolf.ai.builtin.models import scripted_model
from ludolf.ai.builtin.scripted import (
    PlaybackBlock,
    Scripted,
    ScriptedFailure,
    ScriptedReply,
    ScriptedUsage,
)
from ludolf.ai.models import ModelCost
from ludolf.ai.provider import Request
from ludolf.base import dumps
from ludolf.config.settings.options import Options
from ludolf.engine.build import build
from ludolf.engine.engine import Engine
from ludolf.engine.hub import Sink
from ludolf.protocol.dialects import make_dialect
from ludolf.protocol.events import Event
from ludolf.protocol.framing import Frame
from ludolf.rpc.server import Server
from ludolf.rpc.stdio import Stdio
from ludolf.session.entries import message_of, role_of
from tests.frames import frames_out
from tests.loop.laws import Log, Record, Said, Sent, check
from tests.loop.tools import Gates, stage_tools

WAIT_SECONDS = 15.0
# Small numbers, so that a few words near the limit: a context over 1,000 tokens is compacted,
# and the newest 100 are kept.
WINDOW = scripted_model().context_window
SMALL = {"reserveTokens": WINDOW - 1_000, "keepRecentTokens": 100}
Test = Callable[[Record], bool]
_STORED_AT_ONCE = 64
_STORED_BYTES = 1 << 20


class MemoryStdio:
    """Pipes of memory. `waits` says for how many turns of the loop each event finds no room."""

    def __init__(self, hear: Callable[[Record], None], waits: Iterator[int]) -> None:
        self._hear = hear
        self._waits = waits
        self._waiting = 0
        self.feed: Callable[[list[bytes]], None] = lambda lines: None
        self.end: Callable[[], None] = lambda: None

    def lines(self, feed: Callable[[list[bytes]], None], end: Callable[[], None]) -> None:
        self.feed, self.end = feed, end

    def send(self, frame: Frame) -> None:
        data = frame if isinstance(frame, bytes) else b"".join(frame)
        *lines, rest = data.split(b"\n")
        assert lines, data
        assert rest == b"", data
        for line in lines:
            self._hear(json.loads(line.decode(), parse_constant=_refuse_constant))

    def hold(self, frame: Frame) -> None:
        self.send(frame)

    def flush(self) -> bool:
        self._waiting = next(self._waits)
        return not self._waiting

    unsent_bytes = 0

    def has_room(self) -> bool:
        return True

    async def room(self) -> None:
        turns, self._waiting = self._waiting or next(self._waits), 0
        for _ in range(turns):
            await asyncio.sleep(0)

    async def drain(self, seconds: float) -> None:
        await asyncio.sleep(0)


class Recorder(Sink):
    """A sink beside the server's: all events, and a look at the disk at each finished message."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.events: list[Event] = []
        self.late: list[Event] = []

    def take(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, MessageEnd) and not self._is_stored(event):
            self.late.append(event)

    def _is_stored(self, event: MessageEnd) -> bool:
        session = self._engine.session
        # Results of calls that an abort ended are stored together, and then told.
        newest = filter(role_of, reversed(session.path_to_leaf()[-_STORED_AT_ONCE:]))
        entry = next((entry for entry in newest if message_of(entry) == event.message), None)
        if entry is None or session.path is None:
            return entry is not None
        return entry.line in session.path.read_bytes()[-_STORED_BYTES:]


class Stage:
    """One engine, its host and its model. `log` holds all that was said both ways, in order."""

    def __init__(
        self,
        root: Path,
        engine: Engine,
        script: Scripted,
        waits: Iterator[int],
        dialect: str = "pi-delta",
    ) -> None:
        self.root = root
        self.dialect = dialect
        self.engine = engine
        self.script = script
        self.log: Log = []
        self.gates = Gates()
        self.recorder = Recorder(engine)
        self._stdio = MemoryStdio(self._hear, waits)
        self._changed = asyncio.Event()
        self._planned: dict[str, Callable[[], object]] = {}
        self._numbers = iter(range(1, 1_000_000))
        engine.conversation.hub.attach(self.recorder)
        self.server = Server(engine, make_dialect(dialect), cast(Stdio, self._stdio))

    # ------------------------------------------------------------ speaking

    def send(self, name: str, /, **fields: Any) -> str:
        """Say one command; what needs no waiting is done and answered when this returns."""
        number = f"{name}-{next(self._numbers)}"
        record = {"id": number, "type": name, **fields}
        self.log.append(Sent(record))
        self._stdio.feed([dumps(record)])
        return number

    def when(self, kind: str, act: Callable[[], object]) -> None:
        """Do something right after the next frame of this type, before anyone who waits for it."""
        self._planned[kind] = act

    async def ask(self, name: str, /, **fields: Any) -> Record:
        """Say a command and wait for its reply."""
        return await self.reply(self.send(name, **fields))

    async def data(self, name: str, /, **fields: Any) -> Any:
        """Say a command that must succeed; what it returned."""
        reply = await self.ask(name, **fields)
        assert reply["success"], reply
        return reply.get("data")

    async def refusal(self, name: str, /, **fields: Any) -> str:
        """Say a command that must fail; the text of its error."""
        reply = await self.ask(name, **fields)
        assert not reply["success"], reply
        return str(reply["error"])

    async def run(self, text: str, **fields: Any) -> list[Record]:
        """Prompt and wait for rest; what was said from the reply on."""
        start = len(self.log)
        await self.data("prompt", message=text, **fields)
        await self.settled()
        return [item.record for item in self.log[start:] if isinstance(item, Said)]

    def feed(self, *lines: bytes) -> None:
        """Say lines in one read, whatever they hold."""
        self._stdio.feed(list(lines))

    # ------------------------------------------------------------ hearing

    @property
    def frames(self) -> list[Record]:
        return [item.record for item in self.log if isinstance(item, Said)]

    async def reply(self, number: str) -> Record:
        return await self.until(lambda record: record.get("id") == number and _is_reply(record))

    async def settled(self) -> None:
        """Wait until nothing goes on."""
        await self._wait(lambda: not self.engine.runner.running)

    async def until(self, test: Test | str, since: int = 0) -> Record:
        """The first frame from `since` on that passes the test or has this type."""
        passes = test if callable(test) else _has_type(test)
        await self._wait(lambda: any(map(passes, self.frames[since:])))
        return next(record for record in self.frames[since:] if passes(record))

    async def asked(self, count: int) -> None:
        """Wait until the model has been asked so many times."""
        for _ in range(10_000):
            if len(self.script.requests) >= count:
                return
            await asyncio.sleep(0)
        raise TimeoutError(f"asked {len(self.script.requests)} times")

    def of_type(self, kind: str) -> list[Record]:
        return [record for record in self.frames if record["type"] == kind]

    @property
    def queue(self) -> tuple[list[str], list[str]]:
        """What waits now: steering and follow-ups."""
        updates = self.of_type("queue_update")
        return (updates[-1]["steering"], updates[-1]["followUp"]) if updates else ([], [])

    @property
    def path(self) -> Path:
        path = self.engine.session.path
        assert path is not None
        return path

    # ------------------------------------------------------------ private

    def _hear(self, record: Record) -> None:
        frames_out(self.dialect).check(record)
        self.log.append(Said(record))
        self._changed.set()
        if record["type"] in self._planned:
            asyncio.get_running_loop().call_soon(self._planned.pop(record["type"]))

    async def _wait(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not done():
                self._changed.clear()
                await self._changed.wait()

    def end(self) -> None:
        self._stdio.end()


@asynccontextmanager
async def stage(
    root: Path,
    *replies: ScriptedReply,
    settings: dict[str, Any] | None = None,
    waits: Iterator[int] | None = None,
    options: dict[str, Any] | None = None,
    lawful: bool = True,
    dialect: str = "pi-delta",
) -> AsyncIterator[Stage]:
    """An engine in a home of its own. On leaving, all that was said is held against the laws."""
    trouble: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: trouble.append(context))
    with home_with(root, settings or {}):
        script = Scripted(replies)
        engine = _engine(root, script, options or {})
        made = Stage(root, engine, script, waits or repeat(0), dialect)
        _equip(engine, made.gates)
        serving = Tasks().start(made.server.serve())
        await asyncio.sleep(0)
        try:
            yield made
        finally:
            made.gates.open_all()
            made.end()
            await asyncio.wait_for(serving, WAIT_SECONDS)
    if lawful:
        check(made.log)
    assert made.recorder.late == []
    assert trouble == []


def _refuse_constant(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


def _engine(root: Path, script: Scripted, options: dict[str, Any]) -> Engine:
    (root / "work").mkdir(exist_ok=True)
    chosen = {"cwd": root / "work", "model": "ludolf/scripted", "no_context_files": True}
    engine = build(Options(**{**chosen, **options}), warn=lambda text: None)
    engine.models.providers.register(script)
    return engine


def _equip(engine: Engine, gates: Gates) -> None:
    """More models that play the same script, and tools that a test holds in its hand."""
    model = scripted_model()
    engine.models.registry.register(
        (
            structs.replace(model, id="plain", name="Plain", reasoning=False),
            structs.replace(model, id="dear", name="Dear", cost=ModelCost(input=1e6, output=1e6)),
        ),
        Access(),
    )
    engine.toolset.provide("stage", stage_tools(gates))


@contextmanager
def home_with(root: Path, settings: dict[str, Any]) -> Iterator[None]:
    agent = root / "agent"
    agent.mkdir(parents=True, exist_ok=True)
    retry = {"baseDelayMs": 1, "jitter": 0, **settings.pop("retry", {})}
    (agent / "settings.json").write_bytes(dumps({**settings, "retry": retry}))
    before = os.environ.get("LUDOLF_DIR")
    os.environ["LUDOLF_DIR"] = str(agent)
    try:
        yield
    finally:
        if before is None:
            del os.environ["LUDOLF_DIR"]
        else:
            os.environ["LUDOLF_DIR"] = before


# ---------------------------------------------------------------- what a model says


def say(text: str, **about: Any) -> ScriptedReply:
    return ScriptedReply(text=text, **about)


def fails(text: str | ScriptedFailure, **about: Any) -> ScriptedReply:
    """An answer that fails before its first token."""
    return ScriptedReply(error=text, **about)


def call(tool: str, call_id: str, **args: Any) -> PlaybackBlock:
    return PlaybackBlock(tool=tool, id=call_id, args=args)


def calls(*pieces: PlaybackBlock, **about: Any) -> ScriptedReply:
    return ScriptedReply(content=pieces, **about)


def used(tokens: int) -> ScriptedUsage:
    """An answer with this has filled so much of the context."""
    return ScriptedUsage(input=tokens)


def words(count: int) -> str:
    """A text of about so many tokens."""
    return "word" * count


# ---------------------------------------------------------------- what a host sees


def story(records: Sequence[Record]) -> list[str]:
    """The records in brief: pieces of answers left out, messages by role, calls by id."""
    return [_brief(record) for record in records if record["type"] != "message_update"]


def texts(records: Sequence[Record], role: str = "user") -> list[str]:
    """The texts of the finished messages of a role."""
    ended = (r["message"] for r in records if r["type"] == "message_end")
    return [text_of(message) for message in ended if message["role"] == role]


def text_of(message: Record) -> str:
    if "summary" in message:
        return str(message["summary"])
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def asked(request: Request) -> list[str]:
    """The messages of a request in brief: role and text."""
    messages = [msgspec.to_builtins(message) for message in request.messages]
    return [f"{one['role']} {text_of(one)}" for one in messages]


def _brief(record: Record) -> str:
    kind: str = record["type"]
    if kind in ("message_start", "message_end"):
        return f"{kind.removeprefix('message_')} {record['message']['role']}"
    if kind.startswith("tool_execution"):
        return f"{kind.removeprefix('tool_execution_')} {record['toolCallId']}"
    return f"reply {record['command']}" if kind == "response" else kind


def _is_reply(record: Record) -> bool:
    return bool(record["type"] == "response")


def _has_type(kind: str) -> Test:
    return lambda record: record["type"] == kind
