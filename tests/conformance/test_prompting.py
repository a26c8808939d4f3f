"""prompt and abort: acceptance, refusal, failure, images, expansion."""

import pytest

from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import (
    IMAGE,
    PIXEL,
    Stage,
    Story,
    is_plain_success,
    prompts,
    tell,
    users,
)
from tests.process.harness import only, text_of, types
from tests.process.script import Failure, Gate, answer, bash, say

BAD_REQUEST = Failure(status=400, body=b'{"error":{"type":"x","message":"no such thing"}}')
SKILL = "---\nname: greet\ndescription: How to greet\n---\nSay hello in French."
TEMPLATE = "Fix the tests in $1."


def _lay_commands(stage: Stage) -> None:
    stage.lay("home/.pi/agent/skills/greet/SKILL.md", SKILL)
    stage.lay("home/.pi/agent/prompts/fix.md", TEMPLATE)


async def _busy(stage: Stage) -> None:
    """A prompt, and three more while its first answer and its tool are under way."""
    _lay_commands(stage)
    gate = Gate()
    stage.server.add(answer(say("Look", gate), bash("echo out")), answer("B"), answer("C"))
    async with stage.client() as client:
        await client.request("prompt", id="first", message="Hello")
        await client.wait_for("message_update")
        await client.request("get_state", id="state")
        await client.request("prompt", id="refused", message="Now!")
        for name, text, behaviour in (
            ("steered", "/fix a.py", "steer"),
            ("later", "/skill:greet Ann", "followUp"),
        ):
            await client.request("prompt", id=name, message=text, streamingBehavior=behaviour)
        gate.open()
        await client.wait_for("agent_settled")


@pytest.fixture(scope="module")
def busy(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _busy)


@proves("RPC4-prompt-01", "RPC4-prompt-05")
def test_a_prompt_is_what_the_user_says(busy: Story) -> None:
    assert users(busy.run("first"))[0] == "Hello"
    assert prompts(busy.requests[0]) == ["Hello"]


@proves("RPC4-prompt-02", "RPC4-prompt-03", "RPC3-overview-04", "RPC3-anchors-01")
def test_the_reply_comes_before_all_events_and_others_in_between(busy: Story) -> None:
    assert types(busy.records)[:2] == ["response prompt", "agent_start"]
    places = [types(busy.records).index(name) for name in ("response get_state", "agent_end")]
    assert places[0] < places[1]
    assert busy.data("state")["isStreaming"] is True


@proves("RPC4-prompt-15")
def test_the_reply_names_command_and_id(busy: Story) -> None:
    reply = busy.reply("first")
    wanted = {"id": "first", "type": "response", "command": "prompt", "success": True}
    assert reply.items() >= wanted.items()


@proves("RPC4-prompt-11", "RPC4-prompt-17")
def test_a_prompt_during_a_run_needs_a_behaviour(busy: Story) -> None:
    reply = busy.reply("refused")
    assert reply["success"] is False
    assert "streamingBehavior" in reply["error"]
    assert "Now!" not in users(busy.run("first"))
    assert not any("Now!" in prompts(asked) for asked in busy.requests)


@proves("RPC4-prompt-07", "RPC4-prompt-16", "RPC3-steps-04")
def test_a_prompt_with_a_behaviour_is_queued(busy: Story) -> None:
    assert busy.reply("steered")["success"] is True
    assert busy.reply("later")["success"] is True
    assert len(users(busy.run("first"))) == 3


@proves("RPC4-prompt-08", "RPC4-prompt-09", "RPC4-prompt-14")
def test_steering_comes_after_the_tools_and_before_the_next_call(busy: Story) -> None:
    names = types(busy.run("first"))
    users_at = [place for place, name in enumerate(names) if name == "message_end user"]
    assert names.index("message_end toolResult") < users_at[1]
    assert users_at[1] < names.index("message_start assistant", users_at[1])
    assert prompts(busy.requests[1])[-1] == "Fix the tests in a.py."
    assert "out" in str(busy.requests[1].body["messages"])


@proves("RPC4-prompt-10", "RPC4-prompt-14")
def test_a_follow_up_comes_when_the_agent_has_stopped(busy: Story) -> None:
    assert "French" not in str(busy.requests[1].body["messages"])
    text = prompts(busy.requests[2])[-1]
    assert "Say hello in French." in text
    assert text.endswith("Ann")
    run = busy.run("first")
    stops = [turn["message"]["stopReason"] for turn in only(run, "turn_end")]
    assert stops == ["toolUse", "stop", "stop"]


# ---------------------------------------------------------------- one after another


async def _calm(stage: Stage) -> None:
    _lay_commands(stage)
    stage.server.add(answer("A dot."), answer("Oui."), answer("Fixed."), BAD_REQUEST)
    async with stage.client() as client:
        for name, message, images in (
            ("picture", "What is this?", [IMAGE]),
            ("skill", "/skill:greet Ann", []),
            ("template", "/fix a.py", []),
            ("doomed", "Fail", []),
        ):
            await client.request("prompt", id=name, message=message, images=images)
            await client.wait_for("agent_settled")
        await client.request("get_state", id="state")


@pytest.fixture(scope="module")
def calm(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _calm)


@proves("RPC4-prompt-04", "RPC4-prompt-06")
def test_an_image_reaches_the_model(calm: Story) -> None:
    (user, *_) = only(calm.run("picture"), "message_end")
    assert user["message"]["content"] == [{"type": "text", "text": "What is this?"}, IMAGE]
    assert PIXEL in str(calm.requests[0].body["messages"])


@proves("RPC4-prompt-12")
def test_a_skill_is_expanded_before_it_is_sent(calm: Story) -> None:
    (told,) = users(calm.run("skill"))
    assert "Say hello in French." in told
    assert told.endswith("Ann")
    assert prompts(calm.requests[1])[-1] == told


@proves("RPC4-prompt-13")
def test_a_template_is_expanded_before_it_is_sent(calm: Story) -> None:
    assert users(calm.run("template")) == ["Fix the tests in a.py."]
    assert prompts(calm.requests[2])[-1] == "Fix the tests in a.py."


@proves("RPC4-prompt-18")
def test_a_failure_after_acceptance_is_told_by_events(calm: Story) -> None:
    assert calm.reply("doomed")["success"] is True
    last = only(calm.run("doomed"), "message_end")[-1]["message"]
    assert last["stopReason"] == "error"
    assert "no such thing" in last["errorMessage"]
    assert types(calm.run("doomed"))[-2:] == ["agent_end", "agent_settled"]


@proves("RPC4-prompt-19")
def test_a_failure_brings_no_second_reply(calm: Story) -> None:
    assert len(calm.replies("doomed")) == 1
    assert calm.data("state")["isStreaming"] is False


# ---------------------------------------------------------------- abort


async def _stopped(stage: Stage) -> None:
    gate = Gate()
    stage.server.add(answer(say("Half of ", gate, "it")), answer(bash("echo up; sleep 60")))
    async with stage.client() as client:
        await client.request("prompt", id="stream", message="Go")
        await client.wait_for(lambda r: r.get("assistantMessageEvent", {}).get("delta"))
        await client.request("abort", id="abort the stream")
        await client.wait_for("agent_settled")
        await client.request("prompt", id="tool", message="Go")
        await client.wait_for(lambda r: "up" in str(r.get("partialResult", "")))
        await client.request("abort", id="abort the tool")
        await client.wait_for("agent_settled")
        await client.request("abort", id="abort nothing")
        await client.request("get_state", id="state")


@pytest.fixture(scope="module")
def stopped(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _stopped)


@proves("RPC4-abort-01", "RPC3-states-02")
def test_abort_stops_an_answer(stopped: Story) -> None:
    message = only(stopped.run("stream"), "message_end")[-1]["message"]
    assert (text_of(message), message["stopReason"]) == ("Half of ", "aborted")


@proves("RPC4-abort-01")
def test_abort_stops_a_tool(stopped: Story) -> None:
    run = stopped.run("tool")
    (end,) = only(run, "tool_execution_end")
    assert end["isError"] is True
    assert only(run, "agent_end")[0]["messages"][-1]["stopReason"] == "aborted"
    assert stopped.data("state")["isStreaming"] is False


@proves("RPC4-abort-02")
def test_abort_is_answered_with_plain_success(stopped: Story) -> None:
    for name in ("abort the stream", "abort the tool", "abort nothing"):
        assert is_plain_success(stopped.reply(name))
