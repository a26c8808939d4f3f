"""xcsh: every command with all it takes, what it returns, and the state."""

from pathlib import Path
from typing import Any

import pytest

from ludolf.base import loads
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
    prompts,
    tell,
)
from tests.process.harness import text_of
from tests.process.script import Gate, Tokens, answer, bash, say

PARENT = "/path/to/parent-session.jsonl"
LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh")


async def _prompting(stage: Stage, client: Client) -> None:
    gate = Gate()
    stage.server.add(answer(say("Look", gate), bash("echo out")), answer("Steered."))
    stage.server.add(answer("Later."), answer("At last."), answer(say("Half", Gate())))
    stage.server.add(answer("Instead."))
    await client.request("prompt", id="prompt", message="First", images=[IMAGE])
    await client.wait_for(is_piece)
    await client.request(
        "prompt", id="queued", message="queued", streamingBehavior="followUp", images=[IMAGE]
    )
    # A prompt is acknowledged before it is queued; these wait until it has been.
    for name in ("steer", "follow_up"):
        await client.request(name, id=name, message=f"by {name}", images=[IMAGE])
    await client.request("get_state", id="busy")
    gate.open()
    await client.wait_for("agent_end")
    await client.request("prompt", id="doomed", message="Go on")
    await client.wait_for(is_piece)
    await client.request("abort_and_prompt", id="instead", message="This", images=[IMAGE])
    await client.wait_for("agent_end")
    stage.server.add(answer(say("Half", Gate())))
    await client.request("prompt", id="stopped", message="Wait")
    await client.wait_for(is_piece)
    await client.request("abort", id="abort")
    await client.wait_for("agent_end")


async def _setting(client: Client) -> None:
    await client.request("get_available_models", id="models")
    await client.request("set_model", id="set_model", provider="chat", modelId="large")
    await client.request("cycle_model", id="cycle_model")
    for level in LEVELS:
        await client.request("set_thinking_level", id=f"level {level}", level=level)
        await client.request("get_state", id=f"state {level}")
    await client.request("cycle_thinking_level", id="cycle_level")
    for mode in ("all", "one-at-a-time"):
        for queue in ("steering", "follow_up"):
            await client.request(f"set_{queue}_mode", id=f"{queue} {mode}", mode=mode)
        await client.request("get_state", id=f"state {mode}")
    for mode in ("immediate", "wait"):
        await client.request("set_interrupt_mode", id=f"interrupt {mode}", mode=mode)
        await client.request("get_state", id=f"state {mode}")
    await client.request("set_interrupt_mode", id="bogus", mode="bogus")
    for word in (False, True):
        for name in ("set_auto_compaction", "set_auto_retry"):
            await client.request(name, id=f"{name} {word}", enabled=word)
        await client.request("get_state", id=f"state {word}")
    await client.request("set_model", provider="claude", modelId="large")


async def _working(stage: Stage, client: Client) -> None:
    stage.server.add(answer("Summary."))
    await client.request("compact", id="compact", customInstructions="Focus on colours")
    await client.request("bash", id="bash", command="echo out; exit 3")
    await client.request("abort_bash", id="abort_bash")


async def _sessions(stage: Stage, client: Client) -> None:
    await client.request("get_session_stats", id="stats")
    await client.request("set_session_name", id="name", name="my work")
    await client.request("get_state", id="named")
    await client.request("get_messages", id="messages")
    await client.request("get_last_assistant_text", id="text")
    await client.request("get_branch_messages", id="listed")
    await client.request("new_session", id="new", parentSession=PARENT)
    await client.request("get_last_assistant_text", id="no text")


async def _all(stage: Stage) -> None:
    stage.settings(compaction={"keepRecentTokens": 5})
    async with stage.client() as client:
        await client.request("get_state", id="start")
        await _prompting(stage, client)
        await _setting(client)
        await _working(stage, client)
        await _sessions(stage, client)


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _all)


# ---------------------------------------------------------------- prompting


@proves("RPC0-command-01", "RPC0-command-02", "RPC0-command-03", "RPC0-command-05")
def test_prompts_of_every_kind_reach_the_model_with_their_images(story: Story) -> None:
    for name in ("prompt", "steer", "follow_up", "queued", "instead"):
        assert is_plain_success(story.reply(name))
    last = [prompts(asked)[-1] for asked in story.requests[:6]]
    assert last == ["First", "by steer", "queued", "by follow_up", "Go on", "This"]
    pictures = [str(asked.body).count(PIXEL) for asked in story.requests[:6]]
    assert pictures == [1, 2, 3, 4, 4, 5]


@proves("RPC0-command-04")
def test_abort_ends_the_answer(story: Story) -> None:
    assert is_plain_success(story.reply("abort"))
    last = story.run("stopped")[-1]["messages"][-1]
    assert (text_of(last), last["stopReason"]) == ("Half", "aborted")


@proves("RPC0-reply-02", "RPC0-reply-04")
def test_data_is_there_where_a_command_returns_something(story: Story) -> None:
    bare = ("abort", "steering all", "name", "abort_bash")
    assert [name for name in bare if "data" in story.reply(name)] == []
    keys = {name: set(story.data(name)) for name in ("new", "text", "listed", "cycle_level")}
    assert keys == {
        **{"new": {"cancelled"}, "text": {"text"}, "listed": {"messages"}},
        "cycle_level": {"level"},
    }


# ---------------------------------------------------------------- settings


@proves("RPC0-command-10", "RPC0-command-11", "RPC0-command-12")
def test_models_are_listed_set_and_cycled(story: Story) -> None:
    listed = [(one["provider"], one["id"]) for one in story.data("models")["models"]]
    assert set(listed) == {(name, "large") for name in ("claude", "chat", "responses", "gemini")}
    assert (story.data("set_model")["provider"], story.data("set_model")["id"]) == ("chat", "large")
    cycled = story.data("cycle_model")
    assert cycled.keys() == {"model", "thinkingLevel", "isScoped"}
    assert cycled["model"]["provider"] != "chat"


@proves("RPC0-command-13", "RPC0-command-14", "RPC0-state-02")
def test_every_level_can_be_set_and_levels_are_cycled(story: Story) -> None:
    assert all(is_plain_success(story.reply(f"level {level}")) for level in LEVELS)
    held = [story.data(f"state {level}")["thinkingLevel"] for level in LEVELS]
    assert held[:5] == list(LEVELS[:5])
    assert held[5] in ("high", "xhigh")
    assert story.data("cycle_level")["level"] in LEVELS


@proves("RPC0-command-15", "RPC0-command-16", "RPC0-state-05")
@pytest.mark.parametrize("mode", ["all", "one-at-a-time"])
def test_modes_of_the_queues_are_set(story: Story, mode: str) -> None:
    assert is_plain_success(story.reply(f"steering {mode}"))
    assert is_plain_success(story.reply(f"follow_up {mode}"))
    state = story.data(f"state {mode}")
    assert (state["steeringMode"], state["followUpMode"]) == (mode, mode)


@proves("RPC0-command-17", "RPC0-state-06")
def test_the_interrupt_mode_is_set_and_a_wrong_one_refused(story: Story) -> None:
    for mode in ("immediate", "wait"):
        assert is_plain_success(story.reply(f"interrupt {mode}"))
        assert story.data(f"state {mode}")["interruptMode"] == mode
    assert story.reply("bogus")["error"] == "Invalid mode: bogus"


@proves("RPC0-command-19", "RPC0-command-20", "RPC0-state-09")
@pytest.mark.parametrize("word", [False, True])
def test_compaction_and_retry_are_switched(story: Story, *, word: bool) -> None:
    assert is_plain_success(story.reply(f"set_auto_retry {word}"))
    assert is_plain_success(story.reply(f"set_auto_compaction {word}"))
    assert story.data(f"state {word}")["autoCompactionEnabled"] is word


# ---------------------------------------------------------------- work


@proves("RPC0-command-18")
def test_a_compaction_follows_its_instructions(story: Story) -> None:
    data = story.data("compact")
    assert data["summary"].startswith("Summary.")
    assert data.keys() >= {"summary", "firstKeptEntryId", "tokensBefore", "details"}
    assert any("Focus on colours" in str(asked.body) for asked in story.requests)


# ---------------------------------------------------------------- sessions


@proves("RPC0-command-24")
def test_statistics_count_messages_and_tokens(story: Story) -> None:
    stats = story.data("stats")
    counts = {"userMessages", "assistantMessages", "toolCalls", "toolResults", "totalMessages"}
    assert stats.keys() >= counts | {"sessionId", "sessionFile", "tokens", "cost"}
    assert (stats["toolCalls"], stats["toolResults"]) == (1, 1)
    assert stats["tokens"]["input"] >= Tokens().input


@proves("RPC0-command-30", "RPC0-state-08")
def test_the_session_is_named(story: Story) -> None:
    assert is_plain_success(story.reply("name"))
    assert "sessionName" not in story.data("start")
    assert story.data("named")["sessionName"] == "my work"


@proves("RPC0-command-29", "RPC0-command-31")
def test_messages_and_the_last_text_are_given(story: Story) -> None:
    messages = story.data("messages")["messages"]
    assert messages[0]["role"] == "compactionSummary"
    assert messages[-1]["role"] == "bashExecution"
    answers = [text_of(one) for one in messages if one["role"] == "assistant"]
    assert story.data("text")["text"] in answers
    assert story.data("no text") == {"text": None}


# ---------------------------------------------------------------- state


def _states(story: Story, key: str, *names: str) -> list[Any]:
    return [story.data(name)[key] for name in names]


@proves("RPC0-command-07", "RPC0-state-01", "RPC0-state-07")
def test_the_state_names_model_and_session(story: Story) -> None:
    state = story.data("start")
    assert (state["model"]["provider"], state["model"]["id"]) == ("claude", "large")
    path = Path(state["sessionFile"])
    assert loads(path.read_bytes().splitlines()[0])["id"] == state["sessionId"]


@proves("RPC0-state-03", "RPC0-state-10", "RPC0-state-11")
def test_the_state_tells_work_messages_and_what_waits(story: Story) -> None:
    assert _states(story, "isStreaming", "start", "busy", "named") == [False, True, False]
    assert _states(story, "messageCount", "start", "busy") == [0, 1]
    assert _states(story, "queuedMessageCount", "start", "busy", "named") == [0, 3, 0]


@proves("RPC0-mode-01", "RPC0-mode-02", "RPC0-mode-03")
def test_the_modes_are_at_first_as_the_family_has_them(story: Story) -> None:
    state = story.data("start")
    assert (state["steeringMode"], state["followUpMode"]) == ("one-at-a-time", "one-at-a-time")
    assert state["interruptMode"] == "wait"
    assert state["todoPhases"] == []
