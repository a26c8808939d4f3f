"""The client itself: what a host is told when things go wrong."""

import asyncio
import signal

import pytest

from ludolf.client import NoAnswer, ProgramEnded, Refused
from tests.process.harness import Lab, types
from tests.process.script import Gate, answer


async def test_a_program_that_cannot_start_is_told_with_its_stderr(lab: Lab) -> None:
    async with lab.client("--frobnicate") as client:
        with pytest.raises(ProgramEnded, match="Unknown option: --frobnicate") as caught:
            await client.request("get_state")
    assert caught.value.code == 1


async def test_a_program_that_dies_ends_the_waiting(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(gate, "Never."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        client.process.send_signal(signal.SIGKILL)
        with pytest.raises(ProgramEnded) as caught:
            await client.wait_for("agent_settled")
        with pytest.raises(ProgramEnded):
            await client.request("get_state")
    assert caught.value.code == -signal.SIGKILL


async def test_what_does_not_come_in_time_is_named_with_what_came_instead(lab: Lab) -> None:
    async with lab.client() as client:
        await client.ask("get_state")
        with pytest.raises(NoAnswer, match=r"No agent_start within 0.05 s; last records: response"):
            await client.wait_for("agent_start", 0.05)
        assert (await client.request("get_state"))["success"]


async def test_a_refused_command_is_an_error_with_its_text(lab: Lab) -> None:
    async with lab.client() as client:
        with pytest.raises(Refused, match='prompt: prompt: missing or invalid "message"'):
            await client.ask("prompt")


async def test_several_waiters_each_get_their_own_reply(lab: Lab) -> None:
    async with lab.client() as client:
        replies = await asyncio.gather(
            client.request("bash", id=1, command="echo one"),
            client.request("get_messages", id=[2]),
            client.request("nothing", id=None),
        )
    assert [reply["id"] for reply in replies] == [1, [2], None]
    assert [reply["success"] for reply in replies] == [True, True, False]


async def test_events_end_with_the_program(lab: Lab) -> None:
    lab.server.add(answer("Hi.", size=100))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
        told = []
        async for event in client.events():
            told.append(event)
            if event["type"] == "agent_settled":
                client.process.end_input()
    assert (types(told)[0], types(told)[-1]) == ("agent_start", "agent_settled")


async def test_leaving_the_block_ends_the_program_also_in_a_run(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(gate, "Never."))
    async with lab.client() as client:
        await client.ask("prompt", message="Go")
    with pytest.raises(ProgramEnded):
        await client.request("get_state")


async def test_a_failing_host_leaves_no_program_behind(lab: Lab) -> None:
    with pytest.raises(ZeroDivisionError):
        async with lab.client() as client:
            await client.ask("get_state")
            raise ZeroDivisionError
    assert await client.process.wait() == -signal.SIGKILL
