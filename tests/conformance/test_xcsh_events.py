"""xcsh: events of runs, of the queues, of compactions, retries and stream rules."""

import pytest

from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, tell
from tests.process.harness import only, text_of, types
from tests.process.script import Failure, Gate, Tokens, answer, bash, say, think

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
