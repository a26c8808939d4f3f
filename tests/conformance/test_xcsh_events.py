"""xcsh: events of runs, of the queues, of compactions, retries and stream rules."""


import pytest

from ludolf.client import Client, Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, is_piece, is_plain_success, prompts, tell, users
from tests.process.harness import only, text_of, types
from tests.process.script import Failure, Gate, Tokens, answer, bash, call, say, think

SLOW = "echo one; until test -e go; do sleep 0.01; done; echo two"
RULE = '---\ncondition: "console\\\\.log"\nscope: text\n---\nUse the logger.\n'
FULL = Tokens(input=199_500)
MODES = ("set_steering_mode", "set_follow_up_mode")


async def _runs(stage: Stage) -> None:
    stage.lay("work/.pi/rules/no-console.md", RULE)
    first = think("I should look."), "Looking.", bash(SLOW, "slow")
    stage.server.add(answer(*first, size=4), answer("Done."))
    stage.server.add(Failure(status=529), answer("Now it works."))
    stage.server.add(answer(say("I add console.log(", Gate())), answer("With the logger."))
    async with stage.client() as client:
        await client.request("prompt", id="run", message="Go")
        await client.wait_for(lambda one: "one" in str(one.get("partialResult", "")))
        (stage.work / "go").touch()
        await client.wait_for("agent_end")
        for name in ("retried", "cut"):
            await client.request("prompt", id=name, message=name)
            await client.wait_for("agent_end")


@pytest.fixture(scope="module")
def runs(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _runs)


@proves("RPC0-event-02", "RPC0-event-03", "RPC0-event-04", "RPC0-event-05")
def test_a_run_is_told_from_its_start_to_its_end(runs: Story) -> None:
    names = types(runs.run("run"))
    pieces = ("text_", "thinking_", "toolcall_", "tool_execution_update")
    assert [name for name in names if not name.startswith(pieces)] == [
        *("agent_start", "turn_start", "message_start user", "message_end user"),
        *("message_start assistant", "message_end assistant"),
        *("tool_execution_start slow", "tool_execution_end slow"),
        *("message_start toolResult", "message_end toolResult", "turn_end"),
        *("turn_start", "message_start assistant", "message_end assistant", "turn_end"),
        "agent_end",
    ]
    assert "tool_execution_update slow" in names


@proves("RPC0-event-12")
def test_pieces_of_text_thinking_and_calls_are_told(runs: Story) -> None:
    said = {"text_delta": "", "thinking_delta": "", "toolcall_delta": ""}
    for update in only(runs.run("run"), "message_update"):
        piece = update["assistantMessageEvent"]
        if piece["type"] in said:
            said[piece["type"]] += piece["delta"]
        assert piece["partial"] == update["message"]
    assert said["text_delta"] == "Looking.Done."
    assert said["thinking_delta"] == "I should look."
    assert said["toolcall_delta"].startswith('{"command":')


@proves("RPC0-example-01", "RPC0-prompt-01", "RPC0-prompt-03", "RPC0-prompt-04")
def test_a_prompt_is_answered_first_and_ends_with_its_end(runs: Story) -> None:
    names = types(runs.records)
    start = names.index("response prompt")
    assert is_plain_success(runs.reply("run"))
    assert names[start + 1] == "agent_start"
    run = runs.run("run")
    (delta, *_) = [one for one in run if one["type"] == "message_update"]
    assert delta["message"]["role"] == "assistant"
    assert run[-1].keys() == {"type", "messages"}
    assert names.count("agent_end") == names.count("response prompt") == 3


@proves("RPC0-event-07")
def test_another_attempt_is_told_within_the_prompt(runs: Story) -> None:
    run = runs.run("retried")
    (start,) = only(run, "auto_retry_start")
    (end,) = only(run, "auto_retry_end")
    assert (start["attempt"], "529" in start["errorMessage"]) == (1, True)
    assert start.keys() >= {"maxAttempts", "delayMs"}
    assert (end["success"], end["attempt"]) == (True, 1)
    assert text_of(run[-1]["messages"][-1]) == "Now it works."


@proves("RPC0-event-08")
def test_an_answer_that_breaks_a_rule_is_cut_and_asked_for_again(runs: Story) -> None:
    run = runs.run("cut")
    (hit,) = only(run, "ttsr_triggered")
    assert [one["name"] for one in hit["rules"]] == ["no-console"]
    assert hit["rules"][0]["content"] == "Use the logger."
    assert text_of(run[-1]["messages"][-1]) == "With the logger."
    assert "Use the logger." in str(runs.requests[-1].body["messages"])
    assert types(run).count("agent_start") == 2


# ---------------------------------------------------------------- queues


async def _round(stage: Stage, client: Client, name: str, answers: int) -> None:
    gate = Gate()
    stage.server.add(answer(say("Look", gate), bash("echo out")))
    stage.server.add(*(answer(f"Answer {number}") for number in range(answers)))
    await client.request("prompt", id=name, message="Hello")
    await client.wait_for(is_piece)
    for number in (1, 2):
        for behaviour in ("steer", "followUp"):
            await client.request(
                *("prompt",),
                id=f"{name} {behaviour} {number}",
                message=f"{behaviour} {number}",
                streamingBehavior=behaviour,
            )
    gate.open()
    await client.wait_for("agent_end")


async def _interrupted(stage: Stage, client: Client, mode: str) -> None:
    """A call that runs alone stands behind one during which the user speaks."""
    wait = f"until test -e {mode}; do sleep 0.01; done; echo real"
    alone = call("todo", {"op": "view"}, f"{mode} 2")
    stage.server.add(answer(bash(wait, f"{mode} 1"), alone), answer("Steered."))
    await client.request("set_interrupt_mode", mode=mode)
    await client.request("prompt", id=mode, message="Go")
    await client.wait_for("tool_execution_start")
    await client.request("steer", message="Change course")
    (stage.work / mode).touch()
    await client.wait_for("agent_end")


async def _queues(stage: Stage) -> None:
    async with stage.client() as client:
        await _round(stage, client, "one", 4)
        for command in MODES:
            await client.request(command, mode="all")
        await _round(stage, client, "all", 2)
        for mode in ("immediate", "wait"):
            await _interrupted(stage, client, mode)


@pytest.fixture(scope="module")
def queues(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _queues)


def _turns(run: list[Record]) -> list[list[str]]:
    """For each turn of a run, what the user said in it."""
    starts = [place for place, one in enumerate(run) if one["type"] == "turn_start"]
    ends = [*starts[1:], len(run)]
    return [users(run[start:end]) for start, end in zip(starts, ends, strict=True)]


@proves("RPC0-prompt-06", "RPC0-prompt-07", "RPC0-example-02")
def test_prompts_wait_where_their_behaviour_says(queues: Story) -> None:
    assert is_plain_success(queues.reply("one followUp 1"))
    assert is_plain_success(queues.reply("one steer 1"))
    last = [prompts(asked)[-1] for asked in queues.requests[:5]]
    assert last == ["Hello", "steer 1", "steer 2", "followUp 1", "followUp 2"]
    assert "out" in str(queues.requests[1].body["messages"])


@proves("RPC0-mode-01", "RPC0-mode-02", "RPC0-mode-04")
def test_one_message_a_turn_is_delivered_at_first(queues: Story) -> None:
    assert _turns(queues.run("one")) == [
        *(["Hello"], ["steer 1"], ["steer 2"], ["followUp 1"], ["followUp 2"]),
    ]


@proves("RPC0-mode-05")
def test_all_are_delivered_together_when_that_is_set(queues: Story) -> None:
    steered, followed = ["steer 1", "steer 2"], ["followUp 1", "followUp 2"]
    assert _turns(queues.run("all")) == [["Hello"], steered, followed]


def _results(story: Story, mode: str) -> list[tuple[bool, str]]:
    ends = only(story.run(mode), "tool_execution_end")
    return [(one["isError"], text_of(one["result"])) for one in ends]


@proves("RPC0-mode-06")
def test_immediate_skips_calls_that_have_not_begun(queues: Story) -> None:
    (ran, skipped) = _results(queues, "immediate")
    assert ran == (False, "real\n")
    assert skipped[0] is True
    assert skipped[1].startswith("Skipped due to queued user message.")
    assert _turns(queues.run("immediate"))[1] == ["Change course"]


@proves("RPC0-mode-07")
def test_wait_lets_all_calls_of_the_turn_finish(queues: Story) -> None:
    assert [failed for failed, _ in _results(queues, "wait")] == [False, False]
    assert _turns(queues.run("wait")) == [["Go"], ["Change course"]]
