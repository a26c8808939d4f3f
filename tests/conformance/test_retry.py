"""Other attempts after failures that may pass."""

import pytest

from ludolf.client import Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, ask, is_plain_success, tell
from tests.process.harness import only, text_of, types
from tests.process.script import Failure, answer

BODY = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
OVERLOADED = Failure(status=529, body=BODY)
LIMITED = Failure(status=429, body=b'{"error":{"type":"rate_limit_error","message":"slow down"}}')
BROKEN = Failure(status=503, body=b'{"error":{"type":"api_error","message":"not now"}}')
PATIENT = Failure(status=529, body=BODY, headers={"retry-after": "30"})


# What the ends of retries hold beyond `success` and `attempt`.
MORE = {"omp": {"retryErrors"}, "xcsh": {"retryErrors"}}
# What follows the last attempt, and what follows an abort of the wait.
TAIL = {
    "pi": ["auto_retry_end", "agent_settled"],
    "pi-delta": ["auto_retry_end", "agent_settled"],
    "omp": ["auto_retry_end", "agent_end"],
    "xcsh": ["auto_retry_end", "agent_end"],
}


async def _retries(stage: Stage) -> None:
    async with stage.client() as client:
        await client.request("set_auto_retry", id="on", enabled=True)
        for name, failures in (
            ("overloaded", [OVERLOADED, OVERLOADED]),
            ("limited", [LIMITED]),
            ("broken", [BROKEN]),
        ):
            stage.server.add(*failures, answer("At last."))
            await ask(stage, client, name)
        stage.server.add(*[OVERLOADED] * 4)
        await ask(stage, client, "hopeless")
        stage.server.add(PATIENT)
        await client.request("prompt", id="given up", message="given up")
        await client.wait_for("auto_retry_start")
        await client.request("abort_retry", id="abort")
        await client.wait_for(stage.end)
        await client.request("abort_retry", id="abort nothing")
        await client.request("set_auto_retry", id="off", enabled=False)
        stage.server.add(OVERLOADED)
        await ask(stage, client, "once")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _retries)


def _answer(run: list[Record]) -> Record:
    """The last answer, which two events tell alike."""
    message: Record = only(run, "message_end")[-1]["message"]
    assert only(run, "agent_end")[-1]["messages"][-1] == message
    return message


@proves("RPC4-auto-retry-01", "RPC4-retry-01")
@proves("RPC2-auto-retry-01", "RPC2-retry-01")
@proves("RPC0-event-07")
def test_an_overloaded_model_is_asked_again(story: Story) -> None:
    run = story.run("overloaded")
    starts = only(run, "auto_retry_start")
    assert ["Overloaded" in one["errorMessage"] for one in starts] == [True, True]
    assert text_of(_answer(run)) == "At last."


@proves("RPC4-auto-retry-02", "RPC4-auto-retry-03")
@proves("RPC2-auto-retry-02", "RPC2-auto-retry-03")
def test_rate_limits_and_server_errors_lead_to_another_attempt(story: Story) -> None:
    for name, said in (("limited", "slow down"), ("broken", "not now")):
        run = story.run(name)
        (start,) = only(run, "auto_retry_start")
        assert said in start["errorMessage"]
        assert text_of(_answer(run)) == "At last."


@proves("RPC4-retry-02", "RPC4-retry-03", "RPC4-retry-04", "RPC4-retry-05")
@proves("RPC2-retry-02")
@proves("RPC0-event-07")
def test_each_attempt_is_announced_with_its_number_delay_and_cause(story: Story) -> None:
    starts = only(story.run("overloaded"), "auto_retry_start")
    assert [(one["attempt"], one["maxAttempts"]) for one in starts] == [(1, 3), (2, 3)]
    assert all(one["delayMs"] >= 1 and "Overloaded" in one["errorMessage"] for one in starts)
    (patient,) = only(story.run("given up"), "auto_retry_start")
    assert patient["delayMs"] == 30_000


@proves("RPC4-retry-06", "RPC4-retry-07")
@proves("RPC2-retry-03")
@proves("RPC0-event-07")
def test_an_attempt_that_works_ends_the_retrying(story: Story) -> None:
    (end,) = only(story.run("overloaded"), "auto_retry_end")
    assert (end["success"], end["attempt"]) == (True, 2)
    assert end.keys() == {"type", "success", "attempt"} | MORE.get(story.stage.dialect, set())
    names = types(story.run("overloaded"))
    assert names.index("auto_retry_end") > max(
        place for place, name in enumerate(names) if name == "auto_retry_start"
    )


@proves("RPC4-retry-07", "RPC4-retry-08", "RPC4-retry-09")
@proves("RPC2-retry-04")
def test_the_last_attempts_failure_is_final(story: Story) -> None:
    run = story.run("hopeless")
    assert len(only(run, "auto_retry_start")) == 3
    (end,) = only(run, "auto_retry_end")
    assert (end["success"], end["attempt"]) == (False, 3)
    assert "Overloaded" in end["finalError"]
    assert types(run)[-2:] == TAIL[story.stage.dialect]


@proves("RPC4-abort-retry-01", "RPC4-abort-retry-02", "RPC3-states-04")
@proves("RPC2-abort-retry-01")
@proves("RPC0-command-21")
def test_abort_retry_ends_the_wait_and_the_attempts(story: Story) -> None:
    run = story.run("given up")
    after = types(run)[types(run).index("auto_retry_start") + 1 :]
    told = [name for name in after if not name.startswith("response")]
    assert told == TAIL[story.stage.dialect]
    assert [one["success"] for one in only(run, "auto_retry_end")] == [False]


@proves("RPC4-abort-retry-03")
@proves("RPC2-abort-retry-02")
@proves("RPC0-command-21")
def test_abort_retry_is_answered_with_plain_success(story: Story) -> None:
    assert is_plain_success(story.reply("abort"))
    assert is_plain_success(story.reply("abort nothing"))


@proves("RPC4-auto-retry-04")
@proves("RPC2-auto-retry-04")
@proves("RPC0-command-20")
def test_switched_off_nothing_is_tried_again(story: Story) -> None:
    run = story.run("once")
    assert only(run, "auto_retry_start") == []
    assert _answer(run)["stopReason"] == "error"


@proves("RPC4-auto-retry-05")
@proves("RPC2-auto-retry-05")
@proves("RPC0-command-20")
def test_switching_is_answered_with_plain_success(story: Story) -> None:
    assert is_plain_success(story.reply("on"))
    assert is_plain_success(story.reply("off"))
