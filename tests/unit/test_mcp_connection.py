"""Connections of both eras over pipes: requests, questions of servers, limits and faults."""

import asyncio
import gc
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ludolf.mcp.connection import Connection, ConnectionLimits, connect
from ludolf.mcp.handshake import negotiate
from ludolf.mcp.wire import Era, Json, McpError, Refusal
from ludolf.tools.process_tree import WARDEN
from tests.mcp_server import program

QUICK = ConnectionLimits(first_byte=0.5, silence=0.1, grace=0)


class Host:
    """A client that answers elicitations and keeps notifications."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Json]] = []
        self.notices: list[str] = []
        self.noticed = asyncio.Event()
        # Questions wait for it.
        self.ready = asyncio.Event()
        self.ready.set()

    def capabilities(self) -> Json:
        return {"elicitation": {}, "roots": {}}

    async def answer(self, method: str, params: Json) -> Json:
        self.asked.append((method, params))
        await self.ready.wait()
        if method == "elicitation/create":
            return {"action": "accept", "content": {"colour": "red"}}
        if method == "roots/list":
            return {"roots": []}
        raise Refusal(-32601, f"unknown: {method}")

    def notice(self, method: str, params: Json) -> None:
        self.notices.append(method)
        self.noticed.set()


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    WARDEN.end_all()


@asynccontextmanager
async def connected(
    mode: str, number: int = 0, host: Host | None = None, **options: Any
) -> AsyncIterator[Connection]:
    connection = await connect(program(mode, number), host or Host(), **options)
    try:
        yield connection
    finally:
        await connection.close()


def text_of(result: Json) -> str:
    text: str = result["content"][0]["text"]
    return text


async def seen(connection: Connection) -> list[dict[str, Any]]:
    """All messages that the server has received."""
    messages: list[dict[str, Any]] = json.loads(text_of(await connection.call_tool("seen", {})))
    return messages


@pytest.mark.parametrize(
    ("mode", "protocol", "era"),
    [
        ("plain", None, "legacy"),
        ("plain", "legacy", "legacy"),
        ("modern", None, "modern"),
        ("modern", "modern", "modern"),
        ("both", None, "legacy"),
        ("both", "modern", "modern"),
        ("noise", None, "legacy"),
    ],
)
async def test_a_server_of_either_era_is_used(mode: str, protocol: Era | None, era: Era) -> None:
    async with connected(mode, protocol=protocol) as connection:
        facts = connection.facts
        assert (facts.era, facts.name, facts.server_version) == (era, "test-server", "7")
        assert facts.version == ("2025-11-25" if era == "legacy" else "2026-07-28")
        assert facts.instructions == "Use echo."
        tools = await connection.list_tools()
        assert "echo" in [tool["name"] for tool in tools.items]
        assert tools.cut == ""
        assert text_of(await connection.call_tool("echo", {"text": "hé"})) == "hé"
        assert (await connection.list_prompts()).items[0]["name"] == "greet"
        assert "Greet Ann." in str(await connection.get_prompt("greet", {"who": "Ann"}))
        assert (await connection.list_resources()).items[0]["uri"] == "test://doc"
        assert len((await connection.list_resource_templates()).items) == 1
        assert "contents" in str(await connection.read_resource("test://doc"))
        assert bool(connection.invalid_count) == (mode == "noise")


async def test_the_handshake_of_a_legacy_server_is_complete() -> None:
    async with connected("plain") as connection:
        first, second, *_ = await seen(connection)
        assert first["method"] == "initialize"
        assert first["params"]["capabilities"] == {"elicitation": {}, "roots": {}}
        assert first["params"]["clientInfo"]["name"] == "ludolf"
        assert second["method"] == "notifications/initialized"


@pytest.mark.parametrize(
    ("mode", "protocol", "reason"),
    [
        ("exit", None, "exit code 3: reason: the database is missing"),
        ("unknown_version", None, "unknown protocol version '1999-01-01'"),
        ("mute", None, "did not answer `initialize` within 0.5 s"),
        ("plain", "modern", "refused `server/discover`: Method not found"),
        ("modern", "legacy", "refused `initialize`: Unsupported protocol version"),
    ],
)
async def test_a_server_that_cannot_be_used_is_refused_with_the_reason(
    mode: str, protocol: Era | None, reason: str
) -> None:
    with pytest.raises(McpError, match=reason):
        async with connected(mode, protocol=protocol, limits=QUICK):
            pytest.fail("it is connected")


async def test_a_silent_server_is_asked_in_both_ways_and_a_late_answer_counts() -> None:
    limits = ConnectionLimits(silence=0.0)
    async with connected("plain", limits=limits) as connection:
        assert connection.facts.era == "legacy"
    async with connected("modern", limits=limits) as connection:
        assert connection.facts.era == "modern"


@pytest.mark.parametrize("turns", range(1, 6))
async def test_a_handshake_that_is_cancelled_as_it_fails_reports_nothing(turns: int) -> None:
    reports: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
    gone = asyncio.Event()

    async def ask(method: str, params: Json) -> Json:
        await gone.wait()
        raise McpError("the server is gone")

    work = asyncio.ensure_future(negotiate(ask, {}, protocol=None, silence=20))
    await asyncio.sleep(0)
    gone.set()
    for _turn in range(turns):
        await asyncio.sleep(0)
    work.cancel()
    await asyncio.wait({work})
    if not work.cancelled():
        work.exception()
    del work
    gc.collect()
    assert not reports


async def test_calls_run_at_the_same_time() -> None:
    async with connected("plain") as connection:
        waiting = asyncio.ensure_future(connection.call_tool("wait", {}))
        texts = await asyncio.gather(
            *(connection.call_tool("echo", {"text": str(number)}) for number in range(20))
        )
        assert [text_of(each) for each in texts] == [str(number) for number in range(20)]
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting


@pytest.mark.parametrize("mode", ["plain", "modern"])
@pytest.mark.parametrize("by", ["timeout", "abort"])
async def test_the_server_learns_that_a_call_was_given_up(mode: str, by: str) -> None:
    async with connected(mode) as connection:
        if by == "timeout":
            with pytest.raises(McpError, match=r"did not answer `tools/call` within 0.05 s"):
                await connection.call_tool("wait", {}, timeout=0.05)
        else:
            call = asyncio.ensure_future(connection.call_tool("wait", {}))
            await connection.call_tool("echo", {"text": "x"})
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        messages = await seen(connection)
        number = next(m["id"] for m in messages if m.get("params", {}).get("name") == "wait")
        last = [m for m in messages if m["method"] == "notifications/cancelled"]
        assert [m["params"]["requestId"] for m in last] == [number]


async def test_progress_is_passed_on_and_restarts_the_time_limit() -> None:
    steps: list[str] = []
    async with connected("plain") as connection:
        result = await connection.call_tool(
            "steps",
            {"count": 8, "pause": 0.1},
            timeout=0.6,
            on_progress=lambda progress: steps.append(progress["message"]),
        )
    assert text_of(result) == "done"
    assert steps == [f"step {number}" for number in range(1, 9)]


async def test_progress_does_not_extend_a_call_for_ever() -> None:
    limits = ConnectionLimits(call_total=0.3)
    async with connected("plain", limits=limits) as connection:
        with pytest.raises(McpError, match="did not answer"):
            await connection.call_tool("steps", {"count": 200, "pause": 0.05}, timeout=0.3)


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("elicitation/create", {"action": "accept", "content": {"colour": "red"}}),
        ("roots/list", {"roots": []}),
        ("ping", {}),
        ("tasks/get", {"code": -32601, "message": "unknown: tasks/get"}),
    ],
)
async def test_questions_of_a_legacy_server_are_answered(method: str, answer: Json) -> None:
    async with connected("plain") as connection:
        result = await connection.call_tool("ask", {"method": method})
        assert json.loads(text_of(result)) == answer


async def test_a_call_does_not_time_out_while_its_question_waits_for_the_user() -> None:
    host = Host()
    host.ready.clear()
    async with connected("plain", host=host) as connection:
        asking = asyncio.ensure_future(
            connection.call_tool("ask", {"method": "roots/list"}, timeout=0.4)
        )
        while not host.asked:
            await connection.call_tool("echo", {"text": "x"})
        with pytest.raises(McpError, match="did not answer"):
            await connection.call_tool("wait", {}, timeout=0.5)
        assert not asking.done()
        host.ready.set()
        assert "roots" in text_of(await asking)


async def test_a_result_that_asks_for_input_is_followed_by_the_same_call_with_it() -> None:
    host = Host()
    async with connected("modern", host=host) as connection:
        result = await connection.call_tool("ask", {"method": "elicitation/create"})
        answer, state, second = json.loads(text_of(result))
        assert answer == {"action": "accept", "content": {"colour": "red"}}
        assert state == "opaque"
        calls = [m for m in await seen(connection) if m.get("method") == "tools/call"]
        assert [m["id"] for m in calls][1] == second != calls[0]["id"]
        assert calls[0]["params"]["arguments"] == calls[1]["params"]["arguments"]
        assert host.asked[0][1]["message"] == "Which colour?"


async def test_a_server_that_asks_without_end_is_stopped_after_eight_rounds() -> None:
    class Patient(Host):
        async def answer(self, method: str, params: Json) -> Json:
            self.asked.append((method, params))
            return {}

    host = Patient()
    async with connected("modern", host=host) as connection:
        with pytest.raises(McpError, match="more than 8 times"):
            await connection.call_tool("ask", {"method": "for ever"})
    assert len(host.asked) <= 9


async def test_a_question_that_the_server_cancels_is_dropped() -> None:
    host = Host()
    host.ready.clear()
    async with connected("plain", host=host) as connection:
        await connection.call_tool("recall", {})
        host.ready.set()
        answer = await connection.call_tool("ask", {"method": "roots/list"})
        assert json.loads(text_of(answer)) == {"roots": []}
        assert "recalled" not in [message.get("id") for message in await seen(connection)]


async def test_questions_of_the_wrong_shape_are_refused() -> None:
    async with connected("plain") as connection:
        error = json.loads(text_of(await connection.call_tool("twist", {})))
        assert error == {"code": -32602, "message": "`params` must be an object"}
    async with connected("modern") as connection:
        with pytest.raises(McpError, match="asked for input by a request that is not valid"):
            await connection.call_tool("twist", {})
        with pytest.raises(Refusal, match="unknown: tasks/get"):
            await connection.call_tool("ask", {"method": "tasks/get"})


async def test_answers_of_the_wrong_shape_are_refused_or_left_out() -> None:
    async with connected("mangled") as connection:
        with pytest.raises(McpError, match="list of tools has no array"):
            await connection.list_tools()
        assert (await connection.list_prompts()).items == ({"name": "good"},)
        assert (await connection.list_resource_templates()).items == ()
    with pytest.raises(McpError, match=r"does not speak protocol version 2026-07-28.*2099-01-01"):
        await connect(program("mangled"), Host(), protocol="modern")


async def test_a_flood_of_questions_is_refused_beyond_a_limit() -> None:
    host = Host()
    host.ready.clear()
    async with connected("asks", host=host) as connection:
        while len([m for m in await seen(connection) if "error" in m]) < 68:
            pass
        host.ready.set()
        while len([m for m in await seen(connection) if "result" in m]) < 32:
            pass
        assert len(host.asked) == 32


@pytest.mark.parametrize("mode", ["plain", "modern"])
async def test_a_changed_list_is_reported(mode: str) -> None:
    host = Host()
    async with connected(mode, host=host) as connection:
        await connection.call_tool("grow", {})
        await host.noticed.wait()
        assert "notifications/tools/list_changed" in host.notices
        assert "grown" in [tool["name"] for tool in (await connection.list_tools()).items]


@pytest.mark.parametrize(
    ("mode", "number", "count", "cut"),
    [
        ("paged", 130, 130, ""),
        ("paged", 1_000, 1_000, ""),
        ("paged", 1_050, 1_000, "only the first 1,000 tools were read"),
        ("endless", 0, 100, "only the first 100 pages of tools were read"),
        ("repeating", 0, 2, "the server repeated a page of its list of tools"),
        ("heavy", 0, 7, "the list of tools is larger than 8 MiB"),
    ],
)
async def test_lists_are_read_within_limits(mode: str, number: int, count: int, cut: str) -> None:
    async with connected(mode, number) as connection:
        listing = await connection.list_tools()
    assert (len(listing.items), listing.cut) == (count, cut)


async def test_lists_that_a_server_does_not_declare_are_empty() -> None:
    async with connected("undeclared") as connection:
        assert (await connection.list_prompts()).items == ()
        assert (await connection.list_resources()).items == ()
        assert (await connection.list_resource_templates()).items == ()
        methods = [message["method"] for message in await seen(connection)]
        assert "prompts/list" not in methods


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ("refuse", "refused by the server"),
        ("missing", "Unknown tool: missing"),
        ("deep", "nested too deeply"),
        ("odd", "not an object"),
    ],
)
async def test_a_call_that_fails_has_the_reason(tool: str, reason: str) -> None:
    async with connected("plain") as connection:
        with pytest.raises(McpError, match=reason) as caught:
            await connection.call_tool(tool, {})
        assert isinstance(caught.value, Refusal) == (tool != "odd")
        assert connection.failure is None
        assert text_of(await connection.call_tool("echo", {"text": "x"})) == "x"


async def test_a_server_that_dies_fails_its_calls_and_later_ones() -> None:
    async with connected("plain") as connection:
        waiting = asyncio.ensure_future(connection.call_tool("wait", {}))
        for call in (connection.call_tool("die", {}), waiting, connection.list_tools()):
            with pytest.raises(McpError, match="ended with exit code 9: the end is near"):
                await call
        await connection.closed.wait()
        assert connection.failure == "The server ended with exit code 9: the end is near"


async def test_a_server_that_leaves_after_the_handshake_is_reported() -> None:
    with pytest.raises(McpError, match="ended with exit code 0"):
        async with connected("leave") as connection:
            await connection.closed.wait()
            raise McpError(connection.failure or "")


async def test_a_large_result_arrives_whole() -> None:
    async with connected("plain") as connection:
        assert len(text_of(await connection.call_tool("big", {"size": 3 << 20}))) == 3 << 20


async def test_closing_fails_the_calls_in_progress() -> None:
    async with connected("plain") as connection:
        waiting = asyncio.ensure_future(connection.call_tool("wait", {}))
        await connection.call_tool("echo", {"text": "x"})
    with pytest.raises(McpError, match="was closed"):
        await waiting
    assert connection.closed.is_set()
    assert connection.failure is None
