"""get_state, get_messages, get_last_assistant_text and set_session_name."""

import pytest

from ludolf.base import loads
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, is_plain_success, tell
from tests.process.harness import only
from tests.process.script import Gate, answer, bash, say


async def _states(stage: Stage) -> None:
    gate = Gate()
    stage.server.add(answer(say("Half", gate), bash("echo out")), answer(" All of it.\n"))
    stage.server.add(answer("Ready."))
    async with stage.client("--model", "claude/large:low") as client:
        await client.request("get_state", id="new")
        await client.request("get_messages", id="no messages")
        await client.request("get_last_assistant_text", id="no text")
        await client.request("prompt", id="run", message="Go")
        await client.wait_for("message_update")
        await client.request("follow_up", message="And then?")
        await client.request("get_state", id="busy")
        gate.open()
        await client.wait_for("agent_settled")
        await client.request("bash", command="echo mine")
        await client.request("set_session_name", id="name", name="my-feature-work")
        await client.request("set_steering_mode", mode="all")
        await client.request("set_auto_compaction", enabled=False)
        await client.request("get_state", id="old")
        await client.request("get_messages", id="messages")
        await client.request("get_last_assistant_text", id="text")


@pytest.fixture(scope="module")
def states(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _states)


@proves("RPC4-state-01", "RPC4-state-02", "RPC3-responses-05")
def test_the_model_and_its_level_are_told(states: Story) -> None:
    state = states.data("new")
    keys = {"id", "name", "api", "provider", "baseUrl", "reasoning", "input", "cost"}
    assert state["model"].keys() >= keys | {"contextWindow", "maxTokens"}
    assert (state["model"]["provider"], state["model"]["id"]) == ("claude", "large")
    assert state["thinkingLevel"] == "low"


@proves("RPC4-state-03", "RPC3-states-01")
def test_a_run_shows_as_streaming_until_it_has_ended(states: Story) -> None:
    streaming = [states.data(name)["isStreaming"] for name in ("new", "busy", "old")]
    assert streaming == [False, True, False]
    assert states.data("busy")["isCompacting"] is False


@proves("RPC4-state-05", "RPC4-state-06")
def test_the_modes_of_the_queues_are_told(states: Story) -> None:
    modes = [(one["steeringMode"], one["followUpMode"]) for one in _old_and_new(states)]
    assert modes == [("all", "one-at-a-time"), ("one-at-a-time", "one-at-a-time")]


def _old_and_new(states: Story) -> tuple[dict[str, object], dict[str, object]]:
    return states.data("old"), states.data("new")


@proves("RPC4-state-07", "RPC4-state-08")
def test_the_sessions_file_and_id_are_told(states: Story) -> None:
    (path,) = states.stage.sessions
    header = loads(path.read_bytes().splitlines()[0])
    for name in ("new", "busy", "old"):
        state = states.data(name)
        assert (state["sessionFile"], state["sessionId"]) == (str(path), header["id"])


@proves("RPC4-state-09", "RPC4-state-10", "RPC4-session-name-01", "RPC4-session-name-03")
def test_the_name_is_told_once_there_is_one(states: Story) -> None:
    assert "sessionName" not in states.data("new")
    assert states.data("old")["sessionName"] == "my-feature-work"


@proves("RPC4-session-name-02")
def test_the_name_is_kept_in_the_file(states: Story) -> None:
    entries = [entry for entry in states.stage.entries if entry["type"] == "session_info"]
    assert [entry["name"] for entry in entries] == ["my-feature-work"]


@proves("RPC4-session-name-04")
def test_naming_is_answered_with_plain_success(states: Story) -> None:
    assert is_plain_success(states.reply("name"))


@proves("RPC4-state-11")
def test_whether_compaction_happens_by_itself_is_told(states: Story) -> None:
    enabled = [states.data(name)["autoCompactionEnabled"] for name in ("new", "old")]
    assert enabled == [True, False]


@proves("RPC4-state-12", "RPC4-state-13")
def test_messages_and_queued_messages_are_counted(states: Story) -> None:
    messages = [states.data(name)["messageCount"] for name in ("new", "busy", "old")]
    assert messages == [0, 1, 7]
    pending = [states.data(name)["pendingMessageCount"] for name in ("new", "busy", "old")]
    assert pending == [0, 1, 0]


@proves("RPC4-state-14")
async def test_without_a_model_its_id_is_unknown(stage: Stage) -> None:
    stage.keep_providers()
    async with stage.client(LUDOLF_OFFLINE_MODEL="0") as client:
        state = await client.ask("get_state")
    assert state["model"]["id"] == "unknown"


@proves("RPC4-messages-01", "RPC3-states-05")
def test_all_messages_of_the_conversation_are_given(states: Story) -> None:
    assert states.data("no messages") == {"messages": []}
    messages = states.data("messages")["messages"]
    told = [one["message"] for one in only(states.records, "message_end")]
    assert [one for one in messages if one["role"] != "bashExecution"] == told


@proves("RPC4-messages-02")
def test_messages_are_of_the_known_kinds(states: Story) -> None:
    roles = [one["role"] for one in states.data("messages")["messages"]]
    assert roles == [
        *("user", "assistant", "toolResult", "assistant"),
        *("user", "assistant", "bashExecution"),
    ]


@proves("RPC4-last-text-01")
def test_the_last_answers_text_is_given(states: Story) -> None:
    assert states.data("text") == {"text": "Ready."}


@proves("RPC4-messages-01", "RPC4-last-text-01")
async def test_an_answer_that_was_cut_short_stays_in_the_conversation(stage: Stage) -> None:
    stage.server.add(answer("The first half of", stop="length"))
    async with stage.client() as client:
        told = await client.prompt_and_collect("Tell me all")
        messages = (await client.ask("get_messages"))["messages"]
        text = (await client.ask("get_last_assistant_text"))["text"]
    assert messages == [one["message"] for one in only(told, "message_end")]
    assert text == "The first half of"


@proves("RPC4-last-text-02")
def test_without_an_answer_the_text_is_null(states: Story) -> None:
    assert states.data("no text") == {"text": None}
