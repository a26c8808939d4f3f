"""The typed client lives and dies without leaving anything behind."""

import asyncio
import os
import signal
import sys
from typing import Any

import pytest

from ludolf.client import Client, ClientError, NotStarted, ProgramEnded, TooMuchUnread, sync
from ludolf.client.unread import Unread
from tests.process.harness import WAIT_SECONDS, Bell, Lab, survivors
from tests.process.script import Gate, answer
from tests.process.test_client_typed import typed


async def test_a_program_that_is_not_there_is_told_so(lab: Lab) -> None:
    with pytest.raises(NotStarted, match="Cannot start no-such-program"):
        await typed(lab, program=("no-such-program",)).open()


def test_options_that_nobody_knows_are_refused() -> None:
    wrong: Any = {"colour": "red"}
    with pytest.raises(ClientError, match=r"Unknown option: colour\. Known: cwd, dialect"):
        Client(**wrong)
    with pytest.raises(ClientError, match='Unknown dialect "klingon"'):
        Client(dialect="klingon")  # type: ignore[arg-type]  # likewise


async def test_a_client_that_is_not_open_says_so() -> None:
    with pytest.raises(ClientError, match="not open"):
        await Client().get_state()
    with pytest.raises(ClientError, match="not open"):
        sync.Client().get_state()


@pytest.mark.parametrize("tools", [(), (len,)], ids=["without tools", "with tools"])
async def test_the_death_of_the_program_ends_every_waiting(lab: Lab, tools: Any) -> None:
    gate = Gate()
    lab.server.add(answer(gate, "never"))
    functions = [_echo] if tools else []
    async with typed(lab, tools=functions) as client:
        waiting = [
            asyncio.ensure_future(client.prompt_and_wait("Go")),
            asyncio.ensure_future(client.bash("sleep 60")),
            asyncio.ensure_future(client.reply_to("nobody", None)),
        ]
        assert await asyncio.to_thread(gate.reached.wait, WAIT_SECONDS)
        client.process.send_signal(signal.SIGKILL)
        ends = await asyncio.gather(*waiting, return_exceptions=True)
        gate.open()
    assert [type(end) for end in ends] == [ProgramEnded] * 3
    assert {end.code for end in ends if isinstance(end, ProgramEnded)} == {-signal.SIGKILL}


def _echo(text: str) -> str:
    """Say it again."""
    return text


async def test_nothing_is_left_behind(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(gate, "never"))
    async with typed(lab, tools=[_echo], on_dialog=lambda request: None) as client:
        await client.prompt("Go")
        assert await asyncio.to_thread(gate.reached.wait, WAIT_SECONDS)
        pid = client.process.pid
    gate.open()
    assert survivors([pid]) == []
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_close_that_is_cancelled_still_ends_the_program(lab: Lab) -> None:
    bell = Bell(lab.work / "bell")
    stubborn = "cat >/dev/null; echo >bell; exec sleep 60"
    client = typed(lab, program=("sh", "-c", 'echo \'{"type":"x"}\';' + stubborn))
    await client.open()
    await client.wait_for("x")
    closing = asyncio.ensure_future(client.close())
    assert await asyncio.to_thread(bell.rings)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert survivors([client.process.pid]) == []
    await client.kill()


async def test_what_the_program_leaves_behind_does_not_hold_us(lab: Lab) -> None:
    client = typed(lab, program=("sh", "-c", 'sleep 60 & echo \'{"type":"pid","n":\'$!\'}\'; wait'))
    await client.open()
    left = (await client.wait_for("pid"))["n"]
    async with asyncio.timeout(WAIT_SECONDS):
        assert await client.kill() == -signal.SIGKILL
    os.kill(left, signal.SIGKILL)


def test_events_that_nobody_reads_are_bounded() -> None:
    unread = Unread(full=10, most=20)
    unread.add({"type": "x"}, 9)
    assert not unread.is_full()
    unread.add({"type": "y"}, 5)
    assert unread.is_full()
    unread.check()
    unread.add({"type": "z"}, 6)
    with pytest.raises(TooMuchUnread):
        unread.check()
    assert [unread.take()["type"] for _ in range(3)] == ["x", "y", "z"]
    assert not unread.is_full()


async def test_what_is_no_frame_is_handed_out_and_disturbs_nobody(lab: Lab) -> None:
    chatty = (
        "import sys; print('hello'); print('[1]'); print('{\"type\":\"x\"}', flush=True);"
        "sys.stdin.read()"
    )
    async with typed(lab, program=(sys.executable, "-c", chatty)) as client:
        told = await client.collect("x")
    assert [one.get("line") for one in told] == ["hello", "[1]", None]
