"""compact, set_auto_compaction, and the events of compactions."""

import asyncio

import pytest

from ludolf.client import Client, Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import PI, Stage, Story, ask, is_plain_success, tell
from tests.process.harness import WAIT_SECONDS, only, text_of, types
from tests.process.script import Failure, Gate, Tokens, answer

OVERFLOW = b'{"error":{"type":"x","message":"prompt is too long: 250000 tokens > 200000 maximum"}}'
QUOTA = b'{"error":{"type":"x","message":"your quota is used up"}}'
FULL = Tokens(input=199_500)
RESULT = {"summary", "firstKeptEntryId", "tokensBefore", "details"}
PI_RESULT = RESULT | {"estimatedTokensAfter", "usage"}


def _long(name: str) -> str:
    """More than the 50 tokens that a compaction keeps."""
    return f"{name} " * 100


async def _look_during(client: Client, gate: Gate, name: str) -> None:
    """Ask for the state while the model summarises."""
    await asyncio.to_thread(gate.reached.wait, WAIT_SECONDS)
    await client.request("get_state", id=name)


async def _by_command(stage: Stage, client: Client) -> None:
    gate = Gate()
    stage.server.add(answer("One."), answer("Two.", tokens=Tokens(input=5_000)))
    stage.server.add(answer(gate, "What was first."), answer("Three."), answer("And second."))
    await ask(stage, client, "first", _long("first"))
    await ask(stage, client, "second", _long("second"))
    await client.request("get_state", id="before")
    await client.send("compact", id="manual", customInstructions="Focus on colours")
    await _look_during(client, gate, "meanwhile")
    gate.open()
    await client.reply_to("manual")
    await client.request("get_entries", id="entries")
    await client.request("get_messages", id="messages")
    await client.request("get_session_stats", id="stats after compaction")
    await ask(stage, client, "third", _long("third"))
    await client.request("get_session_stats", id="stats after an answer")
    await client.request("compact", id="plain")
    await client.request("get_state", id="compacted")


async def _in_vain(stage: Stage, client: Client) -> None:
    gate = Gate()
    stage.server.add(answer("Four."), Failure(status=400, body=QUOTA), answer(gate, "Late."))
    await ask(stage, client, "fourth", _long("fourth"))
    await client.request("compact", id="failed")
    await client.send("compact", id="stopped")
    await _look_during(client, gate, "before the abort")
    await client.request("abort")
    await client.reply_to("stopped")


async def _by_itself(stage: Stage, client: Client) -> None:
    too_long, shorter, never = Failure(status=400, body=OVERFLOW), Gate(), Gate()
    stage.server.add(too_long, answer("Short."), answer("It fits."))
    await ask(stage, client, "fifth", "Go on")
    await client.request("set_auto_compaction", id="on", enabled=True)
    stage.server.add(answer("Six.", tokens=FULL), answer(shorter, "Shorter."))
    await client.request("prompt", id="sixth", message=_long("sixth"))
    await _look_during(client, shorter, "meanwhile by itself")
    shorter.open()
    await client.wait_for(stage.end)
    stage.server.add(answer("Seven.", tokens=FULL), answer(never, "Never."))
    await client.request("prompt", id="seventh", message=_long("seventh"))
    await _look_during(client, never, "before the second abort")
    await client.request("abort")
    await client.wait_for(stage.end)
    await client.request("set_auto_compaction", id="off", enabled=False)
    stage.server.add(answer("Eight.", tokens=FULL))
    await ask(stage, client, "eighth", _long("eighth"))


async def _compactions(stage: Stage) -> None:
    stage.settings(compaction={"keepRecentTokens": 50, "reserveTokens": 1_000})
    async with stage.client() as client:
        await _by_command(stage, client)
        await _in_vain(stage, client)
        await _by_itself(stage, client)


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _compactions)


def _events(story: Story, run: list[Record]) -> tuple[Record, Record]:
    """The events of the one compaction of a run."""
    kind = "compaction" if story.stage.dialect in PI else "auto_compaction"
    (start,), (end,) = only(run, f"{kind}_start"), only(run, f"{kind}_end")
    return start, end


def _end_before(story: Story, command_id: str) -> Record:
    """The end of the compaction that a command was about."""
    place = story.records.index(story.reply(command_id))
    return only(story.records[:place], "compaction_end")[-1]


def _body(story: Story, number: int) -> str:
    return str(story.requests[number].body["messages"])


# ---------------------------------------------------------------- by command


@proves("RPC4-compact-01")
@proves("RPC2-compact-01")
@proves("RPC0-command-18")
def test_a_summary_stands_for_the_old_messages(story: Story) -> None:
    roles = [message["role"] for message in story.data("messages")["messages"]]
    assert roles == ["compactionSummary", "user", "assistant"]
    assert "What was first." in _body(story, 3)
    assert "second second" in _body(story, 3)
    assert "first first" not in _body(story, 3)


@proves("RPC4-compact-02", "RPC4-compact-03")
@proves("RPC2-compact-02", "RPC2-compact-03")
@proves("RPC0-command-18")
def test_instructions_reach_the_model_that_summarises_and_may_be_left_out(story: Story) -> None:
    assert "Focus on colours" in _body(story, 2)
    assert "first first" in _body(story, 2)
    assert "Focus on colours" not in _body(story, 4)
    assert "And second." in story.data("plain")["summary"]


@proves("RPC4-compact-04", "RPC4-compact-05", "RPC4-compact-06", "RPC4-compact-08")
@proves("RPC3-responses-05")
@proves("RPC2-compact-04")
@proves("RPC0-command-18")
def test_the_reply_tells_what_the_compaction_did(story: Story) -> None:
    data = story.data("manual")
    in_pi = story.stage.dialect in PI
    assert data.keys() == (PI_RESULT if in_pi else RESULT | {"shortSummary"})
    assert (data["summary"], data["tokensBefore"]) == ("What was first.", 5_020)
    assert isinstance(data["details"], dict)
    entries = {entry["id"]: entry for entry in story.data("entries")["entries"]}
    assert "second second" in text_of(entries[data["firstKeptEntryId"]]["message"])


@proves("RPC4-compact-07")
def test_the_reply_estimates_the_size_after(story: Story) -> None:
    characters = len("What was first." + _long("second") + "Two.")
    # A rule of thumb, not the provider's count: some four characters a token.
    assert characters / 6 < story.data("manual")["estimatedTokensAfter"] < characters / 2


@proves("RPC4-state-04")
@proves("RPC2-state-05")
@proves("RPC0-state-04")
def test_the_state_shows_a_compaction_while_it_runs(story: Story) -> None:
    names = ("before", "meanwhile", "compacted", "meanwhile by itself")
    shown = [story.data(name)["isCompacting"] for name in names]
    assert shown == [False, True, False, True]


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
    assert (end["aborted"], end["willRetry"]) == (False, False)
    assert "errorMessage" not in end


@proves("RPC2-compact-05")
def test_a_compaction_by_command_has_no_events(story: Story) -> None:
    before = story.records[: story.records.index(story.reply("fifth"))]
    assert not [name for name in types(before) if "compaction" in name]


def _has_no_result(story: Story, end: Record) -> bool:
    """Whether the result of a compaction is null; pi-delta leaves it out."""
    return end.get("result") is None and ("result" in end or story.stage.dialect == "pi-delta")


@proves("RPC4-compaction-10")
@proves("RPC4-compaction-12")
def test_a_compaction_that_fails_says_why_and_has_no_result(story: Story) -> None:
    reply, end = story.reply("failed"), _end_before(story, "failed")
    assert reply["success"] is False
    assert "your quota is used up" in reply["error"]
    assert "your quota is used up" in end["errorMessage"]
    assert (end["aborted"], end["willRetry"]) == (False, False)
    assert _has_no_result(story, end)


@proves("RPC4-compaction-09")
@proves("RPC4-compaction-11")
def test_a_command_that_is_stopped_is_told_as_aborted(story: Story) -> None:
    end = _end_before(story, "stopped")
    assert story.reply("stopped")["success"] is False
    assert (end["aborted"], end["willRetry"]) == (True, False)
    assert _has_no_result(story, end)
    assert "errorMessage" not in end


# ---------------------------------------------------------------- by itself


@proves("RPC4-compaction-01")
def test_every_compaction_has_its_start_and_its_end(story: Story) -> None:
    names = [name for name in types(story.records) if name.startswith("compaction")]
    assert names == ["compaction_start", "compaction_end"] * 7
    starts, ends = only(story.records, "compaction_start"), only(story.records, "compaction_end")
    reasons = ["manual"] * 4 + ["overflow", "threshold", "threshold"]
    assert [one["reason"] for one in starts] == reasons
    assert [one["reason"] for one in ends] == reasons


@proves("RPC4-compaction-04", "RPC4-compaction-07", "RPC4-compaction-08")
@proves("RPC2-compaction-03", "RPC2-compaction-05")
def test_after_an_overflow_the_prompt_is_tried_again(story: Story) -> None:
    run = story.run("fifth")
    start, end = _events(story, run)
    assert (start["reason"], end["willRetry"], end["aborted"]) == ("overflow", True, False)
    assert end["result"].keys() >= RESULT
    after = run[run.index(end) :]
    assert types(after)[1] == "agent_start"
    assert text_of(only(after, "message_end")[-1]["message"]) == "It fits."
    assert types(run).count("message_end user") == 1


@proves("RPC4-auto-compaction-01", "RPC4-compaction-03", "RPC4-compaction-06")
@proves("RPC2-auto-compaction-01", "RPC2-compaction-01", "RPC2-compaction-02", "RPC2-compaction-04")
@proves("RPC0-event-06")
def test_a_context_that_is_almost_full_is_compacted(story: Story) -> None:
    run = story.run("sixth")
    start, end = _events(story, run)
    assert (start["reason"], end["willRetry"], end["aborted"]) == ("threshold", False, False)
    assert end["result"].keys() >= RESULT
    assert (end["result"]["summary"][:8], end["result"]["tokensBefore"]) == ("Shorter.", 199_520)
    places = [types(run).index(one["type"]) for one in (start, end)]
    after = ["agent_settled"] if story.stage.dialect in PI else ["agent_end"]
    assert types(run)[places[1] + 1 :] == after
    assert ("agent_end" in types(run)[: places[0]]) is (story.stage.dialect in PI)


@proves("RPC4-compaction-09")
@proves("RPC4-compaction-11")
@proves("RPC2-compaction-06")
def test_a_compaction_that_is_aborted_has_no_result(story: Story) -> None:
    _, end = _events(story, story.run("seventh"))
    assert (end["aborted"], end["willRetry"]) == (True, False)
    assert _has_no_result(story, end)


@proves("RPC4-auto-compaction-02", "RPC4-auto-compaction-03")
@proves("RPC2-auto-compaction-02", "RPC2-auto-compaction-03")
@proves("RPC0-command-19")
def test_nothing_is_compacted_when_that_is_switched_off(story: Story) -> None:
    assert not [name for name in types(story.run("eighth")) if "compaction" in name]
    assert is_plain_success(story.reply("on"))
    assert is_plain_success(story.reply("off"))
