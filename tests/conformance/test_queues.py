"""steer, follow_up, their modes, and queue_update."""

import pytest

from ludolf.client import Client, Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import IMAGE, PIXEL, Stage, Story, is_plain_success, prompts, tell
from tests.process.harness import only, text_of, types
from tests.process.script import Gate, answer, bash, say

MODES = ("set_steering_mode", "set_follow_up_mode")


def _turns(run: list[Record]) -> list[list[str]]:
    """For each turn of a run, what the user said in it."""
    turns: list[list[str]] = []
    for record in run:
        if record["type"] == "turn_start":
            turns.append([])
        elif record["type"] == "message_end" and record["message"]["role"] == "user":
            turns[-1].append(text_of(record["message"]))
    return turns


async def _round(stage: Stage, client: Client, name: str, answers: int) -> None:
    """A run with a tool call, during which two messages are put into each queue."""
    gate = Gate()
    stage.server.add(answer(say("Look", gate), bash("echo out")))
    stage.server.add(*(answer(f"Answer {number}") for number in range(answers)))
    await client.request("prompt", id=name, message="Hello")
    await client.wait_for("message_update")
    for number in ("1", "2"):
        await client.request("follow_up", id=f"{name} f{number}", message=f"later {number}")
        await client.request("steer", id=f"{name} s{number}", message=f"steer {number}")
    await client.request("get_state", id=f"{name} state")
    gate.open()
    await client.wait_for("agent_settled")


async def _modes(stage: Stage) -> None:
    async with stage.client() as client:
        await client.request("get_state", id="start")
        await _round(stage, client, "default", 4)
        for command in MODES:
            await client.request(command, id=f"{command} all", mode="all")
        await _round(stage, client, "all", 2)
        for command in MODES:
            await client.request(command, id=f"{command} one", mode="one-at-a-time")
        await _round(stage, client, "one", 4)


@pytest.fixture(scope="module")
def modes(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _modes)


@proves("RPC4-steering-mode-04", "RPC4-follow-up-mode-04")
def test_one_at_a_time_is_the_default_of_both_queues(modes: Story) -> None:
    state = modes.data("start")
    assert (state["steeringMode"], state["followUpMode"]) == ("one-at-a-time", "one-at-a-time")
    assert _turns(modes.run("default")) == [
        *(["Hello"], ["steer 1"], ["steer 2"], ["later 1"], ["later 2"]),
    ]


@proves("RPC4-steering-mode-01", "RPC4-steering-mode-02")
def test_all_delivers_all_steering_once_the_tools_are_done(modes: Story) -> None:
    run = modes.run("all")
    assert _turns(run)[1] == ["steer 1", "steer 2"]
    names = types(run)
    second = names.index("message_end user", names.index("message_end user") + 1)
    assert names.index("tool_execution_end call_1") < second


@proves("RPC4-steering-mode-01", "RPC4-steering-mode-03")
def test_one_at_a_time_delivers_one_steering_message_a_turn(modes: Story) -> None:
    assert _turns(modes.run("one"))[:3] == [["Hello"], ["steer 1"], ["steer 2"]]


@proves("RPC4-follow-up-mode-01", "RPC4-follow-up-mode-02")
def test_all_delivers_all_follow_ups_at_the_end(modes: Story) -> None:
    assert _turns(modes.run("all"))[2:] == [["later 1", "later 2"]]


@proves("RPC4-follow-up-mode-01", "RPC4-follow-up-mode-03")
def test_one_at_a_time_delivers_one_follow_up_each_time(modes: Story) -> None:
    assert _turns(modes.run("one"))[3:] == [["later 1"], ["later 2"]]


@proves("RPC4-steering-mode-05", "RPC4-follow-up-mode-05")
def test_setting_a_mode_is_answered_with_plain_success(modes: Story) -> None:
    for command in MODES:
        assert is_plain_success(modes.reply(f"{command} all"))
        assert is_plain_success(modes.reply(f"{command} one"))


@proves("RPC4-steer-01", "RPC4-steer-07", "RPC4-steer-08", "RPC3-steps-05")
def test_steer_queues_and_tells_success(modes: Story) -> None:
    assert modes.reply("default s1").items() >= {"command": "steer", "success": True}.items()
    assert modes.data("default state")["pendingMessageCount"] == 4


@proves("RPC4-follow-up-01", "RPC4-follow-up-07", "RPC4-follow-up-08", "RPC3-steps-05")
def test_follow_up_queues_and_tells_success(modes: Story) -> None:
    assert modes.reply("default f1").items() >= {"command": "follow_up", "success": True}.items()
    assert modes.data("default state")["pendingMessageCount"] == 4


@proves("RPC4-steer-02", "RPC4-steer-03")
def test_steering_waits_for_the_tools_and_goes_before_the_next_call(modes: Story) -> None:
    second = modes.requests[1]
    assert prompts(second)[-1] == "steer 1"
    assert "out\\n" in str(second.body["messages"])
    names = types(modes.run("default"))
    delivered = names.index("message_end user", names.index("message_end user") + 1)
    assert names.index("message_end toolResult") < delivered


@proves("RPC4-follow-up-02", "RPC4-follow-up-03")
def test_a_follow_up_waits_for_tools_and_steering(modes: Story) -> None:
    last = [prompts(asked)[-1] for asked in modes.requests[:5]]
    assert last == ["Hello", "steer 1", "steer 2", "later 1", "later 2"]


@proves("RPC4-queue-01", "RPC4-queue-02", "RPC4-queue-03")
def test_each_change_of_a_queue_is_told_with_what_waits(modes: Story) -> None:
    updates = only(modes.run("default"), "queue_update")
    assert [(one["steering"], one["followUp"]) for one in updates] == [
        ([], ["later 1"]),
        (["steer 1"], ["later 1"]),
        (["steer 1"], ["later 1", "later 2"]),
        (["steer 1", "steer 2"], ["later 1", "later 2"]),
        (["steer 2"], ["later 1", "later 2"]),
        ([], ["later 1", "later 2"]),
        ([], ["later 2"]),
        ([], []),
    ]


# ---------------------------------------------------------------- expansion and images


async def _rich(stage: Stage) -> None:
    head = "---\nname: greet\ndescription: How to greet\n---\n"
    stage.lay("home/.pi/agent/skills/greet/SKILL.md", head + "Say hello in French.")
    stage.lay("home/.pi/agent/prompts/fix.md", "Fix the tests in $1.")
    gate = Gate()
    stage.server.add(answer(say("Look", gate)), *(answer("Yes.") for _ in range(6)))
    async with stage.client() as client:
        await client.request("prompt", id="run", message="Hello")
        await client.wait_for("message_update")
        for command in ("steer", "follow_up"):
            await client.request(command, message="/skill:greet Ann")
            await client.request(command, message="/fix a.py")
            await client.request(command, message="Look at this", images=[IMAGE])
        gate.open()
        await client.wait_for("agent_settled")


@pytest.fixture(scope="module")
def rich(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _rich)


@proves("RPC4-steer-04", "RPC4-steer-05")
def test_steering_is_expanded(rich: Story) -> None:
    turns = _turns(rich.run("run"))
    assert "Say hello in French." in turns[1][0]
    assert turns[2] == ["Fix the tests in a.py."]
    assert prompts(rich.requests[2])[-1] == "Fix the tests in a.py."


@proves("RPC4-follow-up-04", "RPC4-follow-up-05")
def test_follow_ups_are_expanded(rich: Story) -> None:
    turns = _turns(rich.run("run"))
    assert "Say hello in French." in turns[4][0]
    assert turns[5] == ["Fix the tests in a.py."]
    assert prompts(rich.requests[5])[-1] == "Fix the tests in a.py."


@proves("RPC4-steer-06", "RPC4-follow-up-06")
def test_images_go_along_with_queued_messages(rich: Story) -> None:
    ends = [one["message"] for one in only(rich.run("run"), "message_end")]
    told = [one["content"] for one in ends if one["role"] == "user"]
    assert told[3] == told[6] == [{"type": "text", "text": "Look at this"}, IMAGE]
    assert [str(asked.body).count(PIXEL) for asked in rich.requests] == [0, 0, 0, 1, 1, 1, 2]
