"""Stages whose engine has MCP servers: their files, their results, and what the model was sent."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ludolf.ai.builtin.scripted import ScriptedReply
from ludolf.base import dumps, loads
from tests import mcp_server
from tests.loop.laws import Record
from tests.loop.stage import WAIT_SECONDS, Stage, call, calls, say, stage, text_of

Entry = dict[str, Any]


def entry(mode: str, number: int = 0, **more: Any) -> Entry:
    """The entry of a test server over pipes."""
    words = ["-I", mcp_server.__file__, mode, str(number)]
    return {"command": sys.executable, "args": words, **more}


def counted(path: Path, mode: str, number: int = 0, **more: Any) -> Entry:
    """An entry whose server appends to a file when it starts, and when its stdin has ended."""
    return entry(mode, number, env={"STARTS": str(path)}, **more)


def starts(path: Path) -> list[int]:
    """The process ids of all starts."""
    return [number for number in _noted(path) if number > 0]


def ends(path: Path) -> list[int]:
    """The process ids of all servers that were asked to end."""
    return [-number for number in _noted(path) if number < 0]


def _noted(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def configure(path: Path, servers: dict[str, Entry]) -> None:
    """Write a file of entries."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(dumps({"mcpServers": servers}))


@asynccontextmanager
async def served(
    root: Path, servers: dict[str, Entry], *replies: ScriptedReply, **about: Any
) -> AsyncIterator[Stage]:
    """A stage whose user has these servers in `mcp.json`, and whose host shows dialogs."""
    configure(root / "agent" / "mcp.json", servers)
    async with stage(root, *replies, **about) as s:
        show_dialogs(s)
        yield s


def show_dialogs(s: Stage) -> None:
    s.engine.send = s.server.ask
    for feature in s.engine.features:
        feature.connect(s.server.ask)


async def known(root: Path, servers: dict[str, Entry]) -> None:
    """Let a first engine learn what the servers offer."""
    async with served(root, servers, say("Known")) as s:
        await s.run("Learn")
        assert {one["state"] for one in await statuses(s)} == {"ready"}


def uses(tool: str, **args: Any) -> ScriptedReply:
    """The model calls one tool."""
    return calls(call(tool, f"c-{tool}", **args))


async def statuses(s: Stage) -> list[Record]:
    servers: list[Record] = (await s.data("get_mcp_servers"))["servers"]
    return servers


async def status(s: Stage, name: str) -> Record:
    (one,) = (server for server in await statuses(s) if server["name"] == name)
    return one


async def until(done: Callable[[], bool]) -> None:
    """Wait for something that has no frame."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not done():  # noqa: ASYNC110  # another process changes it
            await asyncio.sleep(0.002)


async def in_state(s: Stage, name: str, state: str, since: int = 0) -> Record:
    """Wait for the event that shows a server in this state; what the event shows."""

    def fits(frame: Record) -> bool:
        server = frame.get("server") if frame["type"] == "mcp_server" else None
        return server is not None and server["name"] == name and server["state"] == state

    shown: Record = (await s.until(fits, since))["server"]
    return shown


def results(s: Stage) -> list[tuple[str, bool]]:
    """Text and failure of each tool call that ended."""
    ends = s.of_type("tool_execution_end")
    return [(text_of(end["result"]), end["isError"]) for end in ends]


def ended(s: Stage) -> list[Any]:
    """The JSON texts that tools returned."""
    return [loads(text.encode()) for text, _ in results(s)]


def warnings(s: Stage) -> list[str]:
    return [frame["message"] for frame in s.of_type("warning")]


def declared(s: Stage, number: int = -1) -> list[str]:
    """The names of the tools in a request."""
    return [spec.name for spec in s.script.requests[number].tools]
