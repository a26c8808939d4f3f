"""Starting the program: options, modes, and what belongs to the protocol."""

from typing import Any

import pytest

from ludolf.base import loads
from tests.conformance.proof import proves
from tests.conformance.stage import Stage, ask, prompts
from tests.process.harness import only, text_of, types
from tests.process.script import answer, bash

STATE = b'{"type":"get_state"}\n'


async def _state(stage: Stage, *arguments: str) -> Any:
    """The state right after a start with these arguments."""
    async with stage.client(*arguments) as client:
        return await client.ask("get_state")


async def _model(stage: Stage, *arguments: str) -> tuple[str, str]:
    model = (await _state(stage, *arguments))["model"]
    return model["provider"], model["id"]


@pytest.mark.exec
@proves("RPC4-start-01", "RPC3-overview-01", "RPC3-modes-02")
@proves("RPC2-intro-01", "RPC2-start-01")
async def test_the_process_stays_for_one_prompt_after_another(stage: Stage) -> None:
    stage.server.add(answer("One."), answer("Two."))
    async with stage.client() as client:
        for said in ("One.", "Two."):
            await ask(stage, client, said)
        assert (await client.request("get_state"))["success"]
    ends = only([loads(line) for line in stage.lines], "agent_end")
    assert [text_of(end["messages"][-1]) for end in ends] == ["One.", "Two."]


@proves("RPC4-start-02", "RPC4-start-03")
@proves("RPC2-start-02", "RPC2-start-03")
async def test_provider_and_model_choose_who_answers(stage: Stage) -> None:
    assert await _model(stage, "--provider", "gemini", "--model", "large") == ("gemini", "large")
    stage.add_model("chat", id="tiny-1")
    assert await _model(stage, "--model", "tiny-1") == ("chat", "tiny-1")


@proves("RPC4-start-04")
async def test_a_part_of_a_models_name_is_enough(stage: Stage) -> None:
    stage.add_model("chat", id="tiny-quick-1")
    assert await _model(stage, "--model", "quick") == ("chat", "tiny-quick-1")


@proves("RPC4-start-05", "RPC4-start-06")
async def test_a_model_is_named_with_its_provider_and_a_level(stage: Stage) -> None:
    state = await _state(stage, "--model", "responses/large:low")
    assert (state["model"]["provider"], state["thinkingLevel"]) == ("responses", "low")


@proves("RPC0-launch-01", "RPC0-launch-05", "RPC0-launch-06", "RPC0-error-07")
def test_options_count_and_the_end_of_input_ends_the_process(stage: Stage) -> None:
    options = ("--model", "chat/large", "--thinking", "low", "--no-session")
    done = stage.run("--mode", "rpc", *options, stdin=STATE)
    ready, reply = done.records
    assert (done.code, ready["type"]) == (0, "ready")
    state = reply["data"]
    assert (state["model"]["provider"], state["thinkingLevel"]) == ("chat", "low")
    assert "sessionFile" not in state


@proves("RPC4-start-07", "RPC4-start-08", "RPC4-session-name-05")
async def test_a_session_can_be_named_at_start(stage: Stage) -> None:
    assert (await _state(stage, "--name", "my work"))["sessionName"] == "my work"
    assert (await _state(stage, "-n", "other work"))["sessionName"] == "other work"


@proves("RPC4-start-09")
@proves("RPC2-start-04")
async def test_no_session_stores_nothing(stage: Stage) -> None:
    stage.server.add(answer("Hi."))
    async with stage.client("--no-session") as client:
        await ask(stage, client, "Hello")
        if stage.dialect != "pi-early":
            assert "sessionFile" not in await client.ask("get_state")
    assert stage.sessions == []


@proves("RPC4-start-10")
@proves("RPC2-start-05")
async def test_sessions_are_stored_where_session_dir_says(stage: Stage) -> None:
    stage.server.add(answer("Hi."))
    folder = stage.root / "elsewhere"
    async with stage.client("--session-dir", str(folder)) as client:
        await ask(stage, client, "Hello")
    assert len(list(folder.rglob("*.jsonl"))) == 1
    assert stage.sessions == []


# ---------------------------------------------------------------- JSON mode beside RPC mode


@proves("RPC3-modes-01", "RPC3-events-04")
async def test_json_mode_runs_once_and_tells_the_same_events(stage: Stage) -> None:
    script = answer("Look.", bash("echo hi"), size=1000), answer("Done.", size=1000)
    stage.server.add(*script, *script)
    done = stage.run("--mode", "json", "Go")
    async with stage.client("--no-session") as client:
        told = await client.prompt_and_collect("Go")
    header, *events = done.records
    assert (done.code, header["type"]) == (0, "session")
    assert types(events) == types(told)
    assert [sorted(event) for event in events] == [sorted(event) for event in told]


# ---------------------------------------------------------------- stdin belongs to the protocol


@proves("RPC3-limits-01")
def test_text_that_is_piped_in_is_no_message(stage: Stage) -> None:
    done = stage.run("--mode", "rpc", stdin=b"please explain this\n" + STATE)
    refused, state = done.records
    assert (refused["command"], refused["success"]) == ("parse", False)
    assert state["data"]["messageCount"] == 0
    assert stage.server.requests == []


@proves("RPC3-limits-02")
@proves("RPC0-launch-02")
def test_file_arguments_are_refused(stage: Stage) -> None:
    (stage.work / "a.txt").write_text("hi")
    done = stage.run("--mode", "rpc", "@a.txt", stdin=STATE)
    assert (done.code, done.stdout) == (1, b"")
    assert "@file" in done.stderr


@proves("RPC3-limits-03")
async def test_a_host_puts_a_file_into_its_prompt(stage: Stage) -> None:
    stage.server.add(answer("I see."))
    text = "Explain:\n```\ndef f():\n\treturn 1\n```\n@not-a-file"
    async with stage.client() as client:
        await client.prompt_and_collect(text)
    assert prompts(stage.server.requests[0])[-1] == text


@proves("RPC3-overview-02", "RPC3-overview-03", "RPC3-events-03", "RPC3-steps-01")
async def test_every_line_of_stdout_is_a_reply_or_an_event(stage: Stage) -> None:
    stage.server.add(answer("Look.", bash("echo hi")), answer("Done."))
    async with stage.client() as client:
        await client.prompt_and_collect("Go")
        await client.request("get_messages")
        await client.process.write(b"nonsense\n")
        await client.wait_for("response")
    records = [loads(line) for line in stage.lines]
    assert all(isinstance(record["type"], str) for record in records)
    commands = [record["command"] for record in records if record["type"] == "response"]
    assert commands == ["prompt", "get_messages", "parse"]
    assert all("command" not in one for one in records if one["type"] != "response")
