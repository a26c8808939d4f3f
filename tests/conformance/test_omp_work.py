"""oh-my-pi: compaction, other attempts, and shell commands of the host."""

import asyncio

import pytest

from ludolf.client import Client, Record
from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, is_piece, is_plain_success, prompts, tell
from tests.process.harness import only, text_of, types
from tests.process.script import Failure, Gate, Tokens, answer, bash, say

OVERFLOW = b'{"error":{"type":"x","message":"prompt is too long: 250000 tokens > 200000 maximum"}}'
FULL = Tokens(input=199_500)
RESULT = {"summary", "firstKeptEntryId", "tokensBefore", "details"}
BODY = b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
OVERLOADED = Failure(status=529, body=BODY)
LIMITED = Failure(status=429, body=b'{"error":{"type":"rate_limit_error","message":"slow down"}}')
BROKEN = Failure(status=503, body=b'{"error":{"type":"api_error","message":"not now"}}')
PATIENT = Failure(status=529, body=BODY, headers={"retry-after": "30"})


async def _say(client: Client, name: str, text: str = "") -> None:
    await client.request("prompt", id=name, message=text or f"{name} " * 100)
    await client.wait_for("agent_end")


# ---------------------------------------------------------------- compactions


async def _by_command(stage: Stage, client: Client) -> None:
    gate = Gate()
    stage.server.add(answer("One."), answer("Two.", tokens=Tokens(input=5_000)))
    stage.server.add(answer(gate, "What was first."), answer("Three."), answer("And second."))
    await _say(client, "first")
    await _say(client, "second")
    await client.send("compact", id="manual", customInstructions="Focus on colours")
    await asyncio.to_thread(gate.reached.wait, 5)
    await client.request("get_state", id="meanwhile")
    gate.open()
    await client.reply_to("manual")
    await client.request("get_entries", id="entries")
    await _say(client, "third")
    await client.request("compact", id="plain")
    await client.request("get_state", id="compacted")


async def _by_itself(stage: Stage, client: Client) -> None:
    too_long = Failure(status=400, body=OVERFLOW)
    stage.server.add(answer("Four."), too_long, answer("Short."), answer("It fits."))
    await _say(client, "fourth")
    await _say(client, "fifth", "Go on")
    await client.request("set_auto_compaction", id="on", enabled=True)
    stage.server.add(answer("Six.", tokens=FULL), answer("Shorter."))
    await _say(client, "sixth")
    gate = Gate()
    stage.server.add(answer("Seven.", tokens=FULL), answer(gate, "Never."))
    await client.request("prompt", id="seventh", message="seventh " * 100)
    await asyncio.to_thread(gate.reached.wait, 5)
    await client.request("abort")
    await client.wait_for("agent_end")
    await client.request("set_auto_compaction", id="off", enabled=False)
    stage.server.add(answer("Eight.", tokens=FULL))
    await _say(client, "eighth")


async def _compactions(stage: Stage) -> None:
    stage.settings(compaction={"keepRecentTokens": 50, "reserveTokens": 1_000})
    async with stage.client() as client:
        await _by_command(stage, client)
        await _by_itself(stage, client)


@pytest.fixture(scope="module")
def compactions(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _compactions)


def _body(story: Story, number: int) -> str:
    return str(story.requests[number].body["messages"])


@proves("RPC2-compact-01", "RPC2-compact-02", "RPC2-compact-03")
def test_a_summary_stands_for_the_old_messages(compactions: Story) -> None:
    assert "Focus on colours" in _body(compactions, 2)
    assert "What was first." in _body(compactions, 3)
    assert "first first" not in _body(compactions, 3)
    assert "Focus on colours" not in _body(compactions, 4)


@proves("RPC2-compact-04")
def test_the_reply_tells_what_the_compaction_did(compactions: Story) -> None:
    data = compactions.data("manual")
    assert data.keys() == RESULT | {"shortSummary"}
    assert (data["summary"], data["tokensBefore"]) == ("What was first.", 5_020)
    assert isinstance(data["details"], dict)
    entries = {one["id"]: one for one in compactions.data("entries")["entries"]}
    assert "second second" in text_of(entries[data["firstKeptEntryId"]]["message"])
    assert compactions.data("plain")["summary"].startswith("And second.")


@proves("RPC2-compact-05", "RPC2-state-05")
def test_a_compaction_by_command_shows_in_the_state_and_has_no_events(compactions: Story) -> None:
    shown = [compactions.data(name)["isCompacting"] for name in ("meanwhile", "compacted")]
    assert shown == [True, False]
    before = compactions.records[: compactions.records.index(compactions.reply("compacted"))]
    assert not [name for name in types(before) if "compaction" in name]


def _told(run: list[Record]) -> tuple[Record, Record]:
    (start,) = only(run, "auto_compaction_start")
    (end,) = only(run, "auto_compaction_end")
    return start, end


@proves(
    *("RPC2-compaction-01", "RPC2-compaction-02", "RPC2-compaction-04"),
    "RPC2-auto-compaction-01",
)
def test_a_context_that_is_almost_full_is_compacted(compactions: Story) -> None:
    start, end = _told(compactions.run("sixth"))
    assert start["reason"] == "threshold"
    assert end["result"].keys() >= RESULT
    assert end["result"]["tokensBefore"] == 199_520
    assert (end["aborted"], end["willRetry"]) == (False, False)
    assert types(compactions.run("sixth"))[-1] == "agent_end"


@proves("RPC2-compaction-03", "RPC2-compaction-05")
def test_after_an_overflow_the_prompt_is_tried_again(compactions: Story) -> None:
    run = compactions.run("fifth")
    start, end = _told(run)
    assert (start["reason"], end["willRetry"], end["aborted"]) == ("overflow", True, False)
    assert end["result"].keys() >= RESULT
    assert text_of(run[-1]["messages"][-1]) == "It fits."
    assert types(run).count("message_end user") == 1


@proves("RPC2-compaction-06")
def test_a_compaction_that_is_aborted_has_no_result(compactions: Story) -> None:
    _, end = _told(compactions.run("seventh"))
    assert (end["result"], end["aborted"]) == (None, True)


@proves("RPC2-auto-compaction-02", "RPC2-auto-compaction-03")
def test_nothing_is_compacted_when_that_is_switched_off(compactions: Story) -> None:
    assert not only(compactions.run("eighth"), "auto_compaction_start")
    assert is_plain_success(compactions.reply("on"))
    assert is_plain_success(compactions.reply("off"))


# ---------------------------------------------------------------- other attempts


async def _retries(stage: Stage) -> None:
    async with stage.client() as client:
        await client.request("set_auto_retry", id="on", enabled=True)
        for name, failures in (
            ("overloaded", [OVERLOADED, OVERLOADED]),
            ("limited", [LIMITED]),
            ("broken", [BROKEN]),
        ):
            stage.server.add(*failures, answer("At last."))
            await _say(client, name, name)
        stage.server.add(*[OVERLOADED] * 4)
        await _say(client, "hopeless", "hopeless")
        stage.server.add(PATIENT)
        await client.request("prompt", id="given up", message="given up")
        await client.wait_for("auto_retry_start")
        await client.request("abort_retry", id="abort")
        await client.wait_for("agent_end")
        await client.request("set_auto_retry", id="off", enabled=False)
        stage.server.add(OVERLOADED)
        await _say(client, "once", "once")


@pytest.fixture(scope="module")
def retries(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _retries)


@proves("RPC2-auto-retry-01", "RPC2-auto-retry-02", "RPC2-auto-retry-03", "RPC2-retry-01")
@pytest.mark.parametrize(
    ("name", "said"),
    [("overloaded", "Overloaded"), ("limited", "slow down"), ("broken", "not now")],
)
def test_failures_that_may_pass_lead_to_another_attempt(
    retries: Story, name: str, said: str
) -> None:
    run = retries.run(name)
    assert all(said in one["errorMessage"] for one in only(run, "auto_retry_start"))
    assert text_of(run[-1]["messages"][-1]) == "At last."


@proves("RPC2-retry-02", "RPC2-retry-03")
def test_each_attempt_is_announced_and_the_one_that_works_named(retries: Story) -> None:
    starts = only(retries.run("overloaded"), "auto_retry_start")
    assert [(one["attempt"], one["maxAttempts"]) for one in starts] == [(1, 3), (2, 3)]
    assert all(one["delayMs"] >= 1 for one in starts)
    (end,) = only(retries.run("overloaded"), "auto_retry_end")
    assert (end["success"], end["attempt"]) == (True, 2)


@proves("RPC2-retry-04")
def test_the_last_failure_is_final(retries: Story) -> None:
    run = retries.run("hopeless")
    assert len(only(run, "auto_retry_start")) == 3
    (end,) = only(run, "auto_retry_end")
    assert (end["success"], end["attempt"]) == (False, 3)
    assert "Overloaded" in end["finalError"]


@proves("RPC2-abort-retry-01", "RPC2-abort-retry-02")
def test_abort_retry_ends_the_wait_and_the_attempts(retries: Story) -> None:
    assert is_plain_success(retries.reply("abort"))
    run = retries.run("given up")
    assert only(run, "auto_retry_start")[0]["delayMs"] == 30_000
    assert [one["success"] for one in only(run, "auto_retry_end")] == [False]


@proves("RPC2-auto-retry-04", "RPC2-auto-retry-05")
def test_switched_off_nothing_is_tried_again(retries: Story) -> None:
    run = retries.run("once")
    assert not only(run, "auto_retry_start")
    assert run[-1]["messages"][-1]["stopReason"] == "error"
    assert is_plain_success(retries.reply("on"))
    assert is_plain_success(retries.reply("off"))


# ---------------------------------------------------------------- the shell


async def _shell(stage: Stage) -> None:
    gate = Gate()
    stage.server.add(answer(bash("echo by the model")), answer("I see."))
    stage.server.add(answer(say("Hold ", gate, "on.")))
    async with stage.client() as client:
        await client.request("bash", id="plain", command="echo out; echo é >&2; exit 3")
        await client.request("bash", id="long", command="seq 1 5000")
        await client.request("get_messages", id="messages")
        await _say(client, "prompt", "What did I do?")
        await client.request("prompt", id="busy", message="Wait")
        await client.wait_for(is_piece)
        await client.request("bash", id="meanwhile", command="pwd")
        gate.open()
        await client.wait_for("agent_end")
        await client.send("bash", id="stopped", command="sleep 60")
        await client.request("abort_bash", id="abort")
        await client.reply_to("stopped")
        await client.request("get_messages", id="all")


@pytest.fixture(scope="module")
def shell(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _shell)


@proves("RPC2-bash-01", "RPC2-bash-02", "RPC2-bash-06")
def test_a_command_runs_and_is_told_whole(shell: Story) -> None:
    plain = shell.data("plain")
    told = [plain[name] for name in ("output", "exitCode", "cancelled", "truncated")]
    assert told == ["out\né\n", 3, False, False]
    assert "artifactId" not in plain


@proves("RPC2-bash-03", "RPC2-bash-04")
def test_lines_and_bytes_are_counted(shell: Story) -> None:
    counts = ("totalLines", "totalBytes", "outputLines", "outputBytes")
    assert [shell.data("plain")[name] for name in counts] == [3, 7, 3, 7]


@proves("RPC2-bash-05")
def test_a_long_output_is_cut_and_named(shell: Story) -> None:
    long = shell.data("long")
    whole = "".join(f"{number}\n" for number in range(1, 5001))
    assert long["truncated"] is True
    assert whole.rstrip().endswith(long["output"].rstrip())
    assert long["outputBytes"] == len(long["output"].encode()) < long["totalBytes"] == len(whole)
    assert long["outputLines"] < long["totalLines"]
    kept = [path.read_text() for path in shell.stage.root.rglob(f"{long['artifactId']}*")]
    assert kept == [whole]


@proves("RPC2-bash-07")
def test_a_command_runs_at_once_also_during_a_run(shell: Story) -> None:
    names = types(shell.run("busy"))
    assert names.index("response bash") < names.index("message_end assistant")
    assert shell.data("meanwhile")["output"] == f"{shell.stage.work}\n"


@proves("RPC2-bash-08", "RPC2-bash-09", "RPC2-execution-01")
def test_a_message_is_kept_and_no_event_tells_of_it(shell: Story) -> None:
    plain, long = shell.data("messages")["messages"]
    assert plain == {
        **{"role": "bashExecution", "command": "echo out; echo é >&2; exit 3"},
        **{"output": "out\né\n", "exitCode": 3, "cancelled": False, "truncated": False},
        "timestamp": plain["timestamp"],
    }
    assert 1_700_000_000_000 < plain["timestamp"] < 10_000_000_000_000
    assert long["truncated"] is True
    before = types(shell.records[: shell.records.index(shell.reply("prompt"))])
    told = {name for name in before if not name.startswith("response")}
    assert told == {"ready", "available_commands_update"}


@proves("RPC2-execution-02")
def test_the_models_own_commands_leave_no_such_message(shell: Story) -> None:
    commands = [one.get("command") for one in shell.data("all")["messages"]]
    assert "echo by the model" not in commands
    assert commands.count("pwd") == 1


@proves("RPC2-bash-10", "RPC2-bash-11", "RPC2-bash-12")
def test_the_next_prompt_shows_all_commands_to_the_model(shell: Story) -> None:
    first, second, asked = prompts(shell.requests[0])
    assert first.split("\n")[:4] == ["Ran `echo out; echo é >&2; exit 3`", "```", "out", "é"]
    assert "\n```" in first.partition("é >&2")[2]
    assert second.startswith("Ran `seq 1 5000`\n```\n")
    assert asked == "What did I do?"


@proves("RPC2-abort-bash-01", "RPC2-abort-bash-02")
def test_abort_bash_stops_a_command(shell: Story) -> None:
    assert is_plain_success(shell.reply("abort"))
    assert shell.data("stopped")["cancelled"] is True
