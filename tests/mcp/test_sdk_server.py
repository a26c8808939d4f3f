"""Our client with a server on the official SDK, over both transports and in both eras."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from ludolf.mcp.catalog import read_tools
from ludolf.mcp.connection import Connection
from ludolf.mcp.wire import Era, HttpServer, Json, StdioServer
from tests.mcp.peers import (
    SDK_SERVER,
    Host,
    call,
    connected,
    only_if_asked,
    python_server,
    sdk_over_http,
    text_in,
)

pytestmark = [only_if_asked, pytest.mark.timeout(90)]
ERAS: tuple[Era, ...] = ("legacy", "modern")
VERSIONS = {"legacy": "2025-11-25", "modern": "2026-07-28"}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture(params=["stdio", "http"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[StdioServer | HttpServer]:
    async with AsyncExitStack() as stack:
        if request.param == "stdio":
            yield python_server(str(SDK_SERVER), "stdio")
        else:
            yield await stack.enter_async_context(sdk_over_http())


@pytest.fixture(params=ERAS)
async def peer(
    request: pytest.FixtureRequest, server: StdioServer | HttpServer, host: Host
) -> AsyncIterator[Connection]:
    async with connected(server, host, request.param) as connection:
        assert connection.facts.era == request.param
        assert connection.facts.version == VERSIONS[request.param]
        yield connection


async def test_everything_that_a_server_of_the_sdk_offers_can_be_used(
    peer: Connection, host: Host, tmp_path: Path
) -> None:
    assert (peer.facts.name, peer.facts.instructions) == ("sdk", "Use add.")
    tools = read_tools("sdk", (await peer.list_tools()).items)
    assert not tools.warnings
    assert "mcp__sdk__add" in [tool.name for tool in tools.tools]
    assert (await call(peer, "add", a=2, b=3))["structuredContent"] == {"total": 5}
    failed = await call(peer, "fail")
    assert failed["isError"] is True
    assert "fail" in text_in(failed)
    prompts = [prompt["name"] for prompt in (await peer.list_prompts()).items]
    assert prompts == ["greet"]
    greeting = await peer.get_prompt("greet", {"who": "Ada"})
    assert greeting["messages"][0]["content"]["text"] == "Greet Ada."
    assert [one["uri"] for one in (await peer.list_resources()).items] == ["test://doc"]
    templates = (await peer.list_resource_templates()).items
    assert [one["uriTemplate"] for one in templates] == ["test://{name}/page"]
    assert (await peer.read_resource("test://a/page"))["contents"][0]["text"] == "page of a"


async def test_questions_of_the_server_are_answered_within_a_call(
    peer: Connection, host: Host, tmp_path: Path
) -> None:
    assert text_in(await call(peer, "paint")) == "painted green"
    assert text_in(await call(peer, "write")) == "wrote marigold"
    assert tmp_path.as_uri() in text_in(await call(peer, "folders"))
    assert host.asked == ["elicitation/create", "sampling/createMessage", "roots/list"]


async def test_progress_is_reported_before_the_result(peer: Connection) -> None:
    seen: list[Json] = []
    result = await peer.call_tool("steps", {"count": 3}, on_progress=seen.append)
    assert text_in(result) == "done"
    assert [params["message"] for params in seen] == ["step 1", "step 2", "step 3"]


async def test_a_new_tool_is_announced_and_can_be_called(peer: Connection, host: Host) -> None:
    await call(peer, "grow")
    await host.wait_for("notifications/tools/list_changed")
    assert "grown" in [tool["name"] for tool in (await peer.list_tools()).items]
    assert text_in(await call(peer, "grown")) == "grown"


async def test_without_a_pinned_era_the_first_one_that_works_is_used(
    server: StdioServer | HttpServer, host: Host
) -> None:
    async with connected(server, host) as connection:
        assert connection.facts.era == "legacy"
