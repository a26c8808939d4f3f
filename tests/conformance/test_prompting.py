"""prompt and abort: acceptance, refusal, failure, images, expansion."""

import pytest

from ludolf.client import Client
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import (
    IMAGE,
    PI,
    PIXEL,
    Stage,
    Story,
    ask,
    is_piece,
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
SOURCE = {"type": "base64", "mediaType": "image/png", "data": PIXEL}
LINK = {"type": "url", "url": "https://example.com/dot.png"}
# The requests to the model, by what they were about; after a call there is another one.
ASKED = ("picture", "source", "skill", "template", "doomed", "bare", "busy", "steered", "later")


async def _calm(stage: Stage, client: Client) -> None:
    stage.server.add(answer("A dot."), answer("Again."), answer("Oui."), answer("Fixed."))
    stage.server.add(BAD_REQUEST, answer("Hello."))
    await ask(stage, client, "picture", "What is this?", images=[IMAGE])
    await ask(stage, client, "source", "And this?", images=[{"type": "image", "source": SOURCE}])
    await ask(stage, client, "skill", "/skill:greet Ann")
    await ask(stage, client, "template", "/fix a.py")
    await ask(stage, client, "doomed", "Fail")
    await client.request("get_state", id="after the failure")
    await client.process.write(b'{"type":"prompt","message":"No id"}\n')
    await client.wait_for(stage.end)


async def _busy(stage: Stage, client: Client) -> None:
    """A prompt, and three more while its first answer and its tool are under way."""
    gate = Gate()
    stage.server.add(answer(say("Look", gate), bash("echo out")), answer("B"), answer("C"))
    await client.request("prompt", id="busy", message="Hello")
    await client.wait_for(is_piece)
    await client.request("get_state", id="meanwhile")
    await client.request("prompt", id="refused", message="Now!")
    if stage.dialect not in PI:  # which accept a prompt before they refuse it
        await client.reply_to("refused")
    for name, text, behaviour in (
        ("steered", "/fix a.py", "steer"),
        ("later", "/skill:greet Ann", "followUp"),
    ):
        await client.request("prompt", id=name, message=text, streamingBehavior=behaviour)
    await client.request("get_state", id="queued")
    gate.open()
    await client.wait_for(stage.end)


async def _stopped(stage: Stage, client: Client) -> None:
    stage.server.add(answer(say("Half of ", Gate(), "it")), answer(bash("echo up; sleep 60")))
    await client.request("prompt", id="stream", message="Go")
    await client.wait_for(is_piece)
    await client.request("abort", id="abort the stream")
    await client.wait_for(stage.end)
    await client.request("prompt", id="tool", message="Go")
    await client.wait_for(lambda r: "up" in str(r.get("partialResult", "")))
    await client.request("abort", id="abort the tool")
    await client.wait_for(stage.end)
    await client.request("abort", id="abort nothing")
    await client.request("get_state", id="state")
    link = [{"type": "image", "source": LINK}]
    await client.request("prompt", id="link", message="And that?", images=link)
    if stage.dialect not in PI:
        await client.reply_to("link")


async def _talk(stage: Stage) -> None:
    stage.lay("home/.pi/agent/skills/greet/SKILL.md", SKILL)
    stage.lay("home/.pi/agent/prompts/fix.md", TEMPLATE)
    async with stage.client() as client:
        await _calm(stage, client)
        await _busy(stage, client)
        await _stopped(stage, client)


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _talk)


def _prompts(story: Story, name: str) -> list[str]:
    """What the model was shown of the user in a request."""
    return prompts(story.requests[ASKED.index(name)])


# ---------------------------------------------------------------- one after another


@proves("RPC4-prompt-01", "RPC4-prompt-02", "RPC4-prompt-05", "RPC4-prompt-15")
@proves("RPC2-prompt-01", "RPC2-prompt-02", "RPC2-prompt-06")
@proves("RPC0-prompt-01", "RPC0-prompt-03", "RPC0-prompt-04", "RPC0-example-01")
def test_a_prompt_is_answered_at_once_and_then_worked_on(story: Story) -> None:
    reply = story.reply("picture")
    wanted = {"id": "picture", "type": "response", "command": "prompt", "success": True}
    assert reply.items() >= wanted.items()
    assert story.stage.dialect in PI or is_plain_success(reply)
    names = types(story.records)
    assert names[names.index("response prompt") + 1] == "agent_start"
    assert users(story.run("picture")) == ["What is this?"]
    assert _prompts(story, "picture") == ["What is this?"]
    assert _prompts(story, "bare")[-1] == "No id"
    runs = ("picture", "source", "skill", "template", "doomed", "busy", "stream", "tool")
    assert [types(story.run(name)).count("agent_end") for name in runs] == [1] * len(runs)


@proves("RPC4-prompt-04", "RPC4-prompt-06")
@proves("RPC2-prompt-03", "RPC2-prompt-04")
@proves("RPC0-command-01")
def test_an_image_reaches_the_model_also_in_a_source(story: Story) -> None:
    for name, text in (("picture", "What is this?"), ("source", "And this?")):
        (user, *_) = only(story.run(name), "message_end")
        assert user["message"]["content"] == [{"type": "text", "text": text}, IMAGE]
    assert [str(asked.body).count(PIXEL) for asked in story.requests[:2]] == [1, 2]


@proves("RPC2-prompt-05")
def test_an_image_by_url_is_refused(story: Story) -> None:
    first, second = story.replies("link")
    assert (first["success"], second["success"]) == (True, False)
    assert "base64" in second["error"]
    assert "And that?" not in str(story.requests[-1].body)


@proves("RPC4-prompt-12")
def test_a_skill_is_expanded_before_it_is_sent(story: Story) -> None:
    (told,) = users(story.run("skill"))
    assert "Say hello in French." in told
    assert told.endswith("Ann")
    assert _prompts(story, "skill")[-1] == told


@proves("RPC4-prompt-13")
def test_a_template_is_expanded_before_it_is_sent(story: Story) -> None:
    assert users(story.run("template")) == ["Fix the tests in a.py."]
    assert _prompts(story, "template")[-1] == "Fix the tests in a.py."


@proves("RPC4-prompt-18", "RPC4-prompt-19")
def test_a_failure_after_acceptance_is_told_by_events_and_no_second_reply(story: Story) -> None:
    assert story.reply("doomed")["success"] is True
    last = only(story.run("doomed"), "message_end")[-1]["message"]
    assert last["stopReason"] == "error"
    assert "no such thing" in last["errorMessage"]
    assert types(story.run("doomed"))[-2:] == ["agent_end", "agent_settled"]
    assert story.data("after the failure")["isStreaming"] is False


# ---------------------------------------------------------------- during a run


@proves("RPC4-prompt-02", "RPC4-prompt-03", "RPC3-overview-04", "RPC3-anchors-01")
def test_other_commands_are_answered_during_a_run(story: Story) -> None:
    names = types(story.run("busy"))
    assert names.index("response get_state") < names.index("agent_end")
    assert story.data("meanwhile")["isStreaming"] is True


@proves("RPC4-prompt-11", "RPC4-prompt-17")
@proves("RPC0-id-06", "RPC0-prompt-05", "RPC0-prompt-08")
def test_a_prompt_during_a_run_needs_a_behaviour(story: Story) -> None:
    *before, refusal = story.replies("refused")
    assert [is_plain_success(one) for one in before] == [True] * (story.stage.dialect not in PI)
    assert (refusal["command"], refusal["success"]) == ("prompt", False)
    wanted = "streamingBehavior" if story.stage.dialect in PI else "Agent is already processing."
    assert wanted in refusal["error"]
    assert "Now!" not in users(story.run("busy"))
    assert not any("Now!" in prompts(asked) for asked in story.requests)


@proves("RPC4-prompt-07", "RPC4-prompt-16", "RPC3-steps-04")
@proves("RPC2-prompt-07", "RPC2-prompt-08")
@proves("RPC0-command-01", "RPC0-prompt-06", "RPC0-prompt-07", "RPC0-example-02")
def test_a_prompt_with_a_behaviour_is_queued(story: Story) -> None:
    for name in ("steered", "later"):
        assert story.reply(name)["success"] is True
        assert story.stage.dialect in PI or is_plain_success(story.reply(name))
    assert len(users(story.run("busy"))) == 3


@proves("RPC4-prompt-08", "RPC4-prompt-09", "RPC4-prompt-14")
@proves("RPC2-prompt-07")
@proves("RPC0-prompt-06")
def test_steering_comes_after_the_tools_and_before_the_next_call(story: Story) -> None:
    names = types(story.run("busy"))
    users_at = [place for place, name in enumerate(names) if name == "message_end user"]
    assert names.index("message_end toolResult") < users_at[1]
    assert users_at[1] < names.index("message_start assistant", users_at[1])
    assert _prompts(story, "steered")[-1] == "Fix the tests in a.py."
    assert "out" in str(story.requests[ASKED.index("steered")].body["messages"])


@proves("RPC4-prompt-10", "RPC4-prompt-14")
@proves("RPC2-prompt-08")
@proves("RPC0-prompt-07")
def test_a_follow_up_comes_when_the_agent_has_stopped(story: Story) -> None:
    shown = [one for one in _prompts(story, "steered") if "French" in one]
    assert len(shown) == 1  # that of the skill before
    text = _prompts(story, "later")[-1]
    assert "Say hello in French." in text
    assert text.endswith("Ann")
    stops = [turn["message"]["stopReason"] for turn in only(story.run("busy"), "turn_end")]
    assert stops == ["toolUse", "stop", "stop"]


# ---------------------------------------------------------------- abort


@proves("RPC4-abort-01", "RPC3-states-02")
@proves("RPC2-abort-01")
@proves("RPC0-command-04")
def test_abort_stops_an_answer_and_a_tool(story: Story) -> None:
    message = only(story.run("stream"), "message_end")[-1]["message"]
    assert (text_of(message), message["stopReason"]) == ("Half of ", "aborted")
    run = story.run("tool")
    (end,) = only(run, "tool_execution_end")
    assert end["isError"] is True
    assert only(run, "agent_end")[0]["messages"][-1]["stopReason"] == "aborted"
    assert story.data("state")["isStreaming"] is False


@proves("RPC4-abort-02")
@proves("RPC2-abort-02")
@proves("RPC0-command-04")
def test_abort_is_answered_with_plain_success(story: Story) -> None:
    for name in ("abort the stream", "abort the tool", "abort nothing"):
        assert is_plain_success(story.reply(name))
