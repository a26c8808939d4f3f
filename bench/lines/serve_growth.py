"""Growth of a server with its sessions and with the clients that have come and gone."""

import asyncio

from bench.agent import Silent
from bench.lines.serve import SETTLED, serving
from bench.programs import Program
from bench.stage import Stage

_OPENED = 20
_SKIPPED = 5
_AT_ONCE = 10


def sessions(stage: Stage, program: Program) -> float:
    """Return the cost of the last sessions of many relative to the first."""
    return asyncio.run(_sessions(stage, program))


def connections(stage: Stage, program: Program) -> float:
    """Return the memory after many clients have come and gone relative to that before.

    Raises:
        Silent: descriptors are still open.
    """
    return asyncio.run(_connections(stage, program))


async def _sessions(stage: Stage, program: Program) -> float:
    async with serving(stage, program) as server:
        client = await server.connect()

        async def cost(count: int) -> float:
            cpu = server.cpu()
            for _ in range(count):
                await client.open()
            await asyncio.sleep(SETTLED)
            return server.cpu() - cpu

        await client.prompt(await client.open(), "Bench text 5")
        await cost(_SKIPPED)
        first = await cost(_OPENED)
        await cost(stage.size(500, 100) - _SKIPPED - 2 * _OPENED)
        return await cost(_OPENED) / first


async def _connections(stage: Stage, program: Program) -> float:
    count = stage.size(10_000, 1000)
    async with serving(stage, program) as server:
        client = await server.connect()
        session = await client.open()
        await client.prompt(session, "Bench text 1000")

        async def come_and_go() -> None:
            guest = await server.connect()
            await guest.attach(session)
            await guest.close()

        async def all_come_and_go(clients: int) -> None:
            for _ in range(clients // _AT_ONCE):
                await asyncio.gather(*(come_and_go() for _ in range(_AT_ONCE)))
            await client.attach(session)

        await all_come_and_go(200)
        await asyncio.sleep(SETTLED)
        memory, descriptors = server.memory().rss, server.descriptors()
        await all_come_and_go(count)
        if server.descriptors() > descriptors:
            raise Silent(f"{server.descriptors() - descriptors} descriptors are still open")
        return server.memory().rss / memory
