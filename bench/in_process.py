"""Measure many sessions inside one Python program; run as a separate program."""

import asyncio
import gc
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

from ludolf import create_session
from ludolf.sdk import AgentSession, ModelContext

_PAGE = 4096


async def _model(context: ModelContext) -> AsyncIterator[str]:
    for number in range(100):
        yield f"word {number} "


async def measure(count: int, folder: Path) -> dict[str, float]:
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(_session(folder, 0))
        await _use(first)
        opened = [first]
        second, second_rss = await _timed(stack, folder, opened, 1)
        each, each_rss = await _timed(stack, folder, opened, count - 2)
        cpu = time.process_time()
        await asyncio.gather(*map(_use, opened))
        turn = (time.process_time() - cpu) / count
    return {
        "second": 1e3 * second,
        "second.rss": second_rss,
        "fifty": 1e3 * each / (count - 2),
        "fifty.rss": each_rss / (count - 2),
        "fifty.turn": 1e3 * turn,
    }


def _session(folder: Path, number: int) -> AgentSession:
    work = folder / f"work{number}"
    work.mkdir(exist_ok=True)
    return create_session(model=_model, cwd=work, store="files", agent_dir=folder / "agent")


async def _use(session: AgentSession) -> None:
    await session.prompt("hello")


async def _timed(
    stack: AsyncExitStack, folder: Path, opened: list[AgentSession], count: int
) -> tuple[float, float]:
    """Open more sessions; returns the seconds this took and their MiB after one prompt each."""
    gc.collect()
    held, start = rss(), time.perf_counter()
    for _ in range(count):
        opened.append(await stack.enter_async_context(_session(folder, len(opened))))
    seconds = time.perf_counter() - start
    for session in opened[-count:]:
        await _use(session)
    gc.collect()
    return seconds, rss() - held


def rss() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * _PAGE / (1 << 20)


if __name__ == "__main__":
    figures = asyncio.run(measure(int(sys.argv[1]), Path(sys.argv[2])))
    sys.stdout.write(json.dumps(figures))
