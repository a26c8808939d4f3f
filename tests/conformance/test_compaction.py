"""compact, set_auto_compaction, and the events of compactions."""

import asyncio

import pytest

from ludolf.client import Client, Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, is_plain_success, tell
from tests.process.harness import only, text_of, types
from tests.process.script import Failure, Gate, Tokens, answer

OVERFLOW = b'{"error":{"type":"x","message":"prompt is too long: 250000 tokens > 200000 maximum"}}'
QUOTA = b'{"error":{"type":"x","message":"your quota is used up"}}'
FULL = Tokens(input=199_500)
RESULT = {"summary", "firstKeptEntryId", "tokensBefore", "estimatedTokensAfter", "details"}


def _long(name: str) -> str:
    """More than the 50 tokens that a compaction keeps."""
    return f"{name} " * 100


async def _say(client: Client, name: str, text: str = "") -> None:
    await client.request("prompt", id=name, message=text or _long(name))
    await client.wait_for("agent_settled")


async def _by_command(stage: Stage, client: Client) -> None:
    gate = Gate()
    stage.server.add(answer("One."), answer("Two.", tokens=Tokens(input=5_000)))
    stage.server.add(answer(gate, "What was first."), answer("Three."), answer("And second."))
    await _say(client, "first")
    await _say(client, "second")
    await client.request("get_state", id="before")
    await client.send("compact", id="manual", customInstructions="Focus on colours")
    await asyncio.to_thread(gate.reached.wait, 5)
    await client.request("get_state", id="meanwhile")
    gate.open()
    await client.reply_to("manual")
    await client.request("get_entries", id="entries")
    await client.request("get_messages", id="messages")
    await client.request("get_session_stats", id="stats after compaction")
    await _say(client, "third")
    await client.request("get_session_stats", id="stats after an answer")
    await client.request("compact", id="plain")


async def _in_vain(stage: Stage, client: Client) -> None:
    gate = Gate()
    stage.server.add(answer("Four."), Failure(status=400, body=QUOTA), answer(gate, "Late."))
    await _say(client, "fourth")
    await client.request("compact", id="failed")
    await client.send("compact", id="stopped")
    await asyncio.to_thread(gate.reached.wait, 5)
    await client.request("abort")
    await client.reply_to("stopped")


async def _by_itself(stage: Stage, client: Client) -> None:
    too_long = Failure(status=400, body=OVERFLOW)
    stage.server.add(too_long, answer("Short."), answer("It fits."))
    await _say(client, "fifth", "Go on")
    await client.request("set_auto_compaction", id="on", enabled=True)
    stage.server.add(answer("Six.", tokens=FULL), answer("Shorter."))
    await _say(client, "sixth")
    await client.request("set_auto_compaction", id="off", enabled=False)
    stage.server.add(answer("Seven.", tokens=FULL))
    await _say(client, "seventh")


async def _compactions(stage: Stage) -> None:
    stage.settings(compaction={"keepRecentTokens": 50, "reserveTokens": 1_000})
    async with stage.client() as client:
        await _by_command(stage, client)
        await _in_vain(stage, client)
        await _by_itself(stage, client)


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _compactions)


def _end_before(story: Story, command_id: str) -> Record:
    """The end of the compaction that a command was about."""
    place = story.records.index(story.reply(command_id))
    return only(story.records[:place], "compaction_end")[-1]


def _body(story: Story, number: int) -> str:
    return str(story.requests[number].body["messages"])


# ---------------------------------------------------------------- by command


@proves("RPC4-compact-01")
def test_a_summary_stands_for_the_old_messages(story: Story) -> None:
    roles = [message["role"] for message in story.data("messages")["messages"]]
    assert roles == ["compactionSummary", "user", "assistant"]
    assert "What was first." in _body(story, 3)
    assert "second second" in _body(story, 3)
    assert "first first" not in _body(story, 3)


@proves("RPC4-compact-02")
def test_instructions_reach_the_model_that_summarises(story: Story) -> None:
    assert "Focus on colours" in _body(story, 2)
    assert "first first" in _body(story, 2)


@proves("RPC4-compact-03")
def test_instructions_may_be_left_out(story: Story) -> None:
    assert "And second." in story.data("plain")["summary"]
    assert "Focus on colours" not in _body(story, 4)


@proves("RPC4-compact-04", "RPC4-compact-05", "RPC3-responses-05")
def test_the_reply_holds_the_summary_and_the_first_kept_entry(story: Story) -> None:
    data = story.data("manual")
    assert data["summary"] == "What was first."
    entries = {entry["id"]: entry for entry in story.data("entries")["entries"]}
    assert "second second" in text_of(entries[data["firstKeptEntryId"]]["message"])


@proves("RPC4-compact-06", "RPC4-compact-07")
def test_the_reply_tells_the_size_before_and_an_estimate_after(story: Story) -> None:
    data = story.data("manual")
    assert data["tokensBefore"] == 5_020
    characters = len("What was first." + _long("second") + "Two.")
    # A rule of thumb, not the provider's count: some four characters a token.
    assert characters / 6 < data["estimatedTokensAfter"] < characters / 2


@proves("RPC4-compact-08")
def test_the_reply_has_details(story: Story) -> None:
    assert isinstance(story.data("manual")["details"], dict)


@proves("RPC4-state-04")
def test_the_state_shows_a_compaction_while_it_runs(story: Story) -> None:
    shown = [story.data(name)["isCompacting"] for name in ("before", "meanwhile")]
    assert shown == [False, True]


@proves("RPC4-stats-15", "RPC4-stats-16")
def test_the_use_of_the_context_is_unknown_until_the_next_answer(story: Story) -> None:
    unknown = story.data("stats after compaction")["contextUsage"]
    assert (unknown["tokens"], unknown["percent"]) == (None, None)
    assert unknown["contextWindow"] == 200_000
    known = story.data("stats after an answer")["contextUsage"]
    assert known["tokens"] == 120
    assert known["percent"] == pytest.approx(120 / 2_000)


@proves("RPC4-compaction-02", "RPC4-compaction-05", "RPC4-compaction-06")
def test_a_compaction_by_command_is_told_with_its_result(story: Story) -> None:
    end = _end_before(story, "manual")
    assert end["reason"] == "manual"
    assert end["result"] == story.data("manual")
    assert end["result"].keys() >= RESULT
    assert (end["aborted"], end["willRetry"]) == (False, False)
    assert "errorMessage" not in end


@proves("RPC4-compaction-10")
def test_a_compaction_that_fails_says_why(story: Story) -> None:
    reply, end = story.reply("failed"), _end_before(story, "failed")
    assert reply["success"] is False
    assert "your quota is used up" in reply["error"]
    assert "your quota is used up" in end["errorMessage"]
    assert (end["aborted"], end["willRetry"]) == (False, False)
    assert not end.get("result")


@proves("RPC4-compaction-12")
def test_a_compaction_that_fails_has_no_result(story: Story) -> None:
    assert _end_before(story, "failed")["result"] is None


@proves("RPC4-compaction-09")
def test_a_compaction_that_is_stopped_is_told_as_aborted(story: Story) -> None:
    end = _end_before(story, "stopped")
    assert story.reply("stopped")["success"] is False
    assert (end["aborted"], end["willRetry"]) == (True, False)
    assert "errorMessage" not in end
    assert not end.get("result")


@proves("RPC4-compaction-11")
def test_a_compaction_that_is_stopped_has_no_result(story: Story) -> None:
    assert _end_before(story, "stopped")["result"] is None


# ---------------------------------------------------------------- by itself


@proves("RPC4-compaction-01")
def test_every_compaction_has_its_start_and_its_end(story: Story) -> None:
    names = [name for name in types(story.records) if name.startswith("compaction")]
    assert names == ["compaction_start", "compaction_end"] * 6
    starts, ends = only(story.records, "compaction_start"), only(story.records, "compaction_end")
    reasons = ["manual"] * 4 + ["overflow", "threshold"]
    assert [one["reason"] for one in starts] == reasons
    assert [one["reason"] for one in ends] == reasons


@proves("RPC4-compaction-04", "RPC4-compaction-07", "RPC4-compaction-08")
def test_after_an_overflow_the_prompt_is_tried_again(story: Story) -> None:
    run = story.run("fifth")
    (end,) = only(run, "compaction_end")
    assert (end["reason"], end["willRetry"], end["aborted"]) == ("overflow", True, False)
    assert end["result"].keys() >= RESULT
    after = run[run.index(end) :]
    assert types(after)[1] == "agent_start"
    assert text_of(only(after, "message_end")[-1]["message"]) == "It fits."
    assert types(run).count("message_end user") == 1


@proves("RPC4-auto-compaction-01", "RPC4-compaction-03", "RPC4-compaction-06")
def test_a_context_that_is_almost_full_is_compacted(story: Story) -> None:
    run = story.run("sixth")
    (end,) = only(run, "compaction_end")
    assert (end["reason"], end["willRetry"], end["aborted"]) == ("threshold", False, False)
    assert end["result"]["tokensBefore"] == 199_520
    assert types(run).index("agent_end") < run.index(end)


@proves("RPC4-auto-compaction-02")
def test_it_is_not_when_that_is_switched_off(story: Story) -> None:
    assert only(story.run("seventh"), "compaction_start") == []


@proves("RPC4-auto-compaction-03")
def test_switching_is_answered_with_plain_success(story: Story) -> None:
    assert is_plain_success(story.reply("on"))
    assert is_plain_success(story.reply("off"))
