"""The mouth: a host that reads slowly or not at all, a flood of commands, and stray output."""

import asyncio
import io
import threading

import pytest

from ludolf.base import loads
from ludolf.client import Client, Record
from tests.process.harness import (
    WAIT_SECONDS,
    Bell,
    Lab,
    messages,
    only,
    resident_bytes,
    text_of,
    types,
    write_all,
)
from tests.process.script import STRAY, Gate, answer, bash, flood, say

_DELTAS = 20_000
_TEXT = "".join(f"{number:>100}" for number in range(_DELTAS))
_MIB = 1 << 20

pytestmark = pytest.mark.timeout(90)  # much is said here, and the machine may be busy


async def _warm_up(lab: Lab, client: Client) -> int:
    """What the program holds once it has loaded all that an answer needs."""
    lab.server.add(answer("Ready."))
    await client.prompt_and_collect("Are you there?")
    return resident_bytes(client.process.pid)


async def _start_unread(lab: Lab, client: Client) -> Gate:
    """Begin an answer that is larger than all pipes, read its first piece, and then no more."""
    end = Gate()
    lab.server.add(flood(_TEXT, end))
    await client.ask("prompt", message="Go")
    await client.wait_for("message_update")
    return end


def _deltas(told: list[Record]) -> str:
    events = [update["assistantMessageEvent"] for update in only(told, "message_update")]
    return "".join(event["delta"] for event in events if event["type"] == "text_delta")


async def test_a_host_that_does_not_read_holds_the_model_and_loses_nothing(lab: Lab) -> None:
    async with lab.client("--rpc-dialect", "pi-delta") as client:
        before = await _warm_up(lab, client)
        end = await _start_unread(lab, client)
        # The pause reaches through to the server: it cannot send its last event.
        assert not await asyncio.to_thread(end.reached.wait, 1)
        assert resident_bytes(client.process.pid) - before < 32 * _MIB
        end.open()
        told = await client.collect("agent_settled", 2 * WAIT_SECONDS)
        assert resident_bytes(client.process.pid) - before < 32 * _MIB
    assert _deltas(told) == _TEXT
    assert text_of(only(told, "turn_end")[0]["message"]) == _TEXT
    assert text_of(messages(lab.entries)[-1]) == _TEXT


async def test_whole_message_updates_for_a_slow_host_stay_bounded(lab: Lab) -> None:
    text = "x" * 100_000
    async with lab.client() as client:
        before = await _warm_up(lab, client)
        end = Gate()
        lab.server.add(answer(say(text, end), size=100, bulk=True))
        await client.ask("prompt", message="Go")
        await client.wait_for("message_update")
        await asyncio.to_thread(end.reached.wait, 1)
        assert resident_bytes(client.process.pid) - before < 32 * _MIB
        end.open()
        told = await client.collect("agent_settled", 2 * WAIT_SECONDS)
    assert _deltas(told) == text


async def test_abort_works_while_nobody_reads(lab: Lab) -> None:
    async with lab.client("--rpc-dialect", "pi-delta") as client:
        await _start_unread(lab, client)
        (path,) = lab.sessions
        bell = Bell(lab.root / "bell")
        await client.send("abort", id="stop")
        wait = f"until grep -q '\"aborted\"' '{path}'; do sleep 0.01; done; echo > '{bell.path}'"
        await client.send("bash", id="b", command=wait)
        # Nothing has been read since: the program stopped, stored and ran a command all the same.
        assert await asyncio.to_thread(bell.rings)
        assert (await client.reply_to("stop"))["success"]
        assert (await client.reply_to("b"))["data"]["exitCode"] == 0
        told = await client.collect("agent_settled")
    (end,) = only(told, "agent_end")
    last = end["messages"][-1]
    assert last["stopReason"] == "aborted"
    assert _TEXT.startswith(_deltas(told))
    assert text_of(last).startswith(_deltas(told))


def test_a_flood_of_commands_is_answered_also_when_nobody_reads_at_first(lab: Lab) -> None:
    count = 20_000
    with lab.popen() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, io.BufferedReader(process.stdout)  # type: ignore[type-var]
        write_all(stdin, b'{"type":"get_state"}\n')
        stdout.readline()
        before = resident_bytes(process.pid)
        lines = b"".join(b'{"id":%d,"type":"get_state"}\n' % number for number in range(count))
        writer = threading.Thread(target=write_all, args=(stdin, lines))
        writer.start()
        writer.join(1)
        grown = resident_bytes(process.pid) - before
        replies = [loads(stdout.readline()) for _ in range(count)]
        writer.join(WAIT_SECONDS)
        stdin.close()
        assert process.wait(WAIT_SECONDS) == 0
    assert [reply["id"] for reply in replies] == list(range(count))
    assert grown < 64 * _MIB


async def test_what_others_print_never_spoils_a_record(lab: Lab) -> None:
    lab.server.add(answer(bash(STRAY)), answer("Done."))
    async with lab.client() as client:
        await client.prompt_and_collect("Go")
        reply = await client.request("bash", command=STRAY)
        await client.request("get_state")
        assert client.process.stderr.count("STRAY") >= 2
    assert reply["data"]["output"] == "hi\n"
    # Reading them has shown that every line is one whole record.
    assert types(map(loads, lab.lines))[-1] == "response get_state"
