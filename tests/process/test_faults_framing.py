"""Abuse of the pipes: rubbish, floods, hosts that do not read, hosts that are gone."""

import random
import threading
import time
from collections.abc import Callable
from typing import IO

import pytest

from ludolf.base import dumps
from ludolf.client import Record
from tests.process.faults import MIB, Pipes, children, peak_bytes, warm
from tests.process.harness import WAIT_SECONDS, Lab, only, resident_bytes, survivors, write_all
from tests.process.script import Gate, Piece, Raw, answer, bash, flood
from tests.process.script import say as spoken

STATE = b'{"id":"s","type":"get_state"}\n'


# ---------------------------------------------------------------- what is no command


def test_a_million_brackets_are_refused_and_the_next_line_works(lab: Lab) -> None:
    depth = 1_000_000
    line = b'{"id":"n","type":"get_state","x":' + b"[" * depth + b"]" * depth + b"}\n"
    deep, flat = lab.feed(line, STATE)
    assert (deep["id"], deep["success"]) == ("n", False)
    assert "nested too deeply" in deep["error"]
    assert (flat["id"], flat["success"]) == ("s", True)


def _rubbish(chance: random.Random) -> bytes:
    """Bytes without LF: noise, or a command with some of its bytes changed."""
    if chance.random() < 0.3:
        return chance.randbytes(chance.randrange(1, 200)).replace(b"\n", b"")
    line = bytearray(
        dumps(
            chance.choice(({"id": 7, "type": "get_state"}, {"type": "steer", "message": "é\ud83d"}))
        )
    )
    for _ in range(chance.randrange(1, 6)):
        line[chance.randrange(len(line))] = chance.choice(b'{}[]":,\\\x00\xff\xc3 utrue0-')
    return bytes(line)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_bytes_come_each_line_has_at_most_one_answer(lab: Lab, seed: int) -> None:
    chance = random.Random(seed)
    lines = [_rubbish(chance) for _ in range(600)]
    whole = b"\n".join(lines) + b"\n"
    cuts = sorted(chance.randrange(len(whole)) for _ in range(50))
    chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    *told, last = lab.feed(*chunks, STATE)
    answered = only(told, "response")
    spoken_lines = [line for line in lines if line.strip(b" \t\r\x0b\x0c")]
    assert len(answered) == len(spoken_lines)
    assert not any("Internal error" in reply.get("error", "") for reply in answered)
    assert (last["id"], last["success"]) == ("s", True)


# ---------------------------------------------------------------- hosts that do not read


def test_a_blocked_reader_of_whole_messages_costs_little_memory_and_loses_nothing(
    lab: Lab,
) -> None:
    text = "abc" * 10_000
    end = Gate()
    with warm(lab) as pipes:
        lab.server.add(flood(text, end, size=3))
        before = resident_bytes(pipes.pid)
        pipes.say("prompt", message="Go")
        # The model cannot say its last word while nobody reads: the pause reaches through to it.
        assert not end.reached.wait(2)
        grown = resident_bytes(pipes.pid) - before
        end.open()
        assert _count_deltas(pipes.stdout) == len(text)
        assert grown < 16 * MIB
        assert peak_bytes(pipes.pid) - before < 16 * MIB
        assert pipes.end() == 0


def _count_deltas(stdout: IO[bytes]) -> int:
    """Count characters of deltas without decoding half a gigabyte of snapshots."""
    counted = 0
    for line in stdout:
        if line.startswith(b'{"type":"message_update"'):
            start = line.rfind(b'"assistantMessageEvent":{')
            head = line[start : start + 200]
            if b'"text_delta"' in head:
                counted += len(head.partition(b'"delta":"')[2].partition(b'","partial"')[0])
        elif b'"agent_settled"' in line:
            break
    return counted


def test_an_abort_is_answered_soon_though_a_flood_stands_before_it(lab: Lab) -> None:
    end = Gate()
    with warm(lab) as pipes:
        lab.server.add(answer(spoken("x" * 800_000, end), size=20, bulk=True))
        pipes.say("prompt", message="Go")
        read = 0
        while read < 400 * MIB:
            read += len(pipes.stdout.readline())
        began = time.monotonic()
        pipes.say("abort", id="stop")
        for line in pipes.stdout:
            if line.startswith(b'{"id":"stop"'):
                break
        assert time.monotonic() - began < 10  # the whole flood would take minutes
        end.open()
        assert pipes.end() == 0


def test_twenty_thousand_commands_that_nobody_reads_yet_stay_bounded(lab: Lab) -> None:
    count = 20_000
    with warm(lab) as pipes:
        before = resident_bytes(pipes.pid)
        lines = b"".join(b'{"id":%d,"type":"get_session_stats"}\n' % n for n in range(count))
        writer = threading.Thread(target=write_all, args=(pipes.stdin, lines))
        writer.start()
        writer.join(2)
        grown = resident_bytes(pipes.pid) - before
        told = [pipes.hear()["id"] for _ in range(count)]
        writer.join(WAIT_SECONDS)
        assert told == list(range(count))
        assert grown < 64 * MIB
        assert pipes.end() == 0


# ---------------------------------------------------------------- long queues


def test_a_hundred_thousand_waiting_messages_cost_linear_output_and_none_is_lost(
    lab: Lab,
) -> None:
    count = 100_000
    gate = Gate()
    line = b'{"id":%d,"type":"follow_up","message":"message %d"}\n'
    with warm(lab, "--rpc-dialect", "pi-delta") as pipes:
        lab.server.add(answer(spoken("Wait ", gate, "over.")))
        pipes.say("prompt", message="Go")
        pipes.hear_until("message_update")
        before = resident_bytes(pipes.pid)
        lines = b"".join(line % (n, n) for n in range(count))
        writer = threading.Thread(target=write_all, args=(pipes.stdin, lines))
        writer.start()
        size = _read_replies(pipes.stdout, count)
        writer.join(WAIT_SECONDS)
        grown = resident_bytes(pipes.pid) - before
        pipes.say("abort", id="stop")
        pipes.hear_until("response", id="stop")
        pipes.say("clear_queue", id="cleared")
        held = pipes.hear_until("response", id="cleared")[-1]["data"]
        gate.open()
        assert held["followUp"] == [f"message {n}" for n in range(count)]
        # One list of all messages takes two megabytes, the replies nine.
        assert size < 64 * MIB
        assert grown < 200 * MIB
        assert pipes.end() == 0


def _read_replies(stdout: IO[bytes], count: int) -> int:
    """Read so many replies, each a success and in order; the bytes of all that came."""
    size = seen = 0
    while seen < count:
        line = stdout.readline()
        size += len(line)
        if line.startswith(b'{"id":'):
            assert line.startswith(b'{"id":%d,' % seen), line[:100]
            assert b'"success":true' in line
            seen += 1
    return size


# ---------------------------------------------------------------- hosts that are gone

CHATTY = "while true; do echo more; sleep 0.01; done"


def _streaming(lab: Lab) -> tuple[str, Record]:
    pause: list[Piece] = [Raw(b": %b\n\n" % (b"-" * 1000)), "more "]
    lab.server.add(answer(spoken(*pause * 50_000)))
    return "message_update", {"type": "prompt", "message": "Go"}


def _in_a_tool(lab: Lab) -> tuple[str, Record]:
    lab.server.add(answer(bash(CHATTY)))
    return "tool_execution_update", {"type": "prompt", "message": "Go"}


def _in_a_command(lab: Lab) -> tuple[str, Record]:
    return "bash_execution_update", {"type": "bash", "command": CHATTY}


@pytest.mark.parametrize("state", [_streaming, _in_a_tool, _in_a_command])
def test_a_host_that_is_gone_ends_the_program_with_one_line(
    lab: Lab, state: Callable[[Lab], tuple[str, Record]]
) -> None:
    wanted, command = state(lab)
    with Pipes(lab.popen()) as pipes:
        write_all(pipes.stdin, dumps(command) + b"\n")
        pipes.hear_until(wanted)
        kin = children(pipes.pid)
        began = time.monotonic()
        pipes.stdout.close()
        assert pipes.process.wait(WAIT_SECONDS) == 1
        assert time.monotonic() - began < 10
        assert survivors(kin) == []
        assert pipes.process.stderr is not None
        assert pipes.process.stderr.read() == b"Error: stdout was closed by the reader\n"
