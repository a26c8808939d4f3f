"""Shell commands of the host."""

from pathlib import Path

import pytest

from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import (
    PI,
    Stage,
    Story,
    ask,
    is_piece,
    is_plain_success,
    prompts,
    tell,
)
from tests.process.harness import types
from tests.process.script import Gate, answer, bash, say

# Where the reply to a command that was cut names the whole output.
KEPT = {"pi": "fullOutputPath", "pi-delta": "fullOutputPath", "omp": "artifactId"}
# All events before the first prompt.
TOLD: dict[str, tuple[set[str], ...]] = {
    "pi": (set(), {"bash_execution_update"}),
    "pi-delta": (set(), {"bash_execution_update"}),
    "omp": ({"ready", "available_commands_update"},),
}


async def _commands(stage: Stage) -> None:
    gate = Gate()
    stage.server.add(answer(bash("echo by the model")), answer("I see."))
    stage.server.add(answer(say("Hold ", gate, "on.")))
    async with stage.client() as client:
        await client.request("bash", id="plain", command="echo out; echo é >&2")
        await client.request("bash", id="failing", command="echo no; exit 3")
        await client.request("bash", id="long", command="seq 1 5000")
        await client.request("get_messages", id="messages")
        await ask(stage, client, "prompt", "What did I do?")
        await client.request("prompt", id="busy", message="Wait")
        await client.wait_for(is_piece)
        await client.request("bash", id="meanwhile", command="pwd")
        gate.open()
        await client.wait_for(stage.end)
        await client.send("bash", id="stopped", command="echo up; sleep 60")
        if stage.dialect in PI:  # the others tell nothing of a command before its end
            await client.wait_for(lambda r: "up" in str(r.get("delta", "")))
        await client.request("abort_bash", id="abort")
        await client.reply_to("stopped")
        await client.request("abort_bash", id="abort nothing")
        await client.request("get_messages", id="all")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _commands)


@proves("RPC4-bash-01", "RPC4-bash-02", "RPC4-bash-03", "RPC3-responses-05")
@proves("RPC2-bash-01", "RPC2-bash-02")
@proves("RPC0-command-22")
def test_a_command_runs_and_tells_output_and_exit_code(story: Story) -> None:
    plain, failing = story.data("plain"), story.data("failing")
    assert (plain["output"], plain["exitCode"]) == ("out\né\n", 0)
    assert (failing["output"], failing["exitCode"], failing["cancelled"]) == ("no\n", 3, False)
    assert story.data("meanwhile")["output"] == f"{story.stage.work}\n"


@proves("RPC4-bash-04", "RPC4-bash-05", "RPC4-bash-07")
@proves("RPC2-bash-01", "RPC2-bash-06")
def test_a_whole_output_is_told_as_such(story: Story) -> None:
    plain = story.data("plain")
    assert (plain["cancelled"], plain["truncated"]) == (False, False)
    assert KEPT[story.stage.dialect] not in plain


@proves("RPC2-bash-03", "RPC2-bash-04")
def test_lines_and_bytes_are_counted(story: Story) -> None:
    counts = ("totalLines", "totalBytes", "outputLines", "outputBytes")
    assert [story.data("plain")[name] for name in counts] == [3, 7, 3, 7]


def _kept(story: Story) -> list[Path]:
    """The files that the reply to the long command names."""
    name = story.data("long")[KEPT[story.stage.dialect]]
    path = Path(name)
    return [path] if path.is_absolute() else list(story.stage.root.rglob(f"{name}*"))


@proves("RPC4-bash-05", "RPC4-bash-06")
@proves("RPC2-bash-05")
def test_a_long_output_is_cut_and_kept_in_a_file(story: Story) -> None:
    data = story.data("long")
    whole = "".join(f"{number}\n" for number in range(1, 5001))
    assert data["truncated"] is True
    assert whole.rstrip().endswith(data["output"].rstrip())
    assert len(data["output"]) < len(whole)
    assert [path.read_text() for path in _kept(story)] == [whole]


@proves("RPC2-bash-05")
def test_a_cut_is_counted(story: Story) -> None:
    data = story.data("long")
    sizes = len(data["output"].encode()), len("".join(f"{n}\n" for n in range(1, 5001)))
    assert data["outputBytes"] == sizes[0] < data["totalBytes"] == sizes[1]
    assert data["outputLines"] < data["totalLines"]


@proves("RPC4-bash-08")
@proves("RPC2-bash-07")
def test_a_command_runs_at_once_also_during_a_run(story: Story) -> None:
    names = types(story.run("busy"))
    assert names.index("response bash") < names.index("message_end assistant")


@proves("RPC4-bash-09")
@proves("RPC2-bash-08")
def test_a_message_of_the_command_is_kept(story: Story) -> None:
    messages = story.data("messages")["messages"]
    assert [(one["role"], one["exitCode"]) for one in messages] == [
        *(("bashExecution", 0), ("bashExecution", 3), ("bashExecution", 0)),
    ]


@proves("RPC4-execution-01", "RPC4-execution-02", "RPC4-execution-03")
@proves("RPC2-execution-01")
def test_the_message_has_all_its_fields(story: Story) -> None:
    plain, _, long = story.data("messages")["messages"]
    assert plain == {
        **{"role": "bashExecution", "command": "echo out; echo é >&2"},
        **{"output": "out\né\n", "exitCode": 0, "cancelled": False, "truncated": False},
        "timestamp": plain["timestamp"],
    }
    assert 1_700_000_000_000 < plain["timestamp"] < 10_000_000_000_000
    assert (long["truncated"], long["output"]) == (True, story.data("long")["output"])
    assert [Path(long["fullOutputPath"])] == _kept(story)


@proves("RPC2-execution-02")
def test_the_models_own_commands_leave_no_such_message(story: Story) -> None:
    commands = [one.get("command") for one in story.data("all")["messages"]]
    assert "echo by the model" not in commands
    assert commands.count("pwd") == 1


@proves("RPC4-bash-10", "RPC4-bash-11")
@proves("RPC2-bash-09")
def test_neither_a_message_event_nor_a_call_of_the_model_follows(story: Story) -> None:
    before = story.records[: story.records.index(story.reply("prompt"))]
    told = {name for name in types(before) if not name.startswith("response")}
    assert told in TOLD[story.stage.dialect]
    assert len(story.requests) == 3  # two for the first prompt, one for the second


@proves("RPC4-bash-12", "RPC4-bash-13")
@proves("RPC2-bash-10", "RPC2-bash-11")
def test_the_next_prompt_shows_the_command_to_the_model(story: Story) -> None:
    shown = prompts(story.requests[0])
    assert shown[0].startswith("Ran `echo out; echo é >&2`\n```\nout\né\n")
    assert shown[0].rstrip().endswith("```")
    assert shown[2].startswith("Ran `seq 1 5000`\n```\n")
    assert shown[-1] == "What did I do?"


@proves("RPC4-bash-14")
@proves("RPC2-bash-12")
def test_several_commands_before_a_prompt_all_reach_the_model(story: Story) -> None:
    first_lines = [text.splitlines()[0] for text in prompts(story.requests[0])]
    assert first_lines == [
        *("Ran `echo out; echo é >&2`", "Ran `echo no; exit 3`", "Ran `seq 1 5000`"),
        "What did I do?",
    ]


@proves("RPC4-bash-04", "RPC4-abort-bash-01", "RPC3-states-03")
@proves("RPC2-abort-bash-01")
@proves("RPC0-command-23")
def test_abort_bash_stops_a_command(story: Story) -> None:
    data = story.data("stopped")
    assert data["cancelled"] is True
    assert data["output"] == "up\n" or story.stage.dialect not in PI


@proves("RPC4-abort-bash-02")
@proves("RPC2-abort-bash-02")
@proves("RPC0-command-23")
def test_abort_bash_is_answered_with_plain_success(story: Story) -> None:
    assert is_plain_success(story.reply("abort"))
    assert is_plain_success(story.reply("abort nothing"))
