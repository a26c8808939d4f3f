"""Early pi: compaction by command and by itself."""

import pytest

from ludolf.client import Client, Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, tell
from tests.process.harness import only, types
from tests.process.script import Tokens, answer

RESERVE = 16_384
WINDOW = 200_000


async def _say(stage: Stage, client: Client, text: str, tokens: int = 100) -> None:
    stage.server.add(answer(f"That was {text}.", tokens=Tokens(input=tokens)))
    await client.send("prompt", message=f"{text} " * 80)
    await client.wait_for("agent_end")


async def _compactions(stage: Stage) -> None:
    stage.settings(compaction={"keepRecentTokens": 50})
    async with stage.client() as client:
        await _say(stage, client, "first")
        await _say(stage, client, "second", 5_000)
        stage.server.add(answer("What was first."))
        await client.send("compact", customInstructions="Focus on colours")
        await client.wait_for("compaction")
        await _say(stage, client, "third")
        stage.server.add(answer("And more."))
        await client.send("compact")
        await client.wait_for("compaction")
        # Between the documented reserve and the measured one nothing happens.
        await _say(stage, client, "fourth", WINDOW - 18_000)
        await _almost_full(stage, client)


async def _almost_full(stage: Stage, client: Client) -> None:
    full = Tokens(input=WINDOW - RESERVE + 1)
    stage.server.add(answer("That was fifth.", tokens=full), answer("By itself."))
    await client.send("prompt", message="fifth " * 80)
    await client.wait_for("compaction")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _compactions)


def _told(story: Story) -> list[Record]:
    return only(story.records, "compaction")


@proves("RPC1-compact-01", "RPC1-compaction-01", "RPC1-compaction-03")
def test_a_summary_takes_the_place_of_the_old_messages(story: Story) -> None:
    assert _told(story)[0]["summary"] == "What was first."
    after = str(story.requests[3].body["messages"])
    assert "What was first." in after
    assert "first first" not in after


@proves("RPC1-compact-02", "RPC1-compact-03")
def test_instructions_reach_the_model_and_may_be_left_out(story: Story) -> None:
    bodies = [str(story.requests[number].body) for number in (2, 4)]
    assert ["Focus on colours" in body for body in bodies] == [True, False]
    assert _told(story)[1]["summary"] == "And more."


@proves("RPC1-compaction-04", "RPC1-compaction-06")
def test_a_compaction_by_command_tells_the_size_before(story: Story) -> None:
    first = _told(story)[0]
    assert first["tokensBefore"] == 5_020
    wanted = {"type", "timestamp", "summary", "firstKeptEntryIndex", "tokensBefore"}
    assert first.keys() == wanted


@proves("RPC1-compaction-02", "RPC1-compaction-05")
def test_a_compaction_by_itself_is_marked_and_comes_behind_the_end(story: Story) -> None:
    (auto,) = [one for one in _told(story) if "auto" in one]
    assert (auto["auto"], auto["summary"]) == (True, "By itself.")
    assert types(story.records)[-2:] == ["agent_end", "compaction"]
    assert story.records[-1] == auto


@proves("RPC1-compaction-07", "RPC1-compaction-08")
def test_it_happens_once_less_than_the_reserve_is_left(story: Story) -> None:
    sizes = [
        one["messages"][-1]["usage"]["totalTokens"] for one in only(story.records, "agent_end")
    ]
    assert sizes[3] < WINDOW - RESERVE < sizes[4]
    assert sizes[3] > WINDOW - 20_000
    assert len(_told(story)) == 3
