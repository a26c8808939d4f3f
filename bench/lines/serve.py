"""A server of many sessions: memory, opening, prompts, fan-out, attaching and loading."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from statistics import median
from typing import Any

from bench.programs import Home, Program
from bench.served import LudolfServer, MeasuredServer, ServedClient
from bench.served_peers import CodexServer, OpencodeServer
from bench.session_files import make_session
from bench.stage import Stage

# Work that follows a reply, such as imports for the first prompt, is done by then.
SETTLED = 1.5
_DELTAS = 1410
_CLIENTS = 8
# An answer of this many deltas has about 18 kB.
_LONG = 2900
_LONG_ANSWERS = 13
_TIMES = 5

_SERVERS: dict[str, Callable[[Home], MeasuredServer]] = {
    "ludolf": LudolfServer,
    "codex": CodexServer,
    "opencode": OpencodeServer,
}
Measure = Callable[[Stage, Program], Coroutine[Any, Any, None]]


def measure(stage: Stage) -> None:
    for program in stage.programs:
        if program.kind in _SERVERS:
            for key, line in _LINES.items():
                stage.attempt(program, key, partial(_run, stage, line))
    for key, line in _OWN_LINES.items():
        stage.attempt(stage.ours, key, partial(_run, stage, line))


def _run(stage: Stage, line: Measure, program: Program) -> None:
    asyncio.run(line(stage, program))


@asynccontextmanager
async def serving(stage: Stage, program: Program) -> AsyncIterator[MeasuredServer]:
    """Start a server and end it on exit."""
    async with running(_SERVERS[program.kind](stage.home(program))) as server:
        yield server


@asynccontextmanager
async def running(server: MeasuredServer) -> AsyncIterator[MeasuredServer]:
    """Start this server and end it on exit."""
    try:
        await server.start()
        yield server
    finally:
        await server.close()


async def _idle(stage: Stage, program: Program) -> None:
    """Memory with idle sessions, and what it costs to open one."""
    async with serving(stage, program) as server:
        await asyncio.sleep(SETTLED)
        stage.put(program, "serve.rss.0", server.memory().rss)
        client = await server.connect()
        opened = 0
        counts = (10, 50) if program.is_other else (10, 50, 500)
        for count in counts:
            cpu, times = server.cpu(), []
            for _ in range(opened, stage.size(count, min(count, 50))):
                start = time.perf_counter()
                await client.open()
                times.append(time.perf_counter() - start)
                opened += 1
            await asyncio.sleep(SETTLED)
            spent = server.cpu() - cpu
            stage.put(program, f"serve.rss.{count}", server.memory().rss)
            if count == 50:
                stage.put(program, "serve.open", 1e3 * median(times))
                stage.put(program, "serve.open.cpu", 1e3 * spent / len(times))


async def _prompts(stage: Stage, program: Program) -> None:
    """A prompt in each of fifty sessions at the same time."""
    count = stage.size(50, 10)
    async with serving(stage, program) as server:
        client = await server.connect()
        await client.prompt(await client.open(), "Bench text 5")
        sessions = [await client.open() for _ in range(count)]
        await asyncio.sleep(SETTLED)
        cpu = server.cpu()
        await asyncio.gather(*(client.prompt(each, "Bench text 5") for each in sessions))
        await asyncio.sleep(0.1)
        stage.put(program, "serve.prompt", 1e3 * (server.cpu() - cpu) / count)
        stage.put(program, "serve.rss.after", server.memory().rss)


async def _deltas(stage: Stage, program: Program) -> None:
    """Cost of an answer for one client, and for each further one."""
    async with serving(stage, program) as server:
        clients = [await server.connect() for _ in range(_CLIENTS)]
        session = await clients[0].open()
        text = f"Bench text {_DELTAS}"
        for _ in range(2):
            await clients[0].prompt(session, text)  # warm
        one = [await _cost(server, clients[:1], session, text) for _ in range(_TIMES)]
        for client in clients[1:]:
            await client.attach(session)
        await _cost(server, clients, session, text)
        all_ = [await _cost(server, clients, session, text) for _ in range(_TIMES)]
        stage.put(program, "serve.deltas", 1e3 * median(one))
        further = (median(all_) - median(one)) / (_CLIENTS - 1)
        if further > 0:
            stage.put(program, "serve.deltas.further", 1e3 * further)
        else:
            stage.note(program, "serve.deltas.further", "less than the answers differ")


async def _paced(stage: Stage, program: Program) -> None:
    """Cost of a delta at 100 a second."""
    count = stage.size(400, 100)
    async with serving(stage, program) as server:
        clients = [await server.connect() for _ in range(_CLIENTS)]
        session = await clients[0].open()
        await clients[0].prompt(session, "Bench text 5")
        await asyncio.sleep(SETTLED)
        text = f"Bench paced {count} 100"
        one = await _cost(server, clients[:1], session, text)
        for client in clients[1:]:
            await client.attach(session)
        all_ = await _cost(server, clients, session, text)
        stage.put(program, "serve.paced.1", 1e6 * one / count)
        stage.put(program, "serve.paced.8", 1e6 * all_ / count)


async def _cost(
    server: MeasuredServer, clients: list[ServedClient], session: str, text: str
) -> float:
    """Return the CPU seconds of a prompt until every client has seen its end."""
    cpu = server.cpu()
    seen = [asyncio.ensure_future(client.next_idle(session)) for client in clients]
    await clients[0].prompt(session, text)
    await asyncio.gather(*seen)
    await asyncio.sleep(0.05)  # pending writes belong to the run
    return server.cpu() - cpu


async def _attach(stage: Stage, program: Program) -> None:
    """Attach to a session with long answers."""
    async with serving(stage, program) as server:
        client = await server.connect()
        session = await client.open()
        for _ in range(stage.size(_LONG_ANSWERS, 3)):
            await client.prompt(session, f"Bench text {_LONG}")
        times = [await _seconds_to_attach(server, session) for _ in range(20)]
        stage.put(program, "serve.attach", 1e3 * median(times))


async def _seconds_to_attach(server: MeasuredServer, session: str, last: int = 100) -> float:
    client = await server.connect()
    start = time.perf_counter()
    await client.attach(session, last)
    seconds = time.perf_counter() - start
    await server.disconnect(client)
    return seconds


async def _large(stage: Stage, program: Program) -> None:
    """Load large sessions, and attach to them."""
    home = stage.home(program)
    for size in (10, 100):
        path = make_session(home, f"served{size}", stage.size(size, size // 10) * 1_000_000)
        loads = []
        for _ in range(stage.size(3, 1)):
            async with serving(stage, program) as server:
                client = await server.connect()
                await client.prompt(await client.open(), "Bench text 5")
                await asyncio.sleep(SETTLED)
                cpu = server.cpu()
                session = await client.open(session=str(path))
                loads.append(server.cpu() - cpu)
                times = [await _seconds_to_attach(server, session, 20) for _ in range(20)]
        path.unlink()
        stage.put(program, f"serve.load.{size}", 1e3 * min(loads))
        stage.put(program, f"serve.attach.{size}", 1e3 * median(times))


_LINES: dict[str, Measure] = {
    "serve.rss.0": _idle,
    "serve.prompt": _prompts,
    "serve.deltas": _deltas,
    "serve.paced.1": _paced,
    "serve.attach": _attach,
}
# Lines that only Ludolf is measured on.
_OWN_LINES: dict[str, Measure] = {"serve.load.10": _large}
