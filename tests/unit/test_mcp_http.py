"""Servers over HTTP: sessions, streams, retries, logins and faults."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ludolf.mcp import http
from ludolf.mcp.connection import Connection, ConnectionLimits, connect
from ludolf.mcp.paging import Listing
from ludolf.mcp.request_headers import MirroredTools, encode_header
from ludolf.mcp.wire import Era, HttpServer, LoginNeeded, McpError, Refusal
from tests.loopback import nobody
from tests.mcp_server import HttpMcp
from tests.unit.test_mcp_connection import Host, text_of

LIMITS = ConnectionLimits(pauses=(0.0, 0.0))


class Keys:
    """Tokens: each refusal brings the next one, until there is none."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.refusals: list[tuple[str | None, str]] = []

    async def current(self) -> str | None:
        return self.tokens[0] if self.tokens else None

    async def refused(self, token: str | None, challenge: str) -> bool:
        self.refusals.append((token, challenge))
        self.tokens = self.tokens[1:]
        return bool(self.tokens)


@asynccontextmanager
async def reached(
    server: HttpMcp | str, host: Host | None = None, **options: Any
) -> AsyncIterator[Connection]:
    url = server if isinstance(server, str) else server.url
    target = HttpServer(environ={}, url=url, headers={"X-Team": "blue"})
    connection = await connect(target, host or Host(), **{"limits": LIMITS, **options})
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize(
    ("mode", "protocol", "era"),
    [
        ("plain", None, "legacy"),
        ("events", None, "legacy"),
        ("modern", None, "modern"),
        ("strict", "modern", "modern"),
        ("moved", None, "legacy"),
        ("busy", None, "legacy"),
    ],
)
async def test_a_server_of_either_era_is_used(mode: str, protocol: Era | None, era: Era) -> None:
    with HttpMcp(mode) as server:
        async with reached(server, protocol=protocol) as connection:
            assert (connection.facts.era, connection.pid) == (era, None)
            assert "echo" in [tool["name"] for tool in (await connection.list_tools()).items]
            assert "contents" in str(await connection.read_resource("test://doc"))
            if mode != "busy":
                assert text_of(await connection.call_tool("echo", {"text": "hé"})) == "hé"
                with pytest.raises(Refusal, match="refused by the server"):
                    await connection.call_tool("refuse", {})
        assert {headers["x-team"] for _, _, headers, _ in server.requests} == {"blue"}


async def test_a_session_is_named_in_each_request_and_ended() -> None:
    with HttpMcp("plain") as server:
        async with reached(server) as connection:
            await connection.call_tool("echo", {"text": "x"})
            assert await asyncio.to_thread(server.streamed.wait, 10)
        kinds = [kind for kind, _, _, _ in server.requests]
        first, second, *others = [headers for _, _, headers, _ in server.requests]
        assert "mcp-session-id" not in first
        assert all(headers["mcp-session-id"] == "s1" for headers in (second, *others))
        assert {headers["mcp-protocol-version"] for headers in others} == {"2025-11-25"}
        # The stream of the server's messages is opened after the handshake only.
        assert server.methods()[:2] == ["initialize", "notifications/initialized"]
        assert kinds.index("GET") >= 2
        assert kinds[-1] == "DELETE"
        assert not server.sessions


async def test_a_modern_server_gets_headers_and_no_session() -> None:
    with HttpMcp("strict") as server:
        async with reached(server) as connection:
            await connection.list_tools()
            assert text_of(await connection.call_tool("routed", {"region": "north"})) == "north"
        calls = [headers for _, _, headers, m in server.requests if m.get("method") == "tools/call"]
        assert len(calls) == 1
        assert calls[0]["mcp-param-region"] == "north"
        assert not any("mcp-session-id" in headers for _, _, headers, _ in server.requests)
        assert not any(kind in ("GET", "DELETE") for kind, _, _, _ in server.requests)


async def test_a_call_refused_for_its_headers_is_sent_again_after_a_look_at_the_list() -> None:
    with HttpMcp("strict") as server:
        async with reached(server) as connection:
            assert text_of(await connection.call_tool("routed", {"region": "north"})) == "north"
        methods = [name for name in server.methods() if name.startswith("tools/")]
        assert methods == ["tools/call", "tools/list", "tools/call"]


async def test_a_forgotten_session_is_replaced_and_the_call_sent_once_more() -> None:
    with HttpMcp("forgetful") as server:
        async with reached(server) as connection:
            calls = (connection.call_tool("echo", {"text": str(number)}) for number in range(3))
            assert [text_of(each) for each in await asyncio.gather(*calls)] == ["0", "1", "2"]
        assert server.started == 2
        handled = [m for m in server.messages if m.get("method") == "tools/call"]
        assert len(handled) == 3


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("redirect", "redirects to another origin, http://localhost:.* which is not followed"),
        ("old", "status 405.* often ends in /mcp now"),
        ("failing", "status 503: out of order"),
        ("page", "answered `initialize` with text/html, and not with a JSON-RPC answer"),
        ("packed", "answered with the encoding 'gzip'"),
        ("mute", "answered `initialize` with application/json, and not"),
        ("unknown_version", "unknown protocol version '1999-01-01'"),
    ],
)
async def test_a_server_that_cannot_be_used_is_refused_with_the_reason(
    mode: str, reason: str
) -> None:
    with HttpMcp(mode) as server:
        with pytest.raises(McpError, match=reason):
            async with reached(server, tokens=Keys("secret")):
                pytest.fail("it is connected")
        assert {path for _, path, _, _ in server.requests} == {"/mcp"}
        if mode == "failing":
            assert server.methods() == ["initialize"] * 3


async def test_addresses_that_cannot_be_reached_are_named() -> None:
    with nobody() as address, pytest.raises(McpError, match=address):
        async with reached(f"{address}/mcp"):
            pytest.fail("it is connected")
    with pytest.raises(McpError, match="Not a web address: file:///etc"):
        async with reached("file:///etc"):
            pytest.fail("it is connected")


async def test_a_tool_is_not_called_again_after_a_failure() -> None:
    with HttpMcp("busy") as server:
        async with reached(server) as connection:
            with pytest.raises(McpError, match="status 503"):
                await connection.call_tool("echo", {"text": "x"})
        assert server.methods().count("tools/call") == 1
    with HttpMcp("cut") as server:
        async with reached(server) as connection:
            with pytest.raises(McpError, match="was cut"):
                await connection.call_tool("echo", {"text": "x"})
            assert (await connection.list_tools()).items
        assert server.methods().count("tools/call") == 1


@pytest.mark.parametrize("mode", ["locked", "scoped"])
async def test_a_refused_token_is_replaced(mode: str) -> None:
    keys = Keys("old", "good")
    with HttpMcp(mode) as server:
        async with reached(server, tokens=keys) as connection:
            assert text_of(await connection.call_tool("echo", {"text": "x"})) == "x"
        assert [token for token, _ in keys.refusals] == ["old"]
        sent = [headers.get("authorization") for _, _, headers, _ in server.requests]
        assert sent[0] == "Bearer old"
        assert set(sent[1:]) == {"Bearer good"}


@pytest.mark.parametrize("keys", [None, Keys(), Keys("old"), Keys("a", "b", "c", "d")])
async def test_a_server_that_wants_a_login_says_so(keys: Keys | None) -> None:
    with HttpMcp("locked") as server:
        with pytest.raises(LoginNeeded, match="requires a login") as caught:
            async with reached(server, tokens=keys):
                pytest.fail("it is connected")
        assert caught.value.challenge == 'Bearer resource_metadata="https://m"'
        assert set(server.methods()) == {"initialize"}
        assert len(server.requests) <= 3


@pytest.mark.parametrize("mode", ["plain", "modern"])
async def test_the_server_learns_that_a_call_was_given_up(mode: str) -> None:
    with HttpMcp(mode) as server:
        async with reached(server) as connection:
            with pytest.raises(McpError, match="did not answer `tools/call`"):
                await connection.call_tool("wait", {}, timeout=0.1)
            assert await asyncio.to_thread(server.left.wait, 10)
        said = "notifications/cancelled" in server.methods()
        assert said == (mode == "plain")


@pytest.mark.parametrize("mode", ["plain", "modern"])
async def test_questions_and_progress_arrive_within_a_call(mode: str) -> None:
    steps: list[float] = []
    with HttpMcp(mode) as server:
        async with reached(server) as connection:
            answer = await connection.call_tool("ask", {"method": "elicitation/create"})
            assert "red" in text_of(answer)
            await connection.call_tool(
                "steps",
                {"count": 3, "pause": 0},
                on_progress=lambda progress: steps.append(progress["progress"]),
            )
    assert steps == [1, 2, 3]


@pytest.mark.parametrize("mode", ["pushing", "modern"])
async def test_messages_without_a_request_arrive(mode: str) -> None:
    host = Host()
    with HttpMcp(mode) as server:
        async with reached(server, host):
            await host.noticed.wait()
    assert host.notices == ["notifications/tools/list_changed"]


async def test_an_answer_that_is_too_large_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    with HttpMcp("plain") as server:
        async with reached(server) as connection:
            assert len(text_of(await connection.call_tool("big", {"size": 5 << 20}))) == 5 << 20
            monkeypatch.setattr(http, "MAX_RESULT_BYTES", 2_000)
            with pytest.raises(McpError, match="larger than"):
                await connection.list_tools()
            with pytest.raises(McpError, match="larger than"):
                await connection.call_tool("big", {"size": 5 << 20})
            assert text_of(await connection.call_tool("echo", {"text": "x"})) == "x"


async def test_closing_fails_the_calls_in_progress() -> None:
    with HttpMcp("plain") as server:
        async with reached(server) as connection:
            waiting = asyncio.ensure_future(connection.call_tool("wait", {}))
            await connection.call_tool("echo", {"text": "x"})
        with pytest.raises(McpError):
            await waiting


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", "us-west1"),
        ("two words", "two words"),
        ("", ""),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ],
)
def test_values_that_are_not_plain_are_encoded_for_headers(value: str, header: str) -> None:
    assert encode_header(value) == header


def test_arguments_are_mirrored_and_tools_with_wrong_marks_left_out() -> None:
    def tool(name: str, **properties: Any) -> dict[str, Any]:
        return {"name": name, "inputSchema": {"type": "object", "properties": properties}}

    def marked(header: Any, kind: str = "string") -> dict[str, Any]:
        return {"type": kind, "x-mcp-header": header}

    inner = {"type": "object", "properties": {"flag": marked("Flag", "boolean")}}
    listing = Listing(
        items=(
            tool("good", region=marked("Region"), count=marked("Count", "integer"), deep=inner),
            tool("twice", a=marked("Same"), b=marked("same")),
            tool("number", a=marked("A", "number")),
            tool("injected", a=marked("A\r\nX: 1")),
            tool("empty", a=marked("")),
            tool("in_array", a={"type": "array", "items": marked("A")}),
            tool("plain", a={"type": "string"}),
            {"name": "none"},
        )
    )
    tools = MirroredTools()
    kept = tools.learn(listing)
    assert [each["name"] for each in kept.items] == ["good", "plain", "none"]
    assert "twice, number, injected, empty, in_array" in kept.cut
    arguments = {"region": "süd", "count": 7, "deep": {"flag": True}, "other": 1}
    assert tools.headers("tools/call", {"name": "good", "arguments": arguments}) == {
        "Mcp-Param-Region": "=?base64?c8O8ZA==?=",
        "Mcp-Param-Count": "7",
        "Mcp-Param-Flag": "true",
    }
    nothing: dict[str, Any] = {"region": None, "count": 2**60, "deep": []}
    assert tools.headers("tools/call", {"name": "good", "arguments": nothing}) == {}
    assert tools.headers("prompts/get", {"name": "good"}) == {}
