"""Measure the MCP client inside one Python program; run as a separate program."""

import asyncio
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from bench.in_process import rss
from bench.programs import ROOT
from ludolf import create_session
from ludolf.config.settings.home import Home, mcp_files_exist
from ludolf.config.settings.options import Options
from ludolf.sdk import ModelContext

_TIMES = 5
_QUERIES = (
    "create issue",
    "list the branches of a repository",
    "the author labels time change returns repository case",
    "mcp__server__merge_page_14",
    "delete",
    "something else entirely",
)


class _Client:
    """Answers nothing that a server asks."""

    def capabilities(self) -> Mapping[str, Any]:
        return {}

    async def answer(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    def notice(self, method: str, params: Mapping[str, Any]) -> None:
        """Ignore it."""


async def measure(calls: int, folder: Path) -> dict[str, float]:
    async with create_session(model=_model, cwd=folder, store="files", agent_dir=folder) as one:
        await one.prompt("hello")
    memory = await _memory()
    return {
        "mcp.none": 1e3 * _seconds_of_check(folder),
        "mcp.stdio": 1e6 * await _stdio(calls),
        "mcp.http": 1e3 * await _http(calls // 4),
        "mcp.memory": memory,
        **await _search(),
    }


async def _model(context: ModelContext) -> AsyncIterator[str]:
    yield "hello"


def _seconds_of_check(folder: Path) -> float:
    """Return the time to find out that no file of servers exists."""
    home, options = Home(agent=folder, cwd=folder, user=folder), Options(cwd=folder)
    return median(_timed(lambda: mcp_files_exist(home, options)) for _ in range(200))


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# ---------------------------------------------------------------- connections


def _stdio_server() -> Any:
    from ludolf.mcp.wire import StdioServer

    argv = (sys.executable, "-m", "bench.mcp_server", "stdio")
    return StdioServer(argv=argv, env=dict(os.environ), cwd=ROOT)


async def _memory() -> float:
    """Return the MiB of the first connection, with the modules that it needs."""
    gc.collect()
    before = rss()
    from ludolf.mcp.connection import connect

    connection = await connect(_stdio_server(), _Client())
    await connection.list_tools()
    gc.collect()
    grown = rss() - before
    await connection.close()
    return grown


async def _stdio(calls: int) -> float:
    return await _cpu_of_a_call(_stdio_server(), calls)


async def _http(calls: int) -> float:
    from ludolf.mcp.wire import HttpServer

    words = ("-m", "bench.mcp_server", "http")
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, cwd=ROOT, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        server = HttpServer(url=f"http://127.0.0.1:{port}/mcp", headers={}, environ=os.environ)
        return await _cpu_of_a_call(server, calls)
    finally:
        process.kill()
        await process.wait()


async def _cpu_of_a_call(server: Any, calls: int) -> float:
    """Return the CPU seconds of this process for one call; the best of some attempts."""
    from ludolf.mcp.connection import connect

    connection = await connect(server, _Client())
    costs = []
    for _ in range(_TIMES):
        cpu = time.process_time()
        for _ in range(calls):
            await connection.call_tool("echo", {"text": "hello"})
        costs.append((time.process_time() - cpu) / calls)
    await connection.close()
    return min(costs)


# ---------------------------------------------------------------- search


async def _search() -> dict[str, float]:
    from bench.known_servers import definitions
    from ludolf.mcp.catalog import read_tools
    from ludolf.mcp.search import ToolIndex

    tools = read_tools("server", definitions(1000)).tools
    built = []
    for _ in range(_TIMES):
        index = ToolIndex()
        start = time.process_time()
        await index.add(tools)
        built.append(time.process_time() - start)
    worst = max(
        min(_timed(lambda query=query: index.search(query)) for _ in range(20))  # type: ignore[misc]
        for query in _QUERIES
    )
    return {"mcp.index": 1e3 * min(built), "mcp.query": 1e3 * worst}


if __name__ == "__main__":
    figures = asyncio.run(measure(int(sys.argv[1]), Path(sys.argv[2])))
    sys.stdout.write(json.dumps(figures))
