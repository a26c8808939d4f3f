"""Shell commands of the host."""

from pathlib import Path

import pytest

from tests.conformance.conftest import MakeStage
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, Story, is_plain_success, prompts, tell
from tests.process.harness import types
from tests.process.script import Gate, answer, say


async def _commands(stage: Stage) -> None:
    gate = Gate()
    stage.server.add(answer("I see."), answer(say("Hold ", gate, "on.")))
    async with stage.client() as client:
        await client.request("bash", id="plain", command="echo out; echo err >&2")
        await client.request("bash", id="failing", command="echo no; exit 3")
        await client.request("bash", id="long", command="seq 1 5000")
        await client.request("get_messages", id="messages")
        await client.request("prompt", id="prompt", message="What did I do?")
        await client.wait_for("agent_settled")
        await client.request("prompt", id="busy", message="Wait")
        await client.wait_for("message_update")
        await client.request("bash", id="meanwhile", command="pwd")
        gate.open()
        await client.wait_for("agent_settled")
        await client.send("bash", id="stopped", command="echo up; sleep 60")
        await client.wait_for(lambda r: "up" in str(r.get("delta", "")))
        await client.request("abort_bash", id="abort")
        await client.reply_to("stopped")
        await client.request("abort_bash", id="abort nothing")


@pytest.fixture(scope="module")
def story(make_stage: MakeStage) -> Story:
    return tell(make_stage(), _commands)


@proves("RPC4-bash-01", "RPC4-bash-02", "RPC4-bash-03", "RPC3-responses-05")
def test_a_command_runs_and_tells_output_and_exit_code(story: Story) -> None:
    plain, failing = story.data("plain"), story.data("failing")
    assert (plain["output"], plain["exitCode"]) == ("out\nerr\n", 0)
    assert (failing["output"], failing["exitCode"]) == ("no\n", 3)
    assert story.data("meanwhile")["output"] == f"{story.stage.work}\n"


@proves("RPC4-bash-04", "RPC4-bash-05", "RPC4-bash-07")
def test_a_whole_output_is_told_as_such(story: Story) -> None:
    plain = story.data("plain")
    assert (plain["cancelled"], plain["truncated"]) == (False, False)
    assert "fullOutputPath" not in plain


@proves("RPC4-bash-05", "RPC4-bash-06")
def test_a_long_output_is_cut_and_kept_in_a_file(story: Story) -> None:
    data = story.data("long")
    whole = "".join(f"{number}\n" for number in range(1, 5001))
    assert data["truncated"] is True
    assert whole.rstrip().endswith(data["output"].rstrip())
    assert len(data["output"]) < len(whole)
    assert Path(data["fullOutputPath"]).read_text() == whole


@proves("RPC4-bash-08")
def test_a_command_runs_at_once_also_during_a_run(story: Story) -> None:
    names = types(story.run("busy"))
    assert names.index("response bash") < names.index("message_end assistant")


@proves("RPC4-bash-09")
def test_a_message_of_the_command_is_kept(story: Story) -> None:
    messages = story.data("messages")["messages"]
    assert [(one["role"], one["exitCode"]) for one in messages] == [
        *(("bashExecution", 0), ("bashExecution", 3), ("bashExecution", 0)),
    ]


@proves("RPC4-execution-01", "RPC4-execution-02", "RPC4-execution-03")
def test_the_message_has_all_its_fields(story: Story) -> None:
    plain, _, long = story.data("messages")["messages"]
    assert plain == {
        **{"role": "bashExecution", "command": "echo out; echo err >&2"},
        **{"output": "out\nerr\n", "exitCode": 0, "cancelled": False, "truncated": False},
        "timestamp": plain["timestamp"],
    }
    assert 1_700_000_000_000 < plain["timestamp"] < 10_000_000_000_000
    assert (long["truncated"], long["output"]) == (True, story.data("long")["output"])
    assert long["fullOutputPath"] == story.data("long")["fullOutputPath"]


@proves("RPC4-bash-10", "RPC4-bash-11")
def test_neither_a_message_event_nor_a_call_of_the_model_follows(story: Story) -> None:
    before = story.records[: story.records.index(story.reply("prompt"))]
    told = {name for name in types(before) if not name.startswith("response")}
    assert told <= {"bash_execution_update"}
    assert len(story.requests) == 2


@proves("RPC4-bash-12", "RPC4-bash-13")
def test_the_next_prompt_shows_the_command_to_the_model(story: Story) -> None:
    shown = prompts(story.requests[0])
    assert shown[0].startswith("Ran `echo out; echo err >&2`\n```\nout\nerr\n")
    assert shown[0].rstrip().endswith("```")
    assert shown[-1] == "What did I do?"


@proves("RPC4-bash-14")
def test_several_commands_before_a_prompt_all_reach_the_model(story: Story) -> None:
    first_lines = [text.splitlines()[0] for text in prompts(story.requests[0])]
    assert first_lines == [
        *("Ran `echo out; echo err >&2`", "Ran `echo no; exit 3`", "Ran `seq 1 5000`"),
        "What did I do?",
    ]


@proves("RPC4-bash-04", "RPC4-abort-bash-01", "RPC3-states-03")
def test_abort_bash_stops_a_command(story: Story) -> None:
    data = story.data("stopped")
    assert (data["output"], data["cancelled"]) == ("up\n", True)


@proves("RPC4-abort-bash-02")
def test_abort_bash_is_answered_with_plain_success(story: Story) -> None:
    assert is_plain_success(story.reply("abort"))
    assert is_plain_success(story.reply("abort nothing"))
