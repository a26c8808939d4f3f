"""Messages, field by field."""

import time
from typing import Any

import pytest

from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import IMAGE, PIXEL, Stage, Story, tell
from tests.process.harness import text_of
from tests.process.script import Failure, Gate, Tokens, answer, bash, say, think

TOKENS = Tokens(input=100, output=20, cache_read=50)
CUT = Tokens(output=8_000)  # as much as the model may say
ATTACHED = {
    **{"id": "img1", "type": "image", "fileName": "photo.png", "mimeType": "image/png"},
    **{"size": 70, "content": PIXEL, "extractedText": None, "preview": None},
}
DOCUMENT = {
    **{"id": "doc1", "type": "document", "fileName": "notes.txt", "mimeType": "text/plain"},
    **{"size": 9, "content": "cmVtZW1iZXI=", "extractedText": "remember me", "preview": None},
}


async def _messages(stage: Stage) -> None:
    gate = Gate()
    first = think("I should look."), "Looking.", bash("echo out")
    stage.server.add(answer(*first, tokens=TOKENS), answer("Do", stop="length", tokens=CUT))
    stage.server.add(Failure(status=400), answer(say("Half", gate)), answer("I see both."))
    async with stage.client() as client:
        await client.prompt_and_collect("Go", images=[IMAGE])
        await client.prompt_and_collect("Fail")
        await client.request("prompt", message="Wait")
        await client.wait_for("message_update")
        await client.request("abort")
        await client.wait_for("agent_settled")
        await client.request("get_messages", id="messages")
        both = [ATTACHED, DOCUMENT]
        await client.request("prompt", id="attached", message="And this?", attachments=both)
        await client.wait_for("agent_settled")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _messages)


@pytest.fixture(scope="module")
def messages(story: Story) -> list[Any]:
    found: list[Any] = story.data("messages")["messages"]
    return found


def _is_now(milliseconds: Any) -> bool:
    return isinstance(milliseconds, int) and abs(time.time() * 1000 - milliseconds) < 600_000


@proves("RPC4-user-01", "RPC4-user-02")
def test_a_users_message_has_its_fields(messages: list[Any]) -> None:
    user = messages[0]
    assert set(user) == {"role", "content", "timestamp"}
    assert user["role"] == "user"
    assert user["content"] == [{"type": "text", "text": "Go"}, IMAGE]
    assert _is_now(user["timestamp"])


@proves("RPC4-user-03")
def test_attachments_reach_the_model(story: Story) -> None:
    assert story.reply("attached")["success"] is True
    last = story.requests[-1].body["messages"][-1]
    assert PIXEL in str(last)
    assert "remember me" in str(last)


@proves("RPC4-assistant-01", "RPC4-assistant-02", "RPC4-assistant-03", "RPC4-assistant-04")
def test_an_answer_has_its_blocks(messages: list[Any]) -> None:
    assert messages[1]["role"] == "assistant"
    thinking, text, call = messages[1]["content"]
    assert (thinking["type"], thinking["thinking"]) == ("thinking", "I should look.")
    assert text == {"type": "text", "text": "Looking."}
    assert call == {
        **{"type": "toolCall", "id": "call_1", "name": "bash"},
        "arguments": {"command": "echo out"},
    }


@proves("RPC4-assistant-05")
def test_an_answer_tells_who_gave_it(messages: list[Any]) -> None:
    told = [messages[1][key] for key in ("api", "provider", "model")]
    assert told == ["anthropic-messages", "claude", "large"]


@proves("RPC4-assistant-06", "RPC4-assistant-07")
def test_an_answer_tells_its_tokens_and_their_cost(messages: list[Any]) -> None:
    usage = messages[1]["usage"]
    counts = {"input": 100, "output": 20, "cacheRead": 50, "cacheWrite": 0}
    assert usage.items() >= counts.items()
    prices = {"input": 100 * 1e-6, "output": 20 * 2e-6, "cacheRead": 50 * 0.5e-6, "cacheWrite": 0}
    assert usage["cost"] == pytest.approx({**prices, "total": sum(prices.values())})


@proves("RPC4-assistant-08", "RPC4-assistant-09")
def test_an_answer_tells_why_and_when_it_ended(messages: list[Any]) -> None:
    answers = [one for one in messages if one["role"] == "assistant"]
    reasons = [one["stopReason"] for one in answers]
    assert reasons == ["toolUse", "length", "error", "aborted"]
    assert all(_is_now(one["timestamp"]) for one in answers)


@proves("RPC4-result-01", "RPC4-result-02")
def test_a_tools_result_has_its_fields(messages: list[Any]) -> None:
    result = messages[2]
    told = [result[key] for key in ("role", "toolCallId", "toolName", "isError")]
    assert told == ["toolResult", "call_1", "bash", False]
    assert result["content"] == [{"type": "text", "text": "out\n"}]
    assert text_of(result) == "out\n"
    assert _is_now(result["timestamp"])
