"""A server that is killed and started again: its clients continue, and nothing is done twice."""

import asyncio

import pytest

from ludolf.client import RemoteClient, RunInterrupted
from tests.process.harness import WAIT_SECONDS, Lab, messages
from tests.process.script import Gate, answer
from tests.process.serving import running_server

PATIENCE = 30.0


async def test_a_killed_server_interrupts_the_run_and_keeps_the_session(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer("One."), answer("Begun ", gate, "never."), answer("Three."))
    with running_server(lab) as server:
        async with RemoteClient(server.address, first_delay=0.01, timeout=PATIENCE) as client:
            session = await client.open(cwd=lab.work)
            assert (await session.prompt_and_wait("one")).text == "One."
            run = asyncio.ensure_future(session.prompt_and_wait("two"))
            await asyncio.to_thread(gate.reached.wait, WAIT_SECONDS)
            server.kill()
            with running_server(lab):
                with pytest.raises(RunInterrupted):
                    await run
                assert session.snapshot.interrupted
                gate.open()
                assert (await session.prompt_and_wait("three")).text == "Three."
    said = [each["role"] for each in messages(lab.entries)]
    assert said == ["user", "assistant", "user", "user", "assistant"]


async def test_a_prompt_to_a_server_that_is_down_is_done_when_it_is_back(lab: Lab) -> None:
    lab.server.add(answer("One."), answer("Two."))
    with running_server(lab) as server:
        async with RemoteClient(server.address, first_delay=0.01, timeout=PATIENCE) as client:
            session = await client.open(cwd=lab.work)
            await session.prompt_and_wait("one")
            boot = client.boot
            server.kill()
            run = asyncio.ensure_future(session.prompt_and_wait("two"))
            await asyncio.sleep(0)
            with running_server(lab):
                assert (await run).text == "Two."
            assert client.boot != boot
    assert len(lab.server.requests) == 2
