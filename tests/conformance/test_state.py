"""get_state, get_messages, get_last_assistant_text and set_session_name."""

from typing import Any

import pytest

from ludolf.base import loads
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import PI, Stage, Story, ask, is_piece, is_plain_success, tell
from tests.process.harness import only
from tests.process.script import Gate, answer, bash, say

MODEL = {
    *("id", "name", "api", "provider", "baseUrl", "reasoning", "input", "cost"),
    *("contextWindow", "maxTokens"),
}
# How the state counts the messages that wait.
WAITING = {"pi": "pendingMessageCount", "pi-delta": "pendingMessageCount"}


async def _states(stage: Stage) -> None:
    gate = Gate()
    stage.server.add(answer(say("Half", gate), bash("echo out")), answer(" All of it.\n"))
    stage.server.add(answer("Ready."))
    async with stage.client("--model", "claude/large", "--thinking", "low") as client:
        await client.request("get_state", id="new")
        await client.request("get_messages", id="no messages")
        await client.request("get_last_assistant_text", id="no text")
        await client.request("prompt", id="run", message="Go")
        await client.wait_for(is_piece)
        await client.request("follow_up", message="And then?")
        await client.request("get_state", id="busy")
        gate.open()
        await client.wait_for(stage.end)
        await client.request("bash", command="echo mine")
        await client.request("set_session_name", id="name", name="my-feature-work")
        await client.request("set_session_name", id="no name", name="")
        await client.request("set_steering_mode", mode="all")
        await client.request("set_auto_compaction", enabled=False)
        await client.request("get_state", id="old")
        await client.request("get_messages", id="messages")
        await client.request("get_last_assistant_text", id="text")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _states)


def _shown(story: Story, key: str, *names: str) -> list[Any]:
    return [story.data(name)[key] for name in names or ("new", "busy", "old")]


@proves("RPC4-state-01", "RPC4-state-02", "RPC3-responses-05")
@proves("RPC2-state-01", "RPC2-state-03", "RPC2-model-01", "RPC2-model-02")
@proves("RPC0-command-07", "RPC0-state-01")
def test_the_whole_model_and_its_level_are_told(story: Story) -> None:
    state = story.data("new")
    assert state["model"].keys() >= MODEL
    assert state["model"]["cost"].keys() >= {"input", "output", "cacheRead", "cacheWrite"}
    assert (state["model"]["provider"], state["model"]["id"]) == ("claude", "large")
    assert state["thinkingLevel"] == "low"


@proves("RPC4-state-14")
@proves("RPC2-state-02")
async def test_without_a_model_its_id_is_unknown_or_it_is_null(stage: Stage) -> None:
    stage.keep_providers()
    async with stage.client(LUDOLF_OFFLINE_MODEL="0") as client:
        model = (await client.ask("get_state"))["model"]
    assert model["id"] == "unknown" if stage.dialect in PI else model is None


@proves("RPC4-state-03", "RPC3-states-01")
@proves("RPC2-state-04")
@proves("RPC0-state-03")
def test_a_run_shows_as_streaming_until_it_has_ended(story: Story) -> None:
    assert _shown(story, "isStreaming") == [False, True, False]
    assert _shown(story, "isCompacting") == [False, False, False]


@proves("RPC4-state-05", "RPC4-state-06")
@proves("RPC2-state-06")
@proves("RPC0-mode-01", "RPC0-mode-02", "RPC0-mode-03")
def test_the_modes_of_the_queues_are_told(story: Story) -> None:
    assert _shown(story, "steeringMode", "new", "old") == ["one-at-a-time", "all"]
    assert _shown(story, "followUpMode", "new", "old") == ["one-at-a-time", "one-at-a-time"]
    interrupt = {"omp": "immediate", "xcsh": "wait"}.get(story.stage.dialect)
    assert story.data("new").get("interruptMode") == interrupt
    assert story.data("new").get("todoPhases") == (None if interrupt is None else [])


@proves("RPC4-state-07", "RPC4-state-08")
@proves("RPC2-state-08")
@proves("RPC0-state-07")
def test_the_sessions_file_and_id_are_told(story: Story) -> None:
    (path,) = story.stage.sessions
    header = loads(path.read_bytes().splitlines()[0])
    assert _shown(story, "sessionFile") == [str(path)] * 3
    assert _shown(story, "sessionId") == [header["id"]] * 3


@proves("RPC4-state-09", "RPC4-state-10", "RPC4-session-name-01", "RPC4-session-name-03")
@proves("RPC4-session-name-02")
@proves("RPC2-state-09", "RPC2-session-name-01")
@proves("RPC0-command-30", "RPC0-state-08")
def test_the_name_is_told_once_there_is_one_and_kept_in_the_file(story: Story) -> None:
    assert "sessionName" not in story.data("new")
    assert story.data("old")["sessionName"] == "my-feature-work"
    entries = [entry for entry in story.stage.entries if entry["type"] == "session_info"]
    assert [entry["name"] for entry in entries] == ["my-feature-work"]


@proves("RPC4-session-name-04")
@proves("RPC2-session-name-02", "RPC2-session-name-03")
@proves("RPC0-command-30")
def test_naming_is_answered_with_plain_success_and_an_empty_name_refused(story: Story) -> None:
    assert is_plain_success(story.reply("name"))
    assert story.reply("no name")["error"] == "Session name cannot be empty"


@proves("RPC4-state-11")
@proves("RPC2-state-10")
@proves("RPC0-state-09")
def test_whether_compaction_happens_by_itself_is_told(story: Story) -> None:
    assert _shown(story, "autoCompactionEnabled", "new", "old") == [True, False]


@proves("RPC4-state-12", "RPC4-state-13")
@proves("RPC2-state-11", "RPC2-state-12")
@proves("RPC0-state-10", "RPC0-state-11")
def test_messages_and_queued_messages_are_counted(story: Story) -> None:
    assert _shown(story, "messageCount") == [0, 1, 7]
    waiting = WAITING.get(story.stage.dialect, "queuedMessageCount")
    assert _shown(story, waiting) == [0, 1, 0]


@proves("RPC4-messages-01", "RPC3-states-05")
@proves("RPC4-messages-02")
@proves("RPC2-messages-01", "RPC2-messages-02")
@proves("RPC0-command-29")
def test_all_messages_of_the_conversation_are_given(story: Story) -> None:
    assert story.data("no messages") == {"messages": []}
    messages = story.data("messages")["messages"]
    assert [one["role"] for one in messages] == [
        *("user", "assistant", "toolResult", "assistant"),
        *("user", "assistant", "bashExecution"),
    ]
    told = [one["message"] for one in only(story.records, "message_end")]
    if story.stage.dialect in PI:
        assert messages[:-1] == told
    assert [one["timestamp"] for one in messages[:-1]] == [one["timestamp"] for one in told]


@proves("RPC4-last-text-01", "RPC4-last-text-02")
@proves("RPC2-last-text-01", "RPC2-last-text-02")
@proves("RPC0-command-31")
def test_the_last_answers_text_is_given_or_null(story: Story) -> None:
    assert story.data("text") == {"text": "Ready."}
    assert story.data("no text") == {"text": None}


@proves("RPC4-messages-01", "RPC4-last-text-01")
async def test_an_answer_that_was_cut_short_stays_in_the_conversation(stage: Stage) -> None:
    stage.server.add(answer("The first half of", stop="length"))
    async with stage.client() as client:
        await ask(stage, client, "Tell me all")
        messages = (await client.ask("get_messages"))["messages"]
        text = (await client.ask("get_last_assistant_text"))["text"]
    told = [loads(line) for line in stage.lines]
    assert messages == [one["message"] for one in only(told, "message_end")]
    assert text == "The first half of"
