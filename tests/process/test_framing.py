"""Bytes of every kind on stdin, floods, hosts that do not read or are gone: each line gets its one
answer, and none ends the program."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO

import pytest

from ludolf.base import dumps
from ludolf.client import Record
from tests.process.faults import MIB, Pipes, children, peak_bytes, warm
from tests.process.harness import (
    WAIT_SECONDS,
    Lab,
    only,
    resident_bytes,
    survivors,
    text_of,
    types,
    write_all,
)
from tests.process.script import Gate, Piece, Raw, answer, bash, flood
from tests.process.script import say as spoken

pytestmark = pytest.mark.exec

STATE = b'{"id":"s","type":"get_state"}\n'
_SHAPE = 'Failed to parse command: expected a JSON object with a string "type"'


def _ask_after(lab: Lab, *chunks: bytes) -> list[Record]:
    """What the chunks bring; the state asked for at the end shows that the program is well."""
    *told, state = lab.feed(*chunks, STATE)
    assert (state["id"], state["success"]) == ("s", True)
    return told


# ---------------------------------------------------------------- what is no command


def test_lines_that_are_no_json_are_answered_as_such(lab: Lab) -> None:
    lines = [
        b"{",
        b"nonsense",
        b'{"type":"get_state",}',
        b"{'type':'x'}",
        b"\x00",
        b"\x1b[A",
        b"}{",
    ]
    replies = _ask_after(lab, *(line + b"\n" for line in lines))
    assert len(replies) == len(lines)
    for reply in replies:
        assert reply.pop("error").startswith("Failed to parse command: ")
        assert reply == {"type": "response", "command": "parse", "success": False}


def test_json_that_is_no_command_is_answered_as_such(lab: Lab) -> None:
    lines = [b"null", b"[]", b"3", b'"x"', b"true", b"{}", b'{"type":7}', b'{"type":null}']
    replies = _ask_after(lab, *(line + b"\n" for line in lines))
    refusal = {"type": "response", "command": "parse", "success": False, "error": _SHAPE}
    assert replies == [refusal] * len(lines)


def test_an_id_is_echoed_also_when_the_type_is_missing(lab: Lab) -> None:
    (reply,) = _ask_after(lab, b'{"id":"mine","type":null}\n')
    assert (reply["id"], reply["command"], reply["error"]) == ("mine", "parse", _SHAPE)


@pytest.mark.parametrize("depth", [10_000, 100_000])
@pytest.mark.parametrize("where", [b"%b%b", b'{"id":1,"type":"get_state","deep":%b%b}'])
def test_deep_nesting_is_refused(lab: Lab, depth: int, where: bytes) -> None:
    (reply,) = _ask_after(lab, where % (b"[" * depth, b"]" * depth) + b"\n")
    assert (reply["type"], reply["success"]) == ("response", False)
    assert "nested too deeply" in reply["error"] or reply["error"] == _SHAPE


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_deep_nesting_that_never_closes_is_answered(lab: Lab, opening: bytes) -> None:
    (reply,) = _ask_after(lab, opening * 100_000 + b"\n")
    assert (reply["command"], reply["success"]) == ("parse", False)


# ---------------------------------------------------------------- ids


_ODD_IDS = [
    *(b"12345678901234567890", b"1.0", b"1e400", b"-0", b"[1, 2 ]", b'{"a" : null}', b"null"),
    *(b"true", b'""', b'"\\u00e9 \\ud83d\\ude00"'),
]


def test_ids_return_byte_for_byte(lab: Lab) -> None:
    lines = b'{"type":"frobnicate","id":%b}\n{"id": %b ,"type":"get_messages"}\n'
    done = lab.run("--mode", "rpc", stdin=b"".join(lines % (i, i) for i in _ODD_IDS))
    unknown = b'"command":"frobnicate","success":false,"error":"Unknown command: frobnicate"}'
    known = b'"command":"get_messages","success":true,"data":{"messages":[]}}'
    assert done.stdout.splitlines() == [
        b'{"id":%b,"type":"response",%b' % (odd_id, rest)
        for odd_id in _ODD_IDS
        for rest in (unknown, known)
    ]


def test_without_an_id_the_reply_has_none(lab: Lab) -> None:
    (reply,) = _ask_after(lab, b'{"type":"get_messages"}\n')
    assert reply == {
        **{"type": "response", "command": "get_messages", "success": True},
        "data": {"messages": []},
    }


# ---------------------------------------------------------------- wrong parameters


_WRONG = [
    ("prompt", b"", "message"),
    ("prompt", b',"message":5', "message"),
    ("prompt", b',"message":null', "message"),
    ("prompt", b',"message":"x","images":"abc"', "images"),
    ("prompt", b',"message":"x","images":[{"type":"image"}]', "images"),
    ("prompt", b',"message":"x","streamingBehavior":"later"', "streamingBehavior"),
    ("bash", b"", "command"),
    ("bash", b',"command":["ls"]', "command"),
    ("bash", b',"command":"touch ran","excludeFromContext":1', "excludeFromContext"),
]


def test_a_wrong_parameter_is_named_and_nothing_happens(lab: Lab) -> None:
    lines = [
        b'{"id":%d,"type":"%b"%b}\n' % (number, command.encode(), rest)
        for number, (command, rest, _) in enumerate(_WRONG)
    ]
    replies = _ask_after(lab, *lines)
    assert [(reply["id"], reply["success"], reply["error"]) for reply in replies] == [
        (number, False, f'{command}: missing or invalid "{field}"')
        for number, (command, _, field) in enumerate(_WRONG)
    ]
    assert lab.server.requests == []
    assert list(lab.work.iterdir()) == []


def test_of_duplicate_keys_the_last_counts(lab: Lab) -> None:
    (reply,) = _ask_after(lab, b'{"id":1,"type":"get_state","id":2,"type":"nothing"}\n')
    assert (reply["id"], reply["command"]) == (2, "nothing")


# ---------------------------------------------------------------- lines


def test_blank_lines_are_passed_over(lab: Lab) -> None:
    assert _ask_after(lab, b"\n\n\n", b"\r\n\r\n", b"  \n\t\n") == []


def test_crlf_ends_a_line(lab: Lab) -> None:
    (reply,) = _ask_after(lab, b'{"id":1,"type":"get_messages"}\r\n')
    assert (reply["id"], reply["success"]) == (1, True)


def test_a_byte_order_mark_is_accepted(lab: Lab) -> None:
    (reply,) = _ask_after(lab, b'\xef\xbb\xbf{"id":1,"type":"get_messages"}\n')
    assert (reply["id"], reply["command"], reply["success"]) == (1, "get_messages", True)


def test_the_last_line_needs_no_newline(lab: Lab) -> None:
    (reply,) = lab.feed(b'{"id":1,"type":"get_state"}')
    assert (reply["id"], reply["success"]) == (1, True)


def test_only_a_line_feed_ends_a_line(lab: Lab) -> None:
    line = '{"id":"\u2028\u2029\u0085","type":"get_messages"}\n'
    (reply,) = _ask_after(lab, line.encode())
    assert (reply["id"], reply["success"]) == ("\u2028\u2029\u0085", True)


_ODD_TEXTS = [
    (b"a\xff\xfeb", "a\ufffd\ufffdb"),
    (b"\xc3", "\ufffd"),
    (b"\\ud83d\\ude00", "\U0001f600"),
    ("\u2028\u2029\u0085".encode(), "\u2028\u2029\u0085"),
]


async def test_odd_text_is_taken_as_well_as_it_can_be(lab: Lab) -> None:
    async with lab.client() as client:
        for sent, kept in _ODD_TEXTS:
            lab.server.add(answer("Hi."))
            await client.process.write(b'{"id":"p","type":"prompt","message":"%b"}\n' % sent)
            assert (await client.reply_to("p"))["success"]
            end = await client.wait_for("message_end")
            await client.wait_for("agent_settled")
            assert text_of(end["message"]) == kept


async def test_a_lone_surrogate_is_kept_in_the_file_and_never_reaches_the_model(lab: Lab) -> None:
    lab.server.add(answer("Hi."))
    async with lab.client() as client:
        await client.process.write(b'{"id":"p","type":"prompt","message":"a\\ud83db"}\n')
        assert (await client.reply_to("p"))["success"]
        await client.wait_for("agent_settled")
    (path,) = lab.sessions
    assert b'"a\\ud83db"' in path.read_bytes().lower()
    sent = str(lab.server.requests[0].body["messages"])
    assert "'ab'" in sent


# ---------------------------------------------------------------- chunks


def test_commands_may_come_byte_by_byte(lab: Lab) -> None:
    lines = b'{"id":"\xc3\xa9\xf0\x9f\x98\x80","type":"get_messages"}\n' + STATE
    first, second = lab.feed(*(lines[at : at + 1] for at in range(len(lines))))
    assert (first["id"], second["id"]) == ("é😀", "s")


def test_many_commands_may_come_in_one_write(lab: Lab) -> None:
    lines = b"".join(b'{"id":%d,"type":"get_state"}\n' % number for number in range(2000))
    assert [reply["id"] for reply in lab.feed(lines)] == list(range(2000))


@pytest.mark.parametrize("seed", range(3))
def test_however_input_is_cut_each_command_has_one_answer(lab: Lab, seed: int) -> None:
    chance = random.Random(seed)
    lines = [_random_line(chance, number) for number in range(400)]
    told = lab.feed(*_cut(chance, b"".join(lines)))
    assert types(told).count("response parse") == sum(line[:1] == b"!" for line in lines)
    ids = [reply["id"] for reply in told if "id" in reply]
    assert ids == [number for number, line in enumerate(lines) if line[:1] == b"{"]


def _random_line(chance: random.Random, number: int) -> bytes:
    pad = "é\u2028😀x" * chance.randrange(40)
    commands = (
        f'{{"id":{number},"type":"get_state","pad":"{pad}"}}\n',
        f'{{"id":{number},"type":"nothing","pad":"{pad}"}}\r\n',
        f"!{pad}\n",
        "\n",
    )
    return chance.choice(commands).encode()


def _cut(chance: random.Random, data: bytes) -> Iterator[bytes]:
    while data:
        size = chance.choice((1, 2, 3, 7, 50, 1000, 70_000))
        yield data[:size]
        data = data[size:]


# ---------------------------------------------------------------- size


def test_a_line_of_100_megabytes_is_taken_in_linear_time_and_memory(lab: Lab) -> None:
    size = 100_000_000
    with lab.popen() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        write_all(process.stdin, STATE)
        process.stdout.readline()
        before = resident_bytes(process.pid)
        began = time.monotonic()
        write_all(process.stdin, b'{"id":"s","type":"get_state","pad":"' + b"x" * size + b'"}\n')
        reply = process.stdout.readline()
        took = time.monotonic() - began
        write_all(process.stdin, STATE)
        process.stdout.readline()
        growth = resident_bytes(process.pid) - before
        process.stdin.close()
    assert b'"success":true' in reply
    assert took < 15
    assert growth < size
    assert process.returncode == 0


async def test_a_prompt_of_20_megabytes_reaches_the_model(lab: Lab) -> None:
    lab.server.add(answer("Long."))
    text = "0123456789" * 2_000_000
    async with lab.client() as client:
        assert (await client.request("prompt", message=text))["success"]
        await client.wait_for("agent_settled")
    (block,) = lab.server.requests[0].body["messages"][0]["content"]
    assert block["text"] == text


async def test_a_line_over_the_limit_is_dropped_and_the_next_one_works(lab: Lab) -> None:
    block = b"x" * (1 << 20)
    async with lab.client() as client:
        await client.process.write(b'{"id":"big","type":"get_state","pad":"')
        for _ in range(129):
            await client.process.write(block)
        await client.process.write(b'"}\n')
        reply = await client.wait_for("response")
        assert (await client.request("get_state"))["success"]
    assert (reply["command"], reply["success"]) == ("parse", False)
    assert "128 MiB" in reply["error"]


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
