"""Messages, field by field."""

import time
from typing import Any

import pytest

from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import (
    ATTACHED_DOCUMENT,
    ATTACHED_IMAGE,
    IMAGE,
    PIXEL,
    Stage,
    Story,
    ask,
    begin,
    do,
    is_piece,
    is_plain_success,
    tell,
)
from tests.process.harness import only, text_of
from tests.process.script import Failure, Gate, Tokens, answer, bash, call, say, think

TOKENS = Tokens(input=100, output=20, cache_read=50)
CUT = Tokens(output=8_000)  # as much as the model may say
# What messages hold beyond that of the other dialects.
MORE_OF_USER = {"omp": {"attribution"}}
MORE_OF_CALL = {"omp": {"partialArgs", "streamIndex"}}


async def _messages(stage: Stage) -> None:
    stage.lay("work/notes.txt", "a line\n" * 3_000)
    calls = bash("echo out", "c1"), call("read", {"path": "notes.txt"}, "c2")
    first = think("I should look."), "Looking.", *calls, call("read", {"path": "none"}, "c3")
    stage.server.add(answer(*first, tokens=TOKENS), answer("Do", stop="length", tokens=CUT))
    stage.server.add(Failure(status=400), answer(say("Half", Gate())), answer("I see both."))
    async with stage.client() as client:
        await ask(stage, client, "Go", images=[IMAGE])
        await ask(stage, client, "Fail")
        await begin(stage, client, "Wait")
        await client.wait_for(is_piece)
        await do(stage, client, "abort")
        await client.wait_for(stage.end)
        both = [ATTACHED_IMAGE, ATTACHED_DOCUMENT]
        await ask(stage, client, "attached", "And this?", attachments=both)
        if stage.dialect != "pi-early":
            await client.request("get_messages", id="messages")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _messages)


@pytest.fixture(scope="module")
def messages(story: Story) -> list[Any]:
    """All of the conversation."""
    if story.stage.dialect == "pi-early":
        return [one for end in only(story.records, "agent_end") for one in end["messages"]]
    found: list[Any] = story.data("messages")["messages"]
    return found


def _is_now(milliseconds: Any) -> bool:
    return isinstance(milliseconds, int) and abs(time.time() * 1000 - milliseconds) < 600_000


@proves("RPC4-user-01", "RPC4-user-02")
@proves("RPC2-user-01", "RPC2-user-02")
@proves("RPC1-user-01", "RPC1-user-02", "RPC1-user-03")
def test_a_users_message_has_its_fields(story: Story, messages: list[Any]) -> None:
    user = messages[0]
    wanted = {"role", "content", "timestamp"} | MORE_OF_USER.get(story.stage.dialect, set())
    assert user.keys() == wanted
    assert user["role"] == "user"
    assert user["content"] == [{"type": "text", "text": "Go"}, IMAGE]
    assert _is_now(user["timestamp"])


@proves("RPC4-user-03")
@proves("RPC2-user-03", "RPC2-attachment-01")
def test_attachments_are_taken_and_reach_the_model(story: Story, messages: list[Any]) -> None:
    reply = story.reply("attached")
    assert reply["success"] is True
    assert story.stage.dialect != "omp" or is_plain_success(reply)
    last = story.requests[-1].body["messages"][-1]
    assert PIXEL in str(last)
    assert "remember me" in str(last)
    assert messages[-2]["content"][:2] == [{"type": "text", "text": "And this?"}, IMAGE]


@proves("RPC4-assistant-01", "RPC4-assistant-02", "RPC4-assistant-03", "RPC4-assistant-04")
@proves("RPC2-assistant-01")
@proves("RPC1-assistant-01", "RPC1-assistant-02", "RPC1-content-01", "RPC1-content-02")
@proves("RPC1-content-04", "RPC1-content-05")
def test_an_answer_is_made_of_blocks(story: Story, messages: list[Any]) -> None:
    assert messages[1]["role"] == "assistant"
    thought, text, first, *others = messages[1]["content"]
    assert (thought["type"], thought["thinking"]) == ("thinking", "I should look.")
    assert thought["thinkingSignature"]
    assert text == {"type": "text", "text": "Looking."}
    assert [one["type"] for one in others] == ["toolCall"] * 2
    wanted = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "echo out"}}
    assert {key: first[key] for key in wanted} == wanted
    assert first.keys() - wanted == MORE_OF_CALL.get(story.stage.dialect, set())


@proves("RPC4-assistant-05")
@proves("RPC2-assistant-02")
@proves("RPC1-assistant-03")
def test_an_answer_tells_who_gave_it(messages: list[Any]) -> None:
    told = [messages[1][key] for key in ("api", "provider", "model")]
    assert told == ["anthropic-messages", "claude", "large"]


@proves("RPC4-assistant-06", "RPC4-assistant-07")
@proves("RPC2-assistant-03")
@proves("RPC1-assistant-04", "RPC1-usage-01", "RPC1-usage-02")
def test_an_answer_tells_its_tokens_and_their_cost(messages: list[Any]) -> None:
    usage = messages[1]["usage"]
    counts = {"input": 100, "output": 20, "cacheRead": 50, "cacheWrite": 0, "totalTokens": 170}
    assert usage.items() >= counts.items()
    prices = {"input": 100 * 1e-6, "output": 20 * 2e-6, "cacheRead": 50 * 0.5e-6, "cacheWrite": 0}
    assert usage["cost"] == pytest.approx({**prices, "total": sum(prices.values())})


@proves("RPC4-assistant-08", "RPC4-assistant-09")
@proves("RPC2-assistant-04", "RPC2-assistant-05")
@proves("RPC1-assistant-04", "RPC1-assistant-05", "RPC1-assistant-06")
def test_an_answer_tells_why_and_when_it_ended(messages: list[Any]) -> None:
    answers = [one for one in messages if one["role"] == "assistant"]
    reasons = [one["stopReason"] for one in answers]
    assert reasons == ["toolUse", "length", "error", "aborted", "stop"]
    spoilt = [bool(one.get("errorMessage")) for one in answers]
    assert spoilt == [False, False, True, True, False]
    assert all(_is_now(one["timestamp"]) for one in answers)


@proves("RPC4-result-01", "RPC4-result-02")
@proves("RPC2-result-01")
@proves("RPC1-result-01", "RPC1-result-02", "RPC1-result-03", "RPC1-result-04")
def test_a_tools_result_has_its_fields(story: Story, messages: list[Any]) -> None:
    assert [one["role"] for one in messages[2:5]] == ["toolResult"] * 3
    results = {one["toolCallId"]: one for one in messages[2:5]}
    shell, read, failed = (results[name] for name in ("c1", "c2", "c3"))
    told = [(one["toolName"], one["isError"]) for one in (shell, failed)]
    assert told == [("bash", False), ("read", True)]
    assert [one["type"] for one in (*shell["content"], *failed["content"])] == ["text", "text"]
    # The shell of oh-my-pi adds the time that a command took.
    assert text_of(shell) == "out\n" or story.stage.dialect == "omp"
    assert text_of(shell).startswith("out\n")
    assert "truncation" in read["details"]
    assert _is_now(shell["timestamp"])
