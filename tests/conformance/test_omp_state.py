"""oh-my-pi: state, models, levels, statistics, and messages field by field."""

import time
from typing import Any

import pytest

from ludolf.base import dumps, loads
from ludolf.client import Client
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import (
    IMAGE,
    PIXEL,
    Stage,
    Story,
    is_piece,
    is_plain_success,
    tell,
)
from tests.process.harness import only, text_of
from tests.process.script import Failure, Gate, Tokens, answer, bash, say, think

TOKENS = Tokens(input=100, output=20, cache_read=50)
LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh")
MODEL = {
    *("id", "name", "api", "provider", "baseUrl", "reasoning", "input"),
    *("contextWindow", "maxTokens", "cost"),
}
ATTACHED = {
    **{"id": "img1", "type": "image", "fileName": "dot.png", "mimeType": "image/png"},
    **{"size": 70, "content": PIXEL, "extractedText": None, "preview": None},
}


async def _work(stage: Stage, client: Client) -> None:
    gate = Gate()
    first = think("I should look."), "Looking.", bash("echo out")
    stage.server.add(answer(say("Half", gate)), answer(*first, tokens=TOKENS))
    stage.server.add(answer("Do", stop="length", tokens=Tokens(output=8_000)), Failure(status=400))
    await client.request("prompt", id="stopped", message="Wait")
    await client.wait_for(is_piece)
    await client.request("get_state", id="busy")
    await client.request("abort")
    await client.wait_for("agent_end")
    for text in ("Go", "Fail"):
        await client.request("prompt", id=text, message=text, images=[IMAGE])
        await client.wait_for("agent_end")
    stage.server.add(answer("Ready."))
    await client.request("prompt", id="attached", message="And this?", attachments=[ATTACHED])
    await client.wait_for("agent_end")


async def _settings(client: Client) -> None:
    await client.request("set_session_name", id="name", name="my-session")
    await client.request("set_session_name", id="no name", name="")
    await client.request("set_auto_compaction", enabled=False)
    await client.request("set_steering_mode", mode="all")
    await client.request("get_state", id="old")
    await client.request("get_messages", id="messages")
    await client.request("get_last_assistant_text", id="text")
    await client.request("get_session_stats", id="stats")
    await client.request("get_available_models", id="models")
    for level in LEVELS:
        await client.request("set_thinking_level", id=f"level {level}", level=level)
        await client.request("get_state", id=f"at {level}")
    await client.request("cycle_thinking_level", id="cycle level")
    await client.request("cycle_model", id="cycle")
    await client.request("get_state", id="cycled")
    await client.request("set_model", id="set", provider="plain", modelId="dull")
    await client.request("cycle_thinking_level", id="no levels")


async def _states(stage: Stage) -> None:
    listed = loads(stage.models_file.read_bytes())["providers"]["claude"]
    plain = {**listed, "models": [{"id": "dull", "reasoning": False}]}
    stage.keep_providers("claude", "chat")
    stage.models_file.write_bytes(_with_provider(stage, "plain", plain))
    async with stage.client("--thinking", "low") as client:
        await client.request("get_state", id="new")
        await client.request("get_messages", id="no messages")
        await client.request("get_last_assistant_text", id="no text")
        await _work(stage, client)
        await _settings(client)


def _with_provider(stage: Stage, name: str, provider: Any) -> bytes:
    listed = loads(stage.models_file.read_bytes())
    listed["providers"][name] = provider
    return dumps(listed)


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _states)


@pytest.fixture(scope="module")
def messages(story: Story) -> list[Any]:
    found: list[Any] = story.data("messages")["messages"]
    return found


def _is_now(milliseconds: Any) -> bool:
    return isinstance(milliseconds, int) and abs(time.time() * 1000 - milliseconds) < 600_000


# ---------------------------------------------------------------- state


@proves("RPC2-state-01", "RPC2-state-03", "RPC2-model-01", "RPC2-model-02")
def test_the_whole_model_and_its_level_are_told(story: Story) -> None:
    state = story.data("new")
    assert state["model"].keys() >= MODEL
    assert state["model"]["cost"].keys() >= {"input", "output", "cacheRead", "cacheWrite"}
    assert (state["model"]["provider"], state["model"]["id"]) == ("claude", "large")
    assert state["thinkingLevel"] == "low"


@proves("RPC2-state-02")
async def test_without_a_model_it_is_null(stage: Stage) -> None:
    stage.keep_providers()
    async with stage.client(LUDOLF_OFFLINE_MODEL="0") as client:
        assert (await client.ask("get_state"))["model"] is None


@proves("RPC2-state-04", "RPC2-state-11")
def test_work_and_messages_are_told(story: Story) -> None:
    told = [story.data(name) for name in ("new", "busy", "old")]
    assert [one["isStreaming"] for one in told] == [False, True, False]
    assert [one["isCompacting"] for one in told] == [False, False, False]
    assert [one["messageCount"] for one in told][:2] == [0, 1]
    assert told[2]["messageCount"] == len(story.data("messages")["messages"])


@proves("RPC2-state-06", "RPC2-state-10")
def test_modes_and_switches_are_told(story: Story) -> None:
    new, old = story.data("new"), story.data("old")
    assert (new["steeringMode"], old["steeringMode"]) == ("one-at-a-time", "all")
    assert new["followUpMode"] == "one-at-a-time"
    assert (new["autoCompactionEnabled"], old["autoCompactionEnabled"]) == (True, False)


@proves("RPC2-state-08", "RPC2-state-09", "RPC2-session-name-01", "RPC2-stats-01")
def test_the_session_and_its_name_are_told(story: Story) -> None:
    (path,) = story.stage.sessions
    header = loads(path.read_bytes().splitlines()[0])
    for name in ("new", "old", "stats"):
        told = story.data(name)
        assert (told["sessionFile"], told["sessionId"]) == (str(path), header["id"])
    assert "sessionName" not in story.data("new")
    assert story.data("old")["sessionName"] == "my-session"


@proves("RPC2-session-name-02", "RPC2-session-name-03")
def test_naming_is_plain_and_an_empty_name_refused(story: Story) -> None:
    assert is_plain_success(story.reply("name"))
    assert story.reply("no name")["error"] == "Session name cannot be empty"


@proves("RPC2-messages-01", "RPC2-messages-02")
def test_all_messages_are_given(story: Story, messages: list[Any]) -> None:
    assert story.data("no messages") == {"messages": []}
    assert [one["role"] for one in messages] == [
        *("user", "assistant", "user", "assistant", "toolResult", "assistant"),
        *("user", "assistant", "user", "assistant"),
    ]
    ends = [one["message"] for one in only(story.records, "message_end")]
    assert [one["timestamp"] for one in messages] == [one["timestamp"] for one in ends]


@proves("RPC2-last-text-01", "RPC2-last-text-02")
def test_the_text_of_the_last_answer_is_given(story: Story) -> None:
    assert story.data("text") == {"text": "Ready."}
    assert story.data("no text") == {"text": None}


@proves("RPC2-stats-02", "RPC2-stats-03", "RPC2-stats-04")
def test_messages_and_calls_are_counted(story: Story) -> None:
    stats = story.data("stats")
    counted = ("userMessages", "assistantMessages", "toolCalls", "toolResults", "totalMessages")
    assert [stats[name] for name in counted] == [4, 5, 1, 1, 10]


@proves("RPC2-stats-05", "RPC2-stats-06")
def test_tokens_and_cost_are_summed_up(story: Story, messages: list[Any]) -> None:
    stats = story.data("stats")
    spent = [one["usage"] for one in messages if one["role"] == "assistant"]
    for name in ("input", "output", "cacheRead", "cacheWrite"):
        assert stats["tokens"][name] == sum(one[name] for one in spent)
    parts = ("input", "output", "cacheRead", "cacheWrite")
    assert stats["tokens"]["total"] == sum(stats["tokens"][name] for name in parts)
    assert stats["cost"] == pytest.approx(sum(one["cost"]["total"] for one in spent))


# ---------------------------------------------------------------- models and levels


@proves("RPC2-models-01", "RPC2-models-02")
def test_all_configured_models_are_listed_whole(story: Story) -> None:
    listed = story.data("models")["models"]
    assert {one["provider"] for one in listed} == {"claude", "chat", "plain"}
    assert all(one.keys() >= MODEL for one in listed)


@proves("RPC2-set-model-01", "RPC2-set-model-02")
def test_another_model_is_set(story: Story) -> None:
    data = story.data("set")
    assert (data["provider"], data["id"]) == ("plain", "dull")
    assert data.keys() >= MODEL


@proves("RPC2-cycle-model-01", "RPC2-cycle-model-03")
def test_the_next_model_is_taken(story: Story) -> None:
    data = story.data("cycle")
    assert data.keys() == {"model", "thinkingLevel", "isScoped"}
    assert data["model"].keys() >= MODEL
    cycled = story.data("cycled")
    assert cycled["model"]["provider"] == data["model"]["provider"] != "claude"
    assert (data["thinkingLevel"], data["isScoped"]) == (cycled["thinkingLevel"], False)


@proves("RPC2-cycle-model-02")
async def test_with_one_model_there_is_no_next(stage: Stage) -> None:
    stage.keep_providers("claude")
    async with stage.client() as client:
        reply = await client.request("cycle_model")
    assert (reply["success"], reply["data"]) == (True, None)


@proves("RPC2-thinking-01", "RPC2-thinking-02", "RPC2-thinking-03", "RPC2-thinking-04")
def test_levels_are_set_as_far_as_the_model_has_them(story: Story) -> None:
    assert all(is_plain_success(story.reply(f"level {level}")) for level in LEVELS)
    held = [story.data(f"at {level}")["thinkingLevel"] for level in LEVELS]
    assert held == ["off", "minimal", "low", "medium", "high", "high"]


@proves("RPC2-cycle-thinking-01", "RPC2-cycle-thinking-02", "RPC2-cycle-thinking-03")
def test_levels_are_gone_through_where_there_are_any(story: Story) -> None:
    assert story.data("cycle level") == {"level": "off"}
    assert story.data("no levels") is None


# ---------------------------------------------------------------- messages


@proves("RPC2-user-01", "RPC2-user-02")
def test_a_users_message_has_its_fields(messages: list[Any]) -> None:
    user = messages[2]
    assert user.keys() == {"role", "content", "attribution", "timestamp"}
    assert user["content"] == [{"type": "text", "text": "Go"}, IMAGE]
    assert _is_now(user["timestamp"])


@proves("RPC2-user-03", "RPC2-attachment-01")
def test_an_attachment_is_taken_and_shown_to_the_model(story: Story, messages: list[Any]) -> None:
    assert is_plain_success(story.reply("attached"))
    assert PIXEL in str(story.requests[-1].body["messages"][-1])
    assert messages[-2]["content"] == [{"type": "text", "text": "And this?"}, IMAGE]


@proves("RPC2-assistant-01", "RPC2-assistant-02")
def test_an_answer_has_its_blocks_and_its_origin(messages: list[Any]) -> None:
    thinking, text, called = messages[3]["content"]
    assert (thinking["type"], thinking["thinking"]) == ("thinking", "I should look.")
    assert text == {"type": "text", "text": "Looking."}
    wanted = {"type": "toolCall", "id": "call_1", "name": "bash"}
    assert called.items() >= wanted.items()
    assert called["arguments"] == {"command": "echo out"}
    told = [messages[3][key] for key in ("api", "provider", "model")]
    assert told == ["anthropic-messages", "claude", "large"]


@proves("RPC2-assistant-03", "RPC2-assistant-05")
def test_an_answer_tells_its_tokens_and_their_cost(messages: list[Any]) -> None:
    usage = messages[3]["usage"]
    counts = {"input": 100, "output": 20, "cacheRead": 50, "cacheWrite": 0}
    assert usage.items() >= counts.items()
    prices = {"input": 100 * 1e-6, "output": 20 * 2e-6, "cacheRead": 50 * 0.5e-6, "cacheWrite": 0}
    assert usage["cost"] == pytest.approx({**prices, "total": sum(prices.values())})
    assert _is_now(messages[3]["timestamp"])


@proves("RPC2-assistant-04")
def test_an_answer_tells_why_it_ended(messages: list[Any]) -> None:
    reasons = [one["stopReason"] for one in messages if one["role"] == "assistant"]
    assert reasons == ["aborted", "toolUse", "length", "error", "stop"]


@proves("RPC2-result-01")
def test_a_tools_result_has_its_fields(messages: list[Any]) -> None:
    result = messages[4]
    told = [result[key] for key in ("role", "toolCallId", "toolName", "isError")]
    assert told == ["toolResult", "call_1", "bash", False]
    assert text_of(result).startswith("out\n")
    assert _is_now(result["timestamp"])
