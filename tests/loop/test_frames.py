"""Frames with anything in them: each gets one reply, and none keeps the next from being read."""

import asyncio
import contextlib
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ludolf.protocol.commands import COMMANDS
from ludolf.protocol.dialects import NAMES
from ludolf.rpc.connection import Call, ReplyData, Result
from tests.loop.laws import Record
from tests.loop.stage import WAIT_SECONDS, Stage, say, stage

# Answers to questions of the program have no reply, in any dialect.
SILENT = {name for name, spec in COMMANDS.items() if spec.unanswered}
STATE = b'{"id":"%b","type":"get_state"}'
# As paths they stay in the folder of the test, or cannot exist.
ODD_TEXTS = (
    *("", " ", "x", "\x00", "a\x00b", "\ud800", "\udfff!", "\udc80", "\U0001f600", "\x1b[31m"),
    *("\u2028", "~\x00", "~nobody/x", "n" * 300, "n/" * 3_000, "e" * 70_000, "x.jsonl", "a.html"),
    *(
        "steer",
        "followUp",
        "off",
        "high",
        "all",
        "one-at-a-time",
        "progress",
        "api-key",
        "NaN",
        "-0",
    ),
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, -0.0, 1e308, 2**63, 2**64, -(2**70), 10**400),
    *([], [[]], {}, {"a": None}, [None] * 50, {"type": "x"}, {"\ud800": "\ud800"}, {"": []}),
)
# Text in the place of a value that JSON does not have, or that Python's parser reads by itself.
ODD_JSON = (
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e400",
    b"-0",
    b"9" * 5_000,
    b'"\xff\xfe"',
    b'"\xed\xa0\x80"',
    b"01",
    b'"\\x"',
    b"[" * 300 + b"]" * 300,
    b'{"a":' * 2_000,
    b"{1:2}",
    b"nul",
)


class Odd(msgspec.Struct, frozen=True):
    """A line, and whether a reply to it is optional."""

    id: str
    name: str
    line: bytes
    silent: bool


def _values(chance: random.Random) -> Any:
    pick = chance.random()
    if pick < 0.5:
        return chance.choice(ODD_TEXTS)
    if pick < 0.85:
        return chance.choice(ODD_VALUES)
    return (
        [_values(chance) for _ in range(chance.randint(0, 3))]
        if pick < 0.92
        else {
            str(chance.choice(ODD_TEXTS))[:20]: _values(chance) for _ in range(chance.randint(0, 3))
        }
    )


def _fields(name: str) -> list[str]:
    return [field.encode_name for field in msgspec.structs.fields(COMMANDS[name].params)]


def _frames(chance: random.Random, rounds: int) -> Iterator[Odd]:
    """Every command several times, with its own fields and others."""
    every = sorted({field for name in COMMANDS for field in _fields(name)} - {"id"})
    names = sorted(COMMANDS) * rounds
    chance.shuffle(names)
    for number, name in enumerate(names):
        keys = [key for key in _fields(name) if chance.random() < 0.9]
        keys += chance.sample(every, chance.randint(0, 2))
        record = {"id": f"f{number}", "type": name}
        record |= {key: _values(chance) for key in keys if key != "id"}
        line = json.dumps(record).encode()
        if chance.random() < 0.15:
            line = line[:-1] + b',"%b":%b}' % (
                chance.choice(every).encode(),
                chance.choice(ODD_JSON),
            )
        if chance.random() < 0.05:
            line = b"\xef\xbb\xbf" + line
        # Some dialects pass over a prompt or a shell command without text.
        empty = "" in (record.get("message"), record.get("command"))
        yield Odd(f"f{number}", name, line, name in SILENT or empty)


@pytest.mark.parametrize("dialect", [name for name in NAMES if name != "pi-early"])
def test_whatever_the_fields_hold_each_command_has_one_reply(dialect: str) -> None:
    asyncio.run(_perform(dialect, seed=1, rounds=5))


async def _perform(dialect: str, *, seed: int, rounds: int) -> None:
    frames = list(_frames(random.Random(f"{dialect} {seed}"), rounds))
    # An export without a path goes to the folder that the process runs in.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        async with stage(Path(folder), *[say("ok")] * 400, lawful=False, dialect=dialect) as s:
            for start in range(0, len(frames), 8):
                await _burst(s, frames[start : start + 8])


async def test_a_dialect_without_replies_reports_at_most_one_error_for_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frames = list(_frames(random.Random("pi-early 1"), 3))
    async with stage(tmp_path, *[say("ok")] * 400, lawful=False, dialect="pi-early") as s:
        for frame in frames:
            start = len(s.frames)
            mark = f"after {frame.id}"
            s.feed(frame.line, json.dumps({"type": mark}).encode())
            errors = [one["error"] for one in s.frames[start:] if one["type"] == "error"]
            assert errors[-1] == f"Unknown command: {mark}"
            assert len(errors) <= 2
        await asyncio.sleep(0)
        wrong = [one for one in s.of_type("error") if "Internal" in one["error"]]
        assert wrong == []


# ---------------------------------------------------------------- ids


@pytest.mark.parametrize(
    ("sent", "returned"),
    [
        (b'"\xff\xfe"', "\ufffd\ufffd"),
        (b'"\xed\xa0\x80"', "\ufffd" * 3),
        (b'["a","\xc0\xaf"]', ["a", "\ufffd\ufffd"]),
        (b'{"\xff":1}', {"\ufffd": 1}),
        (b'"\\ud800"', "\ud800"),
    ],
)
@pytest.mark.parametrize("rest", [b'"type":"get_state"', b'"type":"nothing"', b'"type":7'])
async def test_an_id_that_is_not_utf_8_comes_back_as_valid_text(
    tmp_path: Path, sent: bytes, returned: Any, rest: bytes
) -> None:
    async with stage(tmp_path, lawful=False) as s:
        s.feed(b'{"id":%b,%b}' % (sent, rest))  # the stage decodes every line strictly
        (reply,) = s.of_type("response")
        assert reply["id"] == returned


async def test_repair_of_other_fields_leaves_the_id_byte_for_byte(tmp_path: Path) -> None:
    async with stage(tmp_path, lawful=False) as s:
        s.feed(b'\xef\xbb\xbf{"id":1.50e3,"type":"set_session_name","name":"n"}')
        s.feed(b'{"id":-0.0,"type":"set_session_name","name":"\xff"}')
        s.feed(b'{"id":%b,"type":"set_session_name","name":"\xff"}' % (b"9" * 4_000))
        ids = [reply["id"] for reply in s.of_type("response")]
        assert [str(id) for id in ids] == ["1500.0", "-0.0", "9" * 4_000]


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
async def test_constants_that_json_lacks_are_refused(tmp_path: Path, constant: str) -> None:
    async with stage(tmp_path, lawful=False) as s:
        s.feed(b'{"id":%b,"type":"get_state"}' % constant.encode())
        s.feed(b'{"id":1,"type":"set_auto_retry","enabled":%b}' % constant.encode())
        errors = [reply["error"] for reply in s.of_type("response")]
        assert errors == [f"Failed to parse command: {constant} is not a JSON value"] * 2


async def test_entries_of_a_file_that_is_not_utf_8_are_valid_text(tmp_path: Path) -> None:
    async with stage(tmp_path, lawful=False) as s:
        path = tmp_path / "work" / "odd.jsonl"
        head = {"type": "session", "version": 3, "id": "x", "cwd": str(path.parent)}
        note = (
            b'{"type":"custom","id":"aaaaaaaa","parentId":null,"customType":"c\xff",'
            b'"timestamp":"2026-01-01T00:00:00.000Z"}\n'
        )
        path.write_bytes(json.dumps(head).encode() + b"\n" + note)
        await s.data("switch_session", sessionPath=str(path))
        entries = (await s.data("get_entries"))["entries"]
        assert entries[0]["customType"] == "c\ufffd"


# ---------------------------------------------------------------- bugs


async def _answer_object(call: Call) -> Result:
    return ReplyData(object())


async def test_data_that_cannot_be_written_is_an_error_reply(tmp_path: Path) -> None:
    async with stage(tmp_path, lawful=False) as s:
        handler = s.server.desk._handlers["get_tree"]
        s.server.desk._handlers["get_tree"] = msgspec.structs.replace(handler, run=_answer_object)
        s.feed(b'{"id":"odd","type":"get_tree"}', STATE % b"next")
        odd, state = s.of_type("response")
        assert (odd["id"], odd["success"]) == ("odd", False)
        assert odd["error"].startswith("Internal error in get_tree: ")
        assert (state["id"], state["success"]) == ("next", True)


# ---------------------------------------------------------------- paths


@pytest.mark.parametrize(
    "path", ["\x00", "a\x00b.html", "\ud800", "~\x00/x", "n" * 300, "n/" * 3_000]
)
@pytest.mark.parametrize("dialect", ["pi-delta", "omp"])
async def test_a_path_that_no_file_can_have_is_named_as_such(
    tmp_path: Path, path: str, dialect: str
) -> None:
    commands = {
        "switch_session": "sessionPath",
        "rename_session": "sessionPath",
        "delete_session": "sessionPath",
        "export_html": "outputPath",
        "open_session": "sessionDir",
        "new_session": "parentSession",
    }
    async with stage(tmp_path, lawful=False, dialect=dialect) as s:
        for command, field in commands.items():
            reply = await s.ask(command, **{field: path, "name": "n"})
            assert not reply["success"], reply
            assert "Not a usable path: " in reply["error"], reply


async def _burst(s: Stage, frames: list[Odd]) -> None:
    """Say odd lines in one read, each before a plain one, and wait until all are answered."""
    start = len(s.frames)
    plain = [f"after {frame.id}" for frame in frames]
    lines = zip((frame.line for frame in frames), plain, strict=True)
    s.feed(*(line for odd, mark in lines for line in (odd, STATE % mark.encode())))
    marks = [reply.get("id") for reply in _replies(s, start) if reply.get("id") in plain]
    assert marks == plain
    await s.ask("abort")
    async with asyncio.timeout(WAIT_SECONDS):
        while missing := _missing(s, start, frames):
            s.send("abort")
            await asyncio.sleep(0)
            del missing
    wrong = [reply for reply in _replies(s, start) if "Internal" in str(reply.get("error"))]
    assert wrong == []


def _missing(s: Stage, start: int, frames: list[Odd]) -> list[Odd]:
    """The frames without a reply. A line that is not JSON is answered without an id."""
    replies = _replies(s, start)
    counts = Counter(reply.get("id") for reply in replies)
    assert [id for id, count in counts.items() if id is not None and count > 1] == []
    open_ones = [frame for frame in frames if frame.id not in counts]
    due = [frame for frame in open_ones if not frame.silent]
    nameless = counts[None]
    assert nameless <= len(open_ones)
    return due[nameless:]


def _replies(s: Stage, start: int) -> list[Record]:
    return [frame for frame in s.frames[start:] if frame["type"] == "response"]
