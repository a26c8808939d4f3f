"""Answers to what hosts ask for most: when is it over, less output, pages, short lines."""

import base64
from typing import Any

import pytest

from ludolf.base import loads
from ludolf.client import Client
from tests.process.harness import Lab, only, text_of, types
from tests.process.script import Failure, Gate, answer, say


async def test_every_accepted_prompt_gets_one_result_under_its_id(lab: Lab) -> None:
    gate = Gate()
    lab.settings(retry={"enabled": False})
    lab.server.add(
        answer(say("First", gate, ".")), answer("Second."), Failure(status=400), answer("Third.")
    )
    async with lab.client() as client:
        await client.ask("set_prompt_results", enabled=True)
        await client.ask("prompt", id="one", message="1")
        await client.wait_for("message_update")
        refused = await client.request("prompt", id="no", message="x")
        await client.ask("prompt", id="two", message="2", streamingBehavior="followUp")
        gate.open()
        told = await client.collect("prompt_result")
        told += await client.collect("prompt_result")
        await client.ask("prompt", id="bad", message="3")
        told += await client.collect("prompt_result")
    results = {item["id"]: item for item in only(told, "prompt_result")}
    assert refused["success"] is False
    assert results.keys() == {"one", "two", "bad"}
    assert results["one"]["status"] == results["two"]["status"] == "completed"
    assert results["one"]["sessionSettled"] is True
    assert results["bad"]["status"] == "error"
    assert results["bad"]["error"]["model"] == "large"


async def test_aborted_and_cleared_prompts_have_their_result_too(lab: Lab) -> None:
    lab.server.add(answer(say("Endless", Gate(), ".")))
    async with lab.client("--rpc-dialect", "omp") as client:
        await client.ask("prompt", id="one", message="1")
        await client.wait_for("message_update")
        await client.ask("prompt", id="two", message="2", streamingBehavior="followUp")
        await client.ask("clear_queue")
        cleared = await client.wait_for("prompt_result")
        await client.ask("abort")
        aborted = await client.wait_for("prompt_result")
    assert (cleared["id"], cleared["status"], cleared["agentInvoked"]) == ("two", "aborted", False)
    assert (aborted["id"], aborted["status"], aborted["agentInvoked"]) == ("one", "aborted", True)


@pytest.mark.parametrize("dialect", ["pi", "pi-delta", "omp"])
async def test_only_the_events_that_were_asked_for_are_told(lab: Lab, dialect: str) -> None:
    lab.server.add(answer("One."), answer("Two."))
    async with lab.client("--rpc-dialect", dialect) as client:
        data = await client.ask("set_event_filter", events=["agent_end"])
        assert data == {"events": ["agent_end"]}
        await client.ask("prompt", message="Go")
        await client.wait_for("agent_end")
        few = types(map(loads, lab.lines))
        assert await client.ask("set_event_filter") == {"events": None}
        await client.ask("prompt", message="Go")
        await client.wait_for("agent_end")
    allowed = {"ready", "available_commands_update", "agent_end", "prompt_result"}
    assert {kind for kind in few if not kind.startswith("response")} <= allowed
    assert "text_delta" in types(map(loads, lab.lines))


@pytest.mark.parametrize("dialect", ["pi", "pi-delta"])
async def test_a_host_can_have_only_changes_of_the_usage(lab: Lab, dialect: str) -> None:
    lab.server.add(*(answer(say("One ", "two ", "three.")) for _ in range(3)))
    async with lab.client("--rpc-dialect", dialect) as client:
        told: list[list[Any]] = []
        for usage in (None, "changes", "all"):
            reply = {"events": None} if usage is None else {"events": None, "usage": usage}
            assert await client.ask("set_event_filter", usage=usage) == reply
            await client.ask("prompt", message="Go")
            told.append(await client.collect("agent_settled"))
        refused = await client.request("set_event_filter", usage="none")
    every, changes, again = ([_usages(item) for item in frames] for frames in told)
    assert "usage" in refused["error"]
    assert every == again
    assert None not in every
    before: Any = None
    for usage, sent in zip(every, changes, strict=True):
        assert sent == (usage if usage != before else None)
        before = usage if usage != "message_start" else None
    assert None in changes


def _usages(frame: dict[str, Any]) -> Any:
    """Return the usage in an update, and the type of other frames."""
    return frame.get("usage") if frame["type"] == "message_update" else frame["type"]


async def test_the_conversation_is_read_in_pages(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer("One."), answer("Two."), answer(say("Three", gate, ".")))
    async with lab.client() as client:
        empty = await client.ask("get_messages_page")
        for text in ("a", "b"):
            await client.prompt_and_collect(text)
        first = await client.ask("get_messages_page", limit=3)
        second = await client.ask("get_messages_page", limit=3, cursor=first["nextCursor"])
        await client.ask("prompt", message="c")
        await client.wait_for("message_update")
        busy = await client.request("get_messages_page")
        gate.open()
        await client.wait_for("agent_settled")
        stale = await client.request("get_messages_page", cursor=first["nextCursor"])
        odd = await client.request("get_messages_page", cursor="?")
        wide = await client.request("get_messages_page", limit=257)
    assert empty == {"messages": [], "totalMessages": 0}
    assert len(first["messages"]) == 3
    assert [text_of(message) for message in second["messages"]] == ["Two."]
    assert "nextCursor" not in second
    assert second["totalMessages"] == 4
    assert (busy["code"], stale["code"]) == ("session_busy", "stale_cursor")
    assert odd["error"] == "Invalid RPC message cursor"
    assert wide["error"] == "RPC message page limit must be between 1 and 256"


async def _long(client: Client) -> Any:
    await client.ask("prompt", message="x" * 1_500_000)
    return await client.wait_for("agent_end")


async def test_long_lines_are_shrunk_or_cut_as_was_agreed(lab: Lab) -> None:
    lab.settings(compaction={"enabled": False})
    lab.server.add(answer("Ok."))
    async with lab.client("--rpc-dialect", "omp") as client:
        refused = await client.request("negotiate_protocol", protocolVersion=3)
        end = await _long(client)
        shrunk = await client.request("get_messages")
        agreed = await client.ask("negotiate_protocol", protocolVersion=2)
        joined = await client.request("get_messages", id="m")
    pieces = only(map(loads, lab.lines), "rpc_chunk")
    assert len(pieces) == pieces[0]["count"]
    assert refused["error"] == "Unsupported RPC protocol version: 3"
    assert max(map(len, lab.lines)) <= 1 << 20
    assert end["messageCount"] == 2
    assert "chars elided for RPC frame" in text_of(end["messages"][0])
    assert shrunk["error"] == "RPC response exceeded the transport limit"
    assert agreed == {"protocolVersion": 2}
    whole = b"".join(base64.b64decode(piece["data"]) for piece in pieces)
    assert len(whole) == pieces[0]["byteLength"]
    reply = loads(whole)
    assert reply == joined
    assert reply["id"] == "m"
    assert len(text_of(reply["data"]["messages"][0])) == 1_500_000


async def test_lines_have_no_limit_where_none_was_agreed(lab: Lab) -> None:
    lab.settings(compaction={"enabled": False})
    lab.server.add(answer("Ok."))
    async with lab.client() as client:
        end = await _long(client)
    assert len(text_of(end["messages"][0])) == 1_500_000
