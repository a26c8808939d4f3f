"""oh-my-pi: compactions."""

import asyncio

import pytest

from ludolf.client import Client, Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, is_plain_success, tell
from tests.process.harness import only, text_of, types
from tests.process.script import Failure, Gate, Tokens, answer

OVERFLOW = b'{"error":{"type":"x","message":"prompt is too long: 250000 tokens > 200000 maximum"}}'
FULL = Tokens(input=199_500)
RESULT = {"summary", "firstKeptEntryId", "tokensBefore", "details"}


async def _say(client: Client, name: str, text: str = "") -> None:
    await client.request("prompt", id=name, message=text or f"{name} " * 100)
    await client.wait_for("agent_end")


async def _by_command(stage: Stage, client: Client) -> None:
    gate = Gate()
    stage.server.add(answer("One."), answer("Two.", tokens=Tokens(input=5_000)))
    stage.server.add(answer(gate, "What was first."), answer("Three."), answer("And second."))
    await _say(client, "first")
    await _say(client, "second")
    await client.send("compact", id="manual", customInstructions="Focus on colours")
    await asyncio.to_thread(gate.reached.wait, 5)
    await client.request("get_state", id="meanwhile")
    gate.open()
    await client.reply_to("manual")
    await client.request("get_entries", id="entries")
    await _say(client, "third")
    await client.request("compact", id="plain")
    await client.request("get_state", id="compacted")


async def _by_itself(stage: Stage, client: Client) -> None:
    too_long = Failure(status=400, body=OVERFLOW)
    stage.server.add(answer("Four."), too_long, answer("Short."), answer("It fits."))
    await _say(client, "fourth")
    await _say(client, "fifth", "Go on")
    await client.request("set_auto_compaction", id="on", enabled=True)
    stage.server.add(answer("Six.", tokens=FULL), answer("Shorter."))
    await _say(client, "sixth")
    gate = Gate()
    stage.server.add(answer("Seven.", tokens=FULL), answer(gate, "Never."))
    await client.request("prompt", id="seventh", message="seventh " * 100)
    await asyncio.to_thread(gate.reached.wait, 5)
    await client.request("abort")
    await client.wait_for("agent_end")
    await client.request("set_auto_compaction", id="off", enabled=False)
    stage.server.add(answer("Eight.", tokens=FULL))
    await _say(client, "eighth")


async def _compactions(stage: Stage) -> None:
    stage.settings(compaction={"keepRecentTokens": 50, "reserveTokens": 1_000})
    async with stage.client() as client:
        await _by_command(stage, client)
        await _by_itself(stage, client)


@pytest.fixture(scope="module")
def compactions(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _compactions)


def _body(story: Story, number: int) -> str:
    return str(story.requests[number].body["messages"])


@proves("RPC2-compact-01", "RPC2-compact-02", "RPC2-compact-03")
def test_a_summary_stands_for_the_old_messages(compactions: Story) -> None:
    assert "Focus on colours" in _body(compactions, 2)
    assert "What was first." in _body(compactions, 3)
    assert "first first" not in _body(compactions, 3)
    assert "Focus on colours" not in _body(compactions, 4)


@proves("RPC2-compact-04")
def test_the_reply_tells_what_the_compaction_did(compactions: Story) -> None:
    data = compactions.data("manual")
    assert data.keys() == RESULT | {"shortSummary"}
    assert (data["summary"], data["tokensBefore"]) == ("What was first.", 5_020)
    assert isinstance(data["details"], dict)
    entries = {one["id"]: one for one in compactions.data("entries")["entries"]}
    assert "second second" in text_of(entries[data["firstKeptEntryId"]]["message"])
    assert compactions.data("plain")["summary"].startswith("And second.")


@proves("RPC2-compact-05", "RPC2-state-05")
def test_a_compaction_by_command_shows_in_the_state_and_has_no_events(compactions: Story) -> None:
    shown = [compactions.data(name)["isCompacting"] for name in ("meanwhile", "compacted")]
    assert shown == [True, False]
    before = compactions.records[: compactions.records.index(compactions.reply("compacted"))]
    assert not [name for name in types(before) if "compaction" in name]


def _told(run: list[Record]) -> tuple[Record, Record]:
    (start,) = only(run, "auto_compaction_start")
    (end,) = only(run, "auto_compaction_end")
    return start, end


@proves(
    *("RPC2-compaction-01", "RPC2-compaction-02", "RPC2-compaction-04"),
    "RPC2-auto-compaction-01",
)
def test_a_context_that_is_almost_full_is_compacted(compactions: Story) -> None:
    start, end = _told(compactions.run("sixth"))
    assert start["reason"] == "threshold"
    assert end["result"].keys() >= RESULT
    assert end["result"]["tokensBefore"] == 199_520
    assert (end["aborted"], end["willRetry"]) == (False, False)
    assert types(compactions.run("sixth"))[-1] == "agent_end"


@proves("RPC2-compaction-03", "RPC2-compaction-05")
def test_after_an_overflow_the_prompt_is_tried_again(compactions: Story) -> None:
    run = compactions.run("fifth")
    start, end = _told(run)
    assert (start["reason"], end["willRetry"], end["aborted"]) == ("overflow", True, False)
    assert end["result"].keys() >= RESULT
    assert text_of(run[-1]["messages"][-1]) == "It fits."
    assert types(run).count("message_end user") == 1


@proves("RPC2-compaction-06")
def test_a_compaction_that_is_aborted_has_no_result(compactions: Story) -> None:
    _, end = _told(compactions.run("seventh"))
    assert (end["result"], end["aborted"]) == (None, True)


@proves("RPC2-auto-compaction-02", "RPC2-auto-compaction-03")
def test_nothing_is_compacted_when_that_is_switched_off(compactions: Story) -> None:
    assert not only(compactions.run("eighth"), "auto_compaction_start")
    assert is_plain_success(compactions.reply("on"))
    assert is_plain_success(compactions.reply("off"))
