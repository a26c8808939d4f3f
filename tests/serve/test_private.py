"""The server of one terminal ends by how the terminal leaves."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ludolf.agent.scope import Tasks
from ludolf.base.addresses import Address
from ludolf.client import RemoteClient
from ludolf.config.settings.options import Options
from ludolf.serve.lines import UnixDoor
from ludolf.serve.options import PrivateOptions, ServeOptions
from ludolf.serve.private import serve_terminal
from ludolf.serve.server import SessionServer
from tests.process.harness import Lab
from tests.process.script import Gate, answer, say

SECONDS = 30.0


class _Private:
    def __init__(self, server: SessionServer, client: RemoteClient) -> None:
        self.server = server
        self.client = client
        self.ended = asyncio.Event()

    async def hang_up(self) -> None:
        await self.client.aclose()


@asynccontextmanager
async def private(lab: Lab, path: Path, *, aborts: bool = False) -> AsyncIterator[_Private]:
    here, there = socket.socketpair()
    options = PrivateOptions(there.detach(), aborts, 0.01)
    base = Options(cwd=lab.work, environ=lab.env)
    server = SessionServer(
        ServeOptions(options=base, agent_dir=lab.agent, private=options, unload_seconds=0.05)
    )
    door = UnixDoor(server, path)
    await door.open()
    client = RemoteClient(Address("fd", str(here.detach())), patience=0.0, timeout=SECONDS)
    room = _Private(server, client)
    tasks = Tasks()

    async def live() -> None:
        await serve_terminal(server, options)
        room.ended.set()

    tasks.start(live())
    try:
        await client.connect()
        yield room
        async with asyncio.timeout(SECONDS):
            await room.ended.wait()
    finally:
        await client.aclose()
        await tasks.close()
        await door.close()
        await server.tasks.close()


@pytest.mark.parametrize("aborts", [False, True])
async def test_a_hang_up_lets_the_run_end_or_stops_it(
    lab: Lab, tmp_path: Path, aborts: bool
) -> None:
    gate = Gate()
    lab.server.add(answer(say("The ", gate, "whole answer.")))
    async with private(lab, tmp_path / "s", aborts=aborts) as room:
        session = await room.client.open(cwd=lab.work)
        await session.prompt("Hi")
        await asyncio.wait_for(asyncio.to_thread(gate.reached.wait, SECONDS), SECONDS)
        (slot,) = room.server.slots
        file = slot.path
        await room.hang_up()
        if not aborts:
            assert not room.ended.is_set()
            gate.open()
        await asyncio.wait_for(room.ended.wait(), SECONDS)
        gate.open()
    assert file is not None
    assert ("whole answer." in file.read_text()) is not aborts


async def test_another_client_keeps_the_server_of_a_terminal_that_hung_up(
    lab: Lab, tmp_path: Path
) -> None:
    async with private(lab, tmp_path / "s") as room:
        session = await room.client.open(cwd=lab.work)
        async with RemoteClient(f"unix:{tmp_path / 's'}", timeout=SECONDS) as other:
            again = await other.attach(session.id)
            await room.hang_up()
            await again.wait_for("client_left", SECONDS)
            assert (await again.get_state()).session_id == session.id


async def test_after_a_detach_the_server_stays_until_it_was_idle_for_long(
    lab: Lab, tmp_path: Path
) -> None:
    async with private(lab, tmp_path / "s") as room:
        session = await room.client.open(cwd=lab.work)
        await session.detach()
        (connection,) = room.server.connections
        assert connection.has_detached
        await room.hang_up()


async def test_a_terminal_that_quits_ends_the_server(lab: Lab, tmp_path: Path) -> None:
    async with private(lab, tmp_path / "s") as room:
        await room.client.open(cwd=lab.work)
        await room.client.shutdown()
