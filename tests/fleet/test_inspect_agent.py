"""Ludolf as an agent of the real Inspect: scores, logs, limits, errors, a killed evaluation."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.inspect_peer import InspectPeer, fleet_environment

SOLVER = ("--solver", "ludolf/agent")


@pytest.fixture
def peer(tmp_path: Path) -> InspectPeer:
    return InspectPeer(fleet_environment(), tmp_path)


def _events(sample: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event for event in sample["events"] if event["event"] == kind]


def test_fifty_samples_are_solved_scored_and_recorded(peer: InspectPeer) -> None:
    done = peer.eval(*SOLVER, "-T", "samples=50")
    assert done.returncode == 0, done.stderr
    log = peer.log()
    assert log["status"] == "success"
    assert log["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 1
    assert len(log["samples"]) == 50
    usage = log["stats"]["model_usage"][peer.model]
    assert (usage["input_tokens"], usage["output_tokens"]) == (50 * 400, 50 * 40)
    assert usage["input_tokens_cache_read"] == 50 * 20
    for sample in log["samples"]:
        _check_sample(sample)


def _check_sample(sample: dict[str, Any]) -> None:
    roles = [message["role"] for message in sample["messages"]]
    assert roles == ["system", "user", *["assistant", "tool"] * 3, "assistant"]
    user, answer = sample["messages"][1], sample["messages"][2]
    assert (user["content"], user["source"]) == (sample["input"], "input")
    assert answer["content"][0]["reasoning"] == "step 0"
    assert answer["content"][0]["signature"] == "signed"
    assert sample["messages"][7]["error"]["message"].startswith("ENOENT: no such file")
    assert len(_events(sample, "model")) == 4
    tools = _events(sample, "tool")
    assert [event["function"] for event in tools] == ["write", "bash", "read"]
    assert [bool(event.get("error")) for event in tools] == [False, False, True]
    assert tools[1]["result"] == sample["target"]
    actions = Counter(event["action"] for event in _events(sample, "sandbox"))
    assert actions["write_file"] == 1


@pytest.mark.parametrize(
    ("mode", "option", "value"),
    [
        ("endless", "message", "7"),
        ("endless", "token", "400"),
        ("slow", "time", "4"),
    ],
)
def test_a_limit_of_inspect_ends_the_sample_which_is_scored(
    peer: InspectPeer, mode: str, option: str, value: str
) -> None:
    words = ("-T", "samples=2", "-T", f"mode={mode}", f"--{option}-limit", value)
    done = peer.eval(*SOLVER, *words)
    assert done.returncode == 0, done.stderr
    log = peer.log()
    assert log["status"] == "success"
    for sample in log["samples"]:
        assert (sample["limit"]["type"], sample["limit"]["limit"]) == (option, float(value))
        assert not sample.get("error")
        assert "match" in sample["scores"]
        assert sample["messages"][2]["role"] == "assistant"


def test_an_error_of_the_model_is_the_error_of_the_sample(peer: InspectPeer) -> None:
    peer.eval(*SOLVER, "-T", "samples=1", "-T", "mode=broken")
    log = peer.log()
    assert log["status"] == "error"
    assert log["samples"][0]["error"]["message"] == "RuntimeError('the model is out of order')"
    assert len(_events(log["samples"][0], "model")) == 1  # our retries are off


def test_a_killed_evaluation_continues_with_the_samples_that_are_not_done(
    peer: InspectPeer,
) -> None:
    words = ("-T", "samples=6", "--max-samples", "2", "--log-buffer", "1")
    flag = {"TEST_KILL_FLAG": str(peer.folder / "killed"), "TEST_KILL_SAMPLE": "word4"}
    assert peer.eval(*SOLVER, *words, **flag).returncode == -9
    stopped = peer.log()
    assert stopped["status"] == "started"
    before = {sample["uuid"] for sample in stopped["samples"]}
    assert before
    file = next(peer.logs.glob("*.eval"))
    again = peer.run("eval-retry", str(file), "--display", "plain", "--log-dir", str(peer.logs))
    assert again.returncode == 0, again.stderr
    log = peer.log()
    assert log["status"] == "success"
    assert log["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 1
    assert before < {sample["uuid"] for sample in log["samples"]}


def test_a_begun_conversation_continues_with_the_tools_of_both(peer: InspectPeer) -> None:
    done = peer.eval(task="conversation")
    assert done.returncode == 0, done.stderr
    log = peer.log()
    sample = log["samples"][0]
    assert log["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 1, sample["output"]
    roles = [message["role"] for message in sample["messages"]]
    assert roles[:5] == ["system", "user", "assistant", "user", "assistant"]
    assert roles[5:] == ["tool", "tool", "assistant", "tool", "assistant"]
    assert "Instructions of the sample." in sample["messages"][0]["content"]
    given = {message["id"] for message in sample["input"]}
    assert {message["id"] for message in sample["messages"][1:4]} < given
    names = {event["function"] for event in _events(sample, "tool")}
    assert names == {"shout", "write", "ls"}
    declared = [tool["name"] for tool in _events(sample, "model")[0]["tools"]]
    assert sorted(declared) == ["ls", "shout", "write"]


def test_a_model_of_ludolf_answers_if_it_is_named(peer: InspectPeer) -> None:
    done = peer.eval(*SOLVER, "-T", "samples=1", "-S", "model=ludolf/offline")
    assert done.returncode == 0, done.stderr
    sample = peer.log()["samples"][0]
    assert [message["role"] for message in sample["messages"]] == ["user", "assistant"]
    assert sample["output"]["choices"][0]["message"]["content"]
    assert _events(sample, "model") == []


def test_the_program_in_the_sandbox_asks_the_model_of_the_evaluation(peer: InspectPeer) -> None:
    done = peer.eval(*SOLVER, "-T", "samples=1", "-S", "where=sandbox")
    assert done.returncode == 0, done.stderr
    log = peer.log()
    assert log["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 1
    assert len(_events(log["samples"][0], "model")) == 4


def test_an_unknown_tool_is_named(peer: InspectPeer) -> None:
    peer.eval(*SOLVER, "-T", "samples=1", "-S", "builtin_tools=read,shell")
    error = peer.log()["samples"][0]["error"]["message"]
    assert "Unknown in builtin_tools: shell. Tools are: read, bash" in error
