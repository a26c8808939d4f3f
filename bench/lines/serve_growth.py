"""Growth of a server with its sessions and with the clients that have come and gone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from msgspec import structs

from bench.agent import Silent
from bench.lines.serve import running, serving
from bench.programs import Home, Program
from bench.served import LineClient, LudolfServer, MeasuredServer, ServedClient
from bench.stage import Stage

_BATCHES = 11
_OPENED = 20
_SKIPPED = 5
# The server may not have noticed yet that those before them have left: a session has 16 clients.
_AT_ONCE = 4
# After so many, garbage has been collected for the first time, and no further client is remembered.
_WARM = 3000
# A session that was opened is prepared for its first prompt by then.
_PREPARED = 0.4
# The server closes the last connections a moment after the clients.
_LOOKS = 10


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
    """Open sessions alternately in a server with many and in a new one.

    Other load on the machine then affects both. Garbage is collected about every 220 sessions, so
    both sums include a collection.
    """
    home = stage.home(program)
    other = Home(stage.root, structs.replace(program, name=f"{program.name}-new"), home.port)
    old, new = LudolfServer(home), LudolfServer(other)
    async with _prepared(old) as to_old, _prepared(new) as to_new:
        await _open(to_old, stage.size(500, 300) - _SKIPPED - _BATCHES * _OPENED)
        await asyncio.sleep(_PREPARED)
        first, last = -new.cpu(), -old.cpu()
        for _ in range(_BATCHES):
            await _open(to_new, _OPENED)
            await _open(to_old, _OPENED)
        await asyncio.sleep(_PREPARED)
        return (last + old.cpu()) / (first + new.cpu())


@asynccontextmanager
async def _prepared(server: MeasuredServer) -> AsyncIterator[ServedClient]:
    """Start a server, open its first sessions, and end it on exit; yields the client."""
    async with running(server):
        client = await server.connect()
        await client.prompt(await client.open(), "Bench text 5")
        await _open(client, _SKIPPED)
        yield client


async def _open(client: ServedClient, count: int) -> None:
    for _ in range(count):
        await client.open()


async def _connections(stage: Stage, program: Program) -> float:
    async with serving(stage, program) as server:
        client = await server.connect()
        session = await client.open()
        await client.prompt(session, "Bench text 1000")

        numbers = count(1)

        async def come_and_go() -> None:
            guest = await server.connect()
            assert isinstance(guest, LineClient)
            await guest.ask("hello", client=f"guest {next(numbers)}")
            await guest.attach(session)
            await server.disconnect(guest)

        async def all_come_and_go(clients: int) -> None:
            for _ in range(clients // _AT_ONCE):
                await asyncio.gather(*(come_and_go() for _ in range(_AT_ONCE)))
            await client.attach(session)

        await all_come_and_go(_WARM)
        await asyncio.sleep(_PREPARED)
        memory, descriptors = server.memory().rss, server.descriptors()
        await all_come_and_go(stage.size(10_000, 1000))
        for _ in range(_LOOKS):
            if server.descriptors() <= descriptors:
                break
            await asyncio.sleep(_PREPARED)
        else:
            raise Silent(f"{server.descriptors() - descriptors} descriptors are still open")
        return server.memory().rss / memory
