"""Print mode for programs: one JSON result, and answers that fit a schema."""

import signal
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import dumps, loads
from tests.process.harness import PROGRAM, WAIT_SECONDS, Finished, Lab
from tests.process.script import Failure, Gate, Tokens, answer, bash, call, say
from tests.process.test_progress import Terminal, shown

CITY = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}
BONN = {"name": "Bonn", "people": 330_000}
JSON = ("--output-format", "json")
REFUSED = Failure(status=400, body=b'{"error":{"message":"no such thing"}}')


def _schema(lab: Lab, schema: Any = CITY) -> tuple[str, str]:
    Path(lab.work, "schema.json").write_bytes(dumps(schema))
    return "--output-schema", "schema.json"


def _result(done: Finished) -> dict[str, Any]:
    (line,) = done.stdout.splitlines()
    result: dict[str, Any] = loads(line)
    assert result["type"] == "result"
    return result


# ---------------------------------------------------------------- one JSON object


def test_the_result_holds_answer_usage_cost_session_model_and_turns(lab: Lab) -> None:
    lab.server.add(answer("Looking.", bash("echo hi"), tokens=Tokens(input=10, output=5)))
    lab.server.add(answer("It says hi.", tokens=Tokens(input=20, output=7)))
    done = lab.run("-p", "Go", *JSON)
    assert (done.code, done.stderr) == (0, "")
    result = _result(done)
    (file,) = lab.sessions
    assert (result["text"], result["turns"]) == ("It says hi.", 2)
    assert (result["usage"]["input"], result["usage"]["output"]) == (30, 12)
    assert result["cost"] == result["usage"]["cost"]["total"]
    assert result["session"]["file"] == str(file)
    assert result["session"]["id"] in file.name
    assert (result["model"], result["stopReason"]) == ("claude/large", "stop")
    assert result["durationMs"] >= 0
    assert result.keys().isdisjoint({"structured", "error"})


def test_a_session_that_is_not_stored_has_no_file(lab: Lab) -> None:
    lab.server.add(answer("Hello."))
    session = _result(lab.run("-p", "Go", "--no-session", *JSON))["session"]
    assert list(session) == ["id"]


def test_a_failed_request_is_in_the_result_and_on_stderr(lab: Lab) -> None:
    lab.server.add(REFUSED)
    done = lab.run("-p", "Go", *JSON)
    result = _result(done)
    assert (done.code, result["stopReason"]) == (1, "error")
    assert "no such thing" in result["error"]
    assert done.stderr == result["error"] + "\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("-p", *JSON), "No prompt."),
        (("-p", "@none.txt", *JSON), "File not found"),
        (("-p", "Go", "--output-format=json", "--model", "none/such"), "none/such"),
        (("-p", "Go", "--max-turns", "0", *JSON), "--max-turns"),
    ],
)
def test_an_error_before_the_run_is_a_result_too(
    lab: Lab, words: tuple[str, ...], error: str
) -> None:
    done = lab.run(*words)
    assert done.code == 1
    assert error in _result(done)["error"]
    assert error in done.stderr
    assert lab.server.requests == []


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--output-format", "stream-json"), "--mode json prints every event"),
        (("--output-format", "xml"), "Valid values: text, json"),
        ((*JSON, "--mode", "rpc"), "--output-format needs print mode"),
        (("--output-schema", "none.json"), "--output-schema none.json: No such file"),
        (("--output-schema", "."), "--output-schema .: Is a directory"),
        (("--output-schema", "bad.json"), "--output-schema bad.json: this is not JSON"),
        (("--output-schema", "city.json"), "city.json: The output schema cannot be used"),
        (("--output-schema", "city.json", "--mode", "rpc"), "Hosts send outputSchema"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_runs(
    lab: Lab, words: tuple[str, ...], error: str
) -> None:
    Path(lab.work, "bad.json").write_text("{type")
    Path(lab.work, "city.json").write_text('{"type": "city"}')
    done = lab.run("-p", "Explain --output-format=json", *words)
    assert (done.code, done.stdout) == (1, b"")
    assert error in done.stderr
    assert lab.server.requests == []


def test_an_interrupted_run_ends_with_a_result(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("The harbour ", gate, "is closed."), size=100))
    with Terminal(lab, [*PROGRAM, "-p", "Go", *JSON]) as terminal:
        assert terminal.process.stdin is not None
        terminal.process.stdin.close()
        terminal.process.stdin = None
        terminal.wait_for("claude/large")
        terminal.process.send_signal(signal.SIGTERM)
        code, out = terminal.end()
        gate.open()
    assert code == 128 + signal.SIGTERM
    assert loads(out.encode())["error"].startswith("Interrupted")


# ---------------------------------------------------------------- answers that fit a schema


def test_stdout_holds_the_value_alone(lab: Lab) -> None:
    lab.server.add(answer("Looking.", bash("echo hi")), answer("So:", call("final_answer", BONN)))
    done = lab.run("-p", "Which city?", *_schema(lab))
    assert (done.code, done.stderr) == (0, "")
    assert loads(done.stdout) == BONN


def test_only_the_last_prompt_returns_a_value(lab: Lab) -> None:
    lab.server.add(answer("I see."), answer(call("final_answer", {"value": ["Bonn"]})))
    done = lab.run("-p", "Read it all", "Which cities?", *_schema(lab, {"type": "array"}), *JSON)
    result = _result(done)
    assert (done.code, result["structured"], result["turns"]) == (0, ["Bonn"], 2)
    offered = [[tool["name"] for tool in each.body["tools"]] for each in lab.server.requests]
    assert ["final_answer" in names for names in offered] == [False, True]


def test_an_answer_that_never_fits_is_an_error(lab: Lab) -> None:
    lab.server.add(*(answer("Bonn, I think.") for _ in range(3)))
    done = lab.run("-p", "Which city?", *_schema(lab))
    assert (done.code, done.stdout) == (1, b"")
    assert "did not call final_answer. It answered: Bonn, I think." in done.stderr


def test_json_mode_ends_with_the_value(lab: Lab) -> None:
    lab.server.add(answer(call("final_answer", BONN)))
    done = lab.run("--mode", "json", "Which city?", *_schema(lab))
    *_, output, settled = map(loads, done.stdout.splitlines())
    assert (done.code, settled["type"]) == (0, "agent_settled")
    assert output == {"type": "structured_output", "value": BONN}


def test_at_a_terminal_the_value_is_shown_alone_too(lab: Lab) -> None:
    lab.server.add(answer("So:", call("final_answer", BONN)))
    with Terminal(
        lab, [*PROGRAM, "-p", "Which city?", *_schema(lab)], whole=True, controls=True
    ) as terminal:
        assert terminal.process.wait(2 * WAIT_SECONDS) == 0
        terminal.end()
        seen = terminal.seen
    assert loads(shown(seen).encode()) == BONN
