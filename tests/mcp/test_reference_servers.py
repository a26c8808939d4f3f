"""Our client with the reference servers of the protocol's own project."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ludolf.mcp.catalog import read_tools
from ludolf.mcp.wire import StdioServer
from tests.loopback import Canned, Loopback
from tests.mcp.peers import (
    Host,
    call,
    connected,
    node_server,
    only_if_asked,
    python_server,
    text_in,
)

pytestmark = [only_if_asked, pytest.mark.timeout(120)]


async def said_by(server: StdioServer, folder: Path, tool: str, args: Mapping[str, Any]) -> str:
    """Return the text of one call; all tools of the server are usable."""
    async with connected(server, Host(folder)) as connection:
        read = read_tools("peer", (await connection.list_tools()).items)
        assert not read.warnings
        assert tool in [each.tool for each in read.tools]
        return text_in(await call(connection, tool, **args))


async def test_everything(tmp_path: Path) -> None:
    text = await said_by(node_server("server-everything"), tmp_path, "echo", {"message": "hi"})
    assert text == "Echo: hi"


async def test_filesystem(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("marigold")
    server = node_server("server-filesystem", str(tmp_path))
    args = {"path": str(tmp_path / "notes.txt")}
    assert await said_by(server, tmp_path, "read_text_file", args) == "marigold"


async def test_memory(tmp_path: Path) -> None:
    server = node_server("server-memory")
    assert '"entities"' in await said_by(server, tmp_path, "read_graph", {})


async def test_git(tmp_path: Path) -> None:
    made = await asyncio.create_subprocess_exec("git", "init", "-q", str(tmp_path))
    assert await made.wait() == 0
    (tmp_path / "new.txt").write_text("x")
    server = python_server("-m", "mcp_server_git", "--repository", str(tmp_path))
    assert "new.txt" in await said_by(server, tmp_path, "git_status", {"repo_path": str(tmp_path)})


async def test_time(tmp_path: Path) -> None:
    server = python_server("-m", "mcp_server_time", "--local-timezone", "UTC")
    text = await said_by(server, tmp_path, "get_current_time", {"timezone": "Europe/Oslo"})
    assert "Europe/Oslo" in text


async def test_fetch(tmp_path: Path) -> None:
    content = b"<html><body><h1>Marigold</h1><p>It grows.</p></body></html>"
    page = Canned(headers={"content-type": "text/html"}, chunks=[content])
    server = python_server("-m", "mcp_server_fetch", "--ignore-robots-txt", "--allow-private-ips")
    with Loopback(page) as web:
        text = await said_by(server, tmp_path, "fetch", {"url": web.url})
    assert "Marigold" in text
