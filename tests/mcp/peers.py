"""Servers of others as tests start them, and a client that answers what they ask."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ludolf.mcp.connection import Connection, connect
from ludolf.mcp.wire import METHOD_NOT_FOUND, Era, HttpServer, Json, Refusal, StdioServer

FOLDER = os.environ.get("LUDOLF_TEST_MCP", "")
SDK_SERVER = Path(__file__).with_name("sdk_server.py")
only_if_asked = pytest.mark.skipif(
    not FOLDER, reason="MCP servers of others are tried by `make test-mcp`"
)
PATIENCE_SECONDS = 30.0


class Host:
    """Answers each kind of question in one way, and records notifications."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self.notices: asyncio.Queue[str] = asyncio.Queue()

    def capabilities(self) -> Json:
        return {"roots": {}, "sampling": {}, "elicitation": {"form": {}}}

    async def answer(self, method: str, params: Json) -> Json:
        self.asked.append(method)
        match method:
            case "elicitation/create":
                (name,) = params["requestedSchema"]["properties"]
                return {"action": "accept", "content": {name: "green"}}
            case "sampling/createMessage":
                content = {"type": "text", "text": "marigold"}
                return {"role": "assistant", "model": "test", "content": content}
            case "roots/list":
                return {"roots": [{"uri": self.folder.as_uri(), "name": "work"}]}
        raise Refusal(METHOD_NOT_FOUND, f"unknown: {method}")

    def notice(self, method: str, params: Json) -> None:
        self.notices.put_nowait(method)

    async def wait_for(self, method: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self.notices.get() != method:
                pass


def python_server(*words: str) -> StdioServer:
    """Return a server that the Python of the peers runs."""
    return _program(str(Path(FOLDER, "python", "bin", "python")), "-I", *words)


def node_server(package: str, *words: str) -> StdioServer:
    """Return a reference server from npm."""
    entry = Path(FOLDER, "node_modules", "@modelcontextprotocol", package, "dist", "index.js")
    return _program("node", str(entry), *words)


def _program(*words: str) -> StdioServer:
    return StdioServer(argv=words, env=dict(os.environ), cwd=Path(FOLDER))


@asynccontextmanager
async def sdk_over_http() -> AsyncIterator[HttpServer]:
    """Run the server on the SDK while the block lasts."""
    python = Path(FOLDER, "python", "bin", "python")
    process = await asyncio.create_subprocess_exec(
        str(python), "-I", str(SDK_SERVER), "http", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        yield HttpServer(environ={}, url=f"http://127.0.0.1:{port}/mcp", headers={})
    finally:
        process.kill()
        await process.communicate()


@asynccontextmanager
async def connected(
    server: StdioServer | HttpServer, host: Host, protocol: Era | None = None
) -> AsyncIterator[Connection]:
    """Connect while the block lasts; then nothing of the server is left running."""
    connection = await connect(server, host, protocol=protocol)
    try:
        yield connection
    finally:
        pid = connection.pid
        await connection.close()
        assert pid is None or not Path(f"/proc/{pid}").exists() or sys.platform != "linux"


async def call(connection: Connection, tool: str, **args: Any) -> Mapping[str, Any]:
    return await connection.call_tool(tool, args)


def text_in(result: Mapping[str, Any]) -> str:
    return "\n".join(item["text"] for item in result["content"] if item["type"] == "text")
