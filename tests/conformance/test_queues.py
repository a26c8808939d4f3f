"""steer, follow_up, their modes, interruption, and queue_update."""

from typing import Any

import pytest

from ludolf.client import Client, Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import (
    IMAGE,
    PI,
    PIXEL,
    Stage,
    Story,
    is_piece,
    is_plain_success,
    prompts,
    tell,
    users,
)
from tests.process.harness import only, text_of, types
from tests.process.script import Gate, answer, bash, call, say

MODES = ("set_steering_mode", "set_follow_up_mode")
ONE_BY_ONE = [["Hello"], ["steer 1"], ["steer 2"], ["follow_up 1"], ["follow_up 2"]]


def _turns(run: list[Record]) -> list[list[str]]:
    """For each turn of a run, what the user said in it."""
    starts = [place for place, one in enumerate(run) if one["type"] == "turn_start"]
    ends = [*starts[1:], len(run)]
    return [users(run[start:end]) for start, end in zip(starts, ends, strict=True)]


async def _round(stage: Stage, client: Client, name: str, answers: int) -> None:
    """A run with a tool call, during which messages are put into each queue in both ways."""
    gate = Gate()
    stage.server.add(answer(say("Look", gate), bash("echo out")))
    stage.server.add(*(answer(f"Answer {number}") for number in range(answers)))
    await client.request("prompt", id=name, message="Hello")
    await client.wait_for(is_piece)
    for kind, behaviour in (("follow_up", "followUp"), ("steer", "steer")):
        prompt: dict[str, Any] = {"message": f"{kind} 1", "streamingBehavior": behaviour}
        await client.request("prompt", id=f"{name} by {behaviour}", **prompt)
        # Some acknowledge a prompt before it is queued; this waits until it has been.
        await client.request(kind, id=f"{name} {kind}", message=f"{kind} 2")
    await client.request("get_state", id=f"{name} state")
    gate.open()
    await client.wait_for(stage.end)


async def _interrupted(stage: Stage, client: Client, mode: str) -> None:
    """A call that runs alone stands behind one during which the user speaks."""
    wait = f"until test -e {mode}; do sleep 0.01; done; echo real"
    alone = call("todo", {"op": "view"}, f"{mode} 2")
    stage.server.add(answer(bash(wait, f"{mode} 1"), alone), answer("Steered."))
    await client.request("set_interrupt_mode", id=f"set {mode}", mode=mode)
    await client.request("get_state", id=f"state {mode}")
    await client.request("prompt", id=mode, message="Go")
    await client.wait_for("tool_execution_start")
    await client.request("steer", message="Change course")
    (stage.work / mode).touch()
    await client.wait_for(stage.end)


async def _modes(stage: Stage) -> None:
    async with stage.client() as client:
        await client.request("get_state", id="start")
        await _round(stage, client, "default", 4)
        for mode, answers in (("all", 2), ("one-at-a-time", 4)):
            for command in MODES:
                await client.request(command, id=f"{command} {mode}", mode=mode)
            await _round(stage, client, mode, answers)
        if stage.dialect not in PI:
            for mode in ("wait", "immediate"):
                await _interrupted(stage, client, mode)
            await client.request("set_interrupt_mode", id="bogus", mode="bogus")


@pytest.fixture(scope="module")
def modes(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _modes)


@proves("RPC4-steering-mode-04", "RPC4-follow-up-mode-04")
@proves("RPC2-steering-mode-03", "RPC2-follow-up-mode-03")
@proves("RPC0-mode-01", "RPC0-mode-02", "RPC0-mode-04")
def test_one_at_a_time_is_the_default_of_both_queues(modes: Story) -> None:
    state = modes.data("start")
    assert (state["steeringMode"], state["followUpMode"]) == ("one-at-a-time", "one-at-a-time")
    assert _turns(modes.run("default")) == ONE_BY_ONE


@proves("RPC4-steering-mode-01", "RPC4-steering-mode-02")
@proves("RPC4-follow-up-mode-01", "RPC4-follow-up-mode-02")
@proves("RPC2-steering-mode-01", "RPC2-follow-up-mode-01")
@proves("RPC0-mode-05")
def test_all_delivers_all_steering_after_the_tools_and_all_follow_ups_at_the_end(
    modes: Story,
) -> None:
    run = modes.run("all")
    steered, followed = ["steer 1", "steer 2"], ["follow_up 1", "follow_up 2"]
    assert _turns(run) == [["Hello"], steered, followed]
    names = types(run)
    second = names.index("message_end user", names.index("message_end user") + 1)
    assert names.index("tool_execution_end call_1") < second


@proves("RPC4-steering-mode-01", "RPC4-steering-mode-03")
@proves("RPC4-follow-up-mode-01", "RPC4-follow-up-mode-03")
@proves("RPC2-steering-mode-02", "RPC2-follow-up-mode-02")
def test_one_at_a_time_delivers_one_message_a_turn(modes: Story) -> None:
    assert _turns(modes.run("one-at-a-time")) == ONE_BY_ONE


@proves("RPC4-steering-mode-05", "RPC4-follow-up-mode-05")
@proves("RPC2-steering-mode-04", "RPC2-follow-up-mode-04")
@proves("RPC0-command-15", "RPC0-command-16", "RPC0-state-05")
@pytest.mark.parametrize("mode", ["all", "one-at-a-time"])
def test_setting_a_mode_is_answered_with_plain_success(modes: Story, mode: str) -> None:
    for command in MODES:
        assert is_plain_success(modes.reply(f"{command} {mode}"))
    state = modes.data(f"{mode} state")
    assert (state["steeringMode"], state["followUpMode"]) == (mode, mode)


@proves("RPC4-steer-01", "RPC4-steer-07", "RPC4-steer-08", "RPC3-steps-05")
@proves("RPC4-follow-up-01", "RPC4-follow-up-07", "RPC4-follow-up-08")
@proves("RPC2-steer-01", "RPC2-follow-up-01", "RPC2-prompt-07", "RPC2-prompt-08", "RPC2-state-12")
@proves("RPC0-command-02", "RPC0-command-03", "RPC0-prompt-06", "RPC0-prompt-07")
def test_messages_are_queued_with_success(modes: Story) -> None:
    in_pi = modes.stage.dialect in PI
    for name in ("steer", "follow_up", "by steer", "by followUp"):
        reply = modes.reply(f"default {name}")
        assert reply["command"] == (name if "by" not in name else "prompt")
        assert reply["success"] is True
        assert in_pi or is_plain_success(reply)
    waiting = "pendingMessageCount" if in_pi else "queuedMessageCount"
    assert [modes.data(name)[waiting] for name in ("start", "default state")] == [0, 4]


@proves("RPC4-steer-02", "RPC4-steer-03")
@proves("RPC2-steer-02", "RPC2-prompt-07")
@proves("RPC0-prompt-06", "RPC0-example-02")
def test_steering_waits_for_the_tools_and_goes_before_the_next_call(modes: Story) -> None:
    second = modes.requests[1]
    assert prompts(second)[-1] == "steer 1"
    assert "out\\n" in str(second.body["messages"])
    names = types(modes.run("default"))
    delivered = names.index("message_end user", names.index("message_end user") + 1)
    assert names.index("message_end toolResult") < delivered


@proves("RPC4-follow-up-02", "RPC4-follow-up-03")
@proves("RPC2-follow-up-02", "RPC2-prompt-08")
@proves("RPC0-prompt-07", "RPC0-example-02")
def test_a_follow_up_waits_for_tools_and_steering(modes: Story) -> None:
    last = [prompts(asked)[-1] for asked in modes.requests[:5]]
    assert last == ["Hello", "steer 1", "steer 2", "follow_up 1", "follow_up 2"]


@proves("RPC4-queue-01", "RPC4-queue-02", "RPC4-queue-03")
def test_each_change_of_a_queue_is_told_with_what_waits(modes: Story) -> None:
    updates = only(modes.run("default"), "queue_update")
    later = ["follow_up 1", "follow_up 2"]
    assert [(one["steering"], one["followUp"]) for one in updates] == [
        ([], ["follow_up 1"]),
        ([], later),
        (["steer 1"], later),
        (["steer 1", "steer 2"], later),
        (["steer 2"], later),
        ([], later),
        ([], ["follow_up 2"]),
        ([], []),
    ]


# ---------------------------------------------------------------- interruption


def _results(story: Story, mode: str) -> list[tuple[bool, str]]:
    ends = only(story.run(mode), "tool_execution_end")
    return [(one["isError"], text_of(one["result"])) for one in ends]


@proves("RPC2-interrupt-mode-01", "RPC2-state-07")
@proves("RPC0-mode-06")
def test_immediate_skips_calls_that_have_not_begun(modes: Story) -> None:
    (ran, skipped) = _results(modes, "immediate")
    assert (ran[0], ran[1][:5]) == (False, "real\n")
    assert skipped[0] is True
    assert skipped[1].startswith("Skipped due to queued user message.")
    assert _turns(modes.run("immediate")) == [["Go"], ["Change course"]]


@proves("RPC2-interrupt-mode-02")
@proves("RPC0-mode-07")
def test_wait_lets_the_calls_of_the_turn_finish(modes: Story) -> None:
    assert [failed for failed, _ in _results(modes, "wait")] == [False, False]
    assert _turns(modes.run("wait")) == [["Go"], ["Change course"]]


@proves("RPC2-interrupt-mode-03", "RPC2-state-07")
@proves("RPC0-command-17", "RPC0-state-06")
def test_the_interrupt_mode_is_set_and_a_wrong_one_refused(modes: Story) -> None:
    for mode in ("immediate", "wait"):
        assert is_plain_success(modes.reply(f"set {mode}"))
        assert modes.data(f"state {mode}")["interruptMode"] == mode
    assert modes.reply("bogus")["error"] == "Invalid mode: bogus"


# ---------------------------------------------------------------- expansion and images


async def _rich(stage: Stage) -> None:
    head = "---\nname: greet\ndescription: How to greet\n---\n"
    stage.lay("home/.pi/agent/skills/greet/SKILL.md", head + "Say hello in French.")
    stage.lay("home/.pi/agent/prompts/fix.md", "Fix the tests in $1.")
    gate = Gate()
    stage.server.add(answer(say("Look", gate)), *(answer("Yes.") for _ in range(7)))
    async with stage.client() as client:
        await client.request("prompt", id="run", message="Hello")
        await client.wait_for(is_piece)
        for command in ("steer", "follow_up"):
            await client.request(command, message="/skill:greet Ann")
            await client.request(command, message="/fix a.py")
            await client.request(command, message="Look at this", images=[IMAGE])
        await client.request(
            "prompt",
            id="queued",
            message="And at this",
            images=[IMAGE],
            streamingBehavior="followUp",
        )
        await client.request("get_state", id="state")  # by then the prompt is queued everywhere
        gate.open()
        await client.wait_for(stage.end)


@pytest.fixture(scope="module")
def rich(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _rich)


@proves("RPC4-steer-04", "RPC4-steer-05")
@proves("RPC4-follow-up-04", "RPC4-follow-up-05")
def test_queued_messages_are_expanded(rich: Story) -> None:
    turns = _turns(rich.run("run"))
    for first in (1, 4):
        assert "Say hello in French." in turns[first][0]
        assert turns[first + 1] == ["Fix the tests in a.py."]
        assert prompts(rich.requests[first + 1])[-1] == "Fix the tests in a.py."


@proves("RPC4-steer-06", "RPC4-follow-up-06")
@proves("RPC0-command-01", "RPC0-command-02", "RPC0-command-03")
def test_images_go_along_with_queued_messages(rich: Story) -> None:
    ends = [one["message"] for one in only(rich.run("run"), "message_end")]
    told = [one["content"] for one in ends if one["role"] == "user"]
    assert told[3] == told[6] == [{"type": "text", "text": "Look at this"}, IMAGE]
    assert told[7] == [{"type": "text", "text": "And at this"}, IMAGE]
    assert [str(one.body).count(PIXEL) for one in rich.requests] == [0, 0, 0, 1, 1, 1, 2, 3]
