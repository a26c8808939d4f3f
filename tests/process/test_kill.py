"""SIGKILL at any moment: the session file loads and holds all that the host saw finished."""

import os
import random
import signal
from pathlib import Path
from typing import IO

import pytest

from ludolf.base import dumps, loads
from ludolf.client import Record
from ludolf.session.entries import message_json
from ludolf.session.tree import open_session
from tests.process.harness import Lab, messages, text_of, write_all
from tests.process.script import answer, bash, say

# Together 25 kills, shared out so that they can go on side by side.
SEEDS = range(5)
KILLS = 5


@pytest.mark.parametrize("seed", SEEDS)
def test_a_kill_at_any_moment_leaves_all_that_was_seen_finished(lab: Lab, seed: int) -> None:
    chance = random.Random(seed)
    whole = _run_until(lab, lab.root / "whole", None)
    assert len(_finished(whole)) == 7
    for number in range(KILLS):
        folder = lab.root / str(number)
        seen = _finished(_run_until(lab, folder, chance.randrange(1, len(whole))))
        stored = [message for path in folder.glob("*.jsonl") for message in _load(path)]
        assert stored[: len(seen)] == seen


def test_a_session_of_a_killed_program_can_be_continued(lab: Lab) -> None:
    gateless = say("x" * 2000)
    lab.server.add(answer(gateless, bash("sleep 60")), answer("Welcome back."))
    with lab.popen() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        write_all(process.stdin, b'{"type":"prompt","message":"Go"}\n')
        _read_until(process.stdout, b'"tool_execution_start"')
        os.kill(process.pid, signal.SIGKILL)
    done = lab.run("--continue", "-p", "Are you there?")
    assert (done.code, done.stdout) == (0, b"Welcome back.\n")
    stored = messages(lab.entries)
    assert [m["role"] for m in stored][:2] == ["user", "assistant"]
    assert text_of(stored[-1]) == "Welcome back."
    sent = lab.server.requests[-1].body["messages"]
    results = [
        block
        for message in sent
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    ]
    assert [block["tool_use_id"] for block in results] == ["call_1"]


def _script(lab: Lab) -> Path:
    """A script for the model inside the program, which starts faster than one over HTTP."""
    replies = [
        {
            "content": [
                {"thinking": "Hm."},
                {"text": "Two steps."},
                {"tool": "bash", "args": {"command": "echo one; echo two"}},
                {"tool": "bash", "args": {"command": "echo b"}},
            ]
        },
        {"content": [{"tool": "write", "args": {"path": "a.txt", "content": "x" * 500}}]},
        {"text": "Done."},
    ]
    path = lab.root / "script.json"
    path.write_bytes(dumps(replies))
    return path


def _run_until(lab: Lab, sessions: Path, size: int | None) -> bytes:
    """Run the script and kill the program when so many bytes were read; all that it said."""
    where = ("--session-dir", str(sessions), "--model", "ludolf/scripted")
    with lab.popen("--rpc-dialect", "pi-delta", *where, LUDOLF_SCRIPT=str(_script(lab))) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        write_all(process.stdin, b'{"type":"prompt","message":"Go"}\n')
        if size is None:
            return _read_until(process.stdout, b'"agent_settled"}\n')
        told = b""
        # Progress of a command is told as time allows, so that one run may say less than another.
        while len(told) < size and b'"agent_settled"' not in told:
            more = process.stdout.read(size - len(told))
            assert more, "the output ended too soon"
            told += more
        os.kill(process.pid, signal.SIGKILL)
        # What was written before the end is still in the pipe.
        while more := process.stdout.read(1 << 16):
            told += more
    assert process.returncode == -signal.SIGKILL
    return told


def _read_until(stdout: IO[bytes], wanted: bytes) -> bytes:
    told = b""
    while wanted not in told:
        more = stdout.read(4096)
        assert more, "the output ended too soon"
        told += more
    return told


def _finished(told: bytes) -> list[Record]:
    records = [loads(line) for line in told.split(b"\n")[:-1]]
    return [record["message"] for record in records if record["type"] == "message_end"]


def _load(path: Path) -> list[Record]:
    warnings: list[str] = []
    session = open_session(path, "/", warnings.append, write=False)
    assert warnings == []
    entries = [entry for entry in session.entries() if entry.type == "message"]
    return [loads(bytes(message_json(entry))) for entry in entries]
