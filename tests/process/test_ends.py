"""How the program ends: end of input, signals, a host that is gone; and what it leaves behind."""

import asyncio
import os
import signal
import subprocess
import time
from typing import IO

import pytest

from ludolf.base import loads
from ludolf.client import Client, Record
from tests.process.harness import (
    WAIT_SECONDS,
    Lab,
    messages,
    only,
    survivors,
    text_of,
    types,
    write_all,
)
from tests.process.script import Gate, answer, bash, flood, say

pytestmark = pytest.mark.exec

# One child in the command's group, one in a session of its own.
CHILDREN = "sleep 61 & echo $!; setsid sleep 62 & echo $!; echo up; wait"


async def _start_children(lab: Lab, client: Client) -> list[int]:
    """Have the model run a command that starts children; returns their process ids."""
    lab.server.add(answer(bash(CHILDREN)))
    await client.ask("prompt", message="Go")
    update = await client.wait_for(
        lambda r: r["type"] == "tool_execution_update" and "up" in text_of(r["partialResult"])
    )
    return [int(word) for word in text_of(update["partialResult"]).split() if word != "up"]


async def _gone(pids: list[int]) -> bool:
    return len(pids) == 2 and await asyncio.to_thread(survivors, pids) == []


# ---------------------------------------------------------------- end of input


def test_the_end_of_input_ends_an_idle_program_quickly_with_code_0(lab: Lab) -> None:
    with lab.popen() as process:
        stdin, stdout = _pipes(process)
        write_all(stdin, b'{"type":"get_state"}\n')
        stdout.readline()
        began = time.monotonic()
        stdin.close()
        assert stdout.read() == b""
        assert process.wait(WAIT_SECONDS) == 0
        assert time.monotonic() - began < 4  # far less than what it grants to what still runs
        assert process.stderr is not None
        assert process.stderr.read() == b""


async def test_the_end_of_input_in_a_run_stores_the_aborted_message(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("Half of ", gate, "it")))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        await client.wait_for(
            lambda r: r.get("assistantMessageEvent", {}).get("type") == "text_delta"
        )
        client.process.end_input()
        told = [record async for record in client.events()]
        assert await client.process.wait() == 0
    assert types(told) == ["message_end assistant", "turn_end", "agent_end", "agent_settled"]
    last = messages(lab.entries)[-1]
    assert (text_of(last), last["stopReason"]) == ("Half of ", "aborted")


async def test_the_end_of_input_in_a_tool_kills_its_children(lab: Lab) -> None:
    async with lab.client() as client:
        pids = await _start_children(lab, client)
        client.process.end_input()
        assert await client.process.wait() == 0
    assert await _gone(pids)
    roles = [(m["role"], m.get("stopReason")) for m in messages(lab.entries)]
    assert roles[-2:] == [("toolResult", None), ("assistant", "aborted")]


async def test_a_command_that_runs_at_the_end_of_input_is_answered(lab: Lab) -> None:
    async with lab.client() as client:
        await client.send("bash", id="b", command="echo up; sleep 60")
        await client.wait_for("bash_execution_update")
        client.process.end_input()
        reply = await client.reply_to("b")
    assert reply["data"] == {"output": "up\n", "cancelled": True, "truncated": False}


def test_a_command_right_before_the_end_of_input_is_answered(lab: Lab) -> None:
    told = lab.feed(b'{"id":1,"type":"bash","command":"echo hi"}\n')
    assert [record["id"] for record in only(told, "response")] == [1]


def test_a_prompt_right_before_the_end_of_input_is_stored_and_told_to_its_end(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(gate, "Late."))
    told = lab.feed(b'{"id":1,"type":"prompt","message":"Remember me"}\n')
    assert (told[0]["id"], told[0]["success"]) == (1, True)
    assert types(told)[-3:] == ["turn_end", "agent_end", "agent_settled"]
    assert text_of(messages(lab.entries)[0]) == "Remember me"


# ---------------------------------------------------------------- signals


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, -signal.SIGINT)],
)
async def test_a_signal_kills_the_children_and_gives_its_code(
    lab: Lab, number: signal.Signals, code: int
) -> None:
    async with lab.client() as client:
        pids = await _start_children(lab, client)
        began = time.monotonic()
        client.process.send_signal(number)
        assert await client.process.wait() == code
        assert time.monotonic() - began < 10
        assert "Traceback" not in client.process.stderr
    assert await _gone(pids)


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, -signal.SIGINT)],
)
async def test_a_signal_ends_an_idle_program_at_once(
    lab: Lab, number: signal.Signals, code: int
) -> None:
    async with lab.client() as client:
        await client.ask("get_state")
        client.process.send_signal(number)
        assert await client.process.wait() == code
        assert client.process.stderr == ""


async def test_a_signal_in_a_run_stores_what_has_arrived(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("Half of ", gate, "it")))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        await client.wait_for(
            lambda r: r.get("assistantMessageEvent", {}).get("type") == "text_delta"
        )
        client.process.send_signal(signal.SIGTERM)
        assert await client.process.wait() == 143
    last = messages(lab.entries)[-1]
    assert (text_of(last), last["stopReason"]) == ("Half of ", "aborted")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_program_whose_host_does_not_read(
    lab: Lab, number: signal.Signals, code: int
) -> None:
    with _unread_run(lab) as process:
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(WAIT_SECONDS) == code
        assert time.monotonic() - began < 10
    assert messages(lab.entries)[-1]["stopReason"] == "aborted"


def test_the_end_of_input_ends_a_program_whose_host_does_not_read_in_five_seconds(
    lab: Lab,
) -> None:
    with _unread_run(lab) as process:
        stdin, _ = _pipes(process)
        began = time.monotonic()
        stdin.close()
        assert process.wait(WAIT_SECONDS) == 0
        assert time.monotonic() - began < 10
    assert messages(lab.entries)[-1]["stopReason"] == "aborted"


def _unread_run(lab: Lab) -> "subprocess.Popen[bytes]":
    """A run in the midst of an answer that is larger than the pipe, and that nobody reads."""
    end = Gate()
    lab.server.add(flood("x" * 2_000_000, end))
    process = lab.popen("--rpc-dialect", "pi-delta")
    stdin, stdout = _pipes(process)
    write_all(stdin, b'{"type":"prompt","message":"Go"}\n')
    while b"text_delta" not in stdout.readline():
        pass
    # By then all buffers are full, and the program waits for its host.
    assert not end.reached.wait(0.5)
    return process


# ---------------------------------------------------------------- a host that is gone


def test_a_closed_stdout_ends_the_run_and_its_children_soon(lab: Lab) -> None:
    command = f"{CHILDREN.removesuffix('wait')} while true; do echo more; sleep 0.02; done"
    lab.server.add(answer(bash(command)))
    with lab.popen() as process:
        stdin, stdout = _pipes(process)
        write_all(stdin, b'{"type":"prompt","message":"Go"}\n')
        pids = _read_pids(stdout)
        began = time.monotonic()
        stdout.close()
        assert process.wait(WAIT_SECONDS) == 1
        assert time.monotonic() - began < 10
        assert survivors(pids) == []
        assert process.stderr is not None
        assert process.stderr.read().decode().count("\n") == 1


def test_a_stdout_closed_at_rest_is_noticed_with_the_next_reply(lab: Lab) -> None:
    with lab.popen() as process:
        stdin, stdout = _pipes(process)
        stdout.close()
        write_all(stdin, b'{"type":"get_state"}\n')
        assert process.wait(WAIT_SECONDS) == 1
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read().decode()


def test_children_are_gone_soon_after_the_program_is_killed(lab: Lab) -> None:
    lab.server.add(answer(bash(CHILDREN)))
    with lab.popen() as process:
        stdin, stdout = _pipes(process)
        write_all(stdin, b'{"type":"prompt","message":"Go"}\n')
        pids = _read_pids(stdout)
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(WAIT_SECONDS) == -signal.SIGKILL
        assert survivors(pids) == []


def _pipes(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def _read_pids(stdout: IO[bytes]) -> list[int]:
    """The process ids that the command of the model has told."""
    for line in stdout:
        record: Record = loads(line)
        if record["type"] == "tool_execution_update":
            words = text_of(record["partialResult"]).split()
            if "up" in words:
                return [int(word) for word in words[:2]]
    raise AssertionError("the output ended before the children were up")
