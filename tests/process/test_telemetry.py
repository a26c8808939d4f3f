"""Telemetry of the real program: one-shot runs, collectors that misbehave, kills, replay."""

import os
import signal
import socket
import time
from collections.abc import Iterator

import pytest

from ludolf.base import dumps
from tests.otlp_collector import Collector, collector
from tests.process.harness import PROGRAM, SOURCE, Finished, Lab
from tests.process.script import Gate, answer, bash, call, say

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
# The end takes at most two seconds; a busy machine may be much slower at everything else.
SLOW_END = 20.0


@pytest.fixture
def seen() -> Iterator[Collector]:
    with collector() as made:
        yield made


def report_to(lab: Lab, address: str, *words: str, **env: str) -> Finished:
    """Run the program with a collector at this address."""
    return lab.run(*words, stdin=b"", program=PROGRAM, **{ENDPOINT: address, **env})


def _script(lab: Lab) -> None:
    lab.server.add(answer(call("read", {"path": "a.txt"}, "c1"), bash("true")), answer("done"))
    (lab.work / "a.txt").write_text("apple")


TREE = [
    "invoke_agent ludolf",
    "  chat large",
    "  execute_tool read",
    "  execute_tool bash",
    "  chat large",
]


def test_a_printed_answer_has_the_same_trace_below_its_caller(lab: Lab, seen: Collector) -> None:
    _script(lab)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    done = report_to(lab, seen.address, "-p", "Go", TRACEPARENT=parent)
    assert (done.code, done.stdout, done.stderr) == (0, b"done\n", "")
    assert seen.tree() == TREE
    run = seen.one("invoke_agent ludolf")
    assert (run.trace, run.parent) == tuple(parent.split("-")[1:3])
    assert run.attributes["ludolf.mode"] == "print"
    chats = seen.named("chat large")
    assert {chat.attributes["server.address"] for chat in chats} == {"127.0.0.1"}
    names = {point.name for point in seen.points}
    assert names >= {"gen_ai.client.operation.duration", "gen_ai.client.token.usage"}
    assert names >= {"gen_ai.invoke_agent.duration", "gen_ai.execute_tool.duration"}
    labels = {label for point in seen.points for label in point.attributes}
    assert not labels & {"gen_ai.conversation.id", "gen_ai.tool.call.id", "gen_ai.agent.id"}
    assert [point.value for point in seen.metric("ludolf.runs")] == [0]


async def test_a_killed_program_is_reported_later_by_replay(lab: Lab, seen: Collector) -> None:
    gate = Gate()
    _script(lab)
    lab.server.add(answer(say("one", gate)))
    client = lab.client()
    async with client:
        await client.ask("prompt", message="Go")
        await client.collect("agent_settled")
        await client.ask("prompt", message="More")
        await client.collect("message_start")
        os.kill(client.process.pid, signal.SIGKILL)
    gate.open()
    done = report_to(lab, seen.address, "telemetry", "replay", "last")
    assert (done.code, done.stderr) == (0, "")
    assert done.stdout.startswith(b"Sent the spans of 2 prompts of 1 sessions.")
    assert seen.tree() == [*TREE, "invoke_agent ludolf"]
    first, last = sorted(seen.named("invoke_agent ludolf"), key=lambda span: span.start)
    assert first.attributes["ludolf.turns"] == 2
    assert last.attributes["ludolf.aborted"] is True
    assert first.end <= last.start
    assert seen.points == []


@pytest.mark.parametrize("fault", ["refuses", "hangs", "401", "503"])
def test_a_bad_collector_changes_neither_the_answer_nor_the_code(
    lab: Lab, seen: Collector, fault: str
) -> None:
    address = seen.address
    if fault == "refuses":
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    elif fault == "hangs":
        seen.hangs = True
    else:
        seen.status = int(fault)
    lab.server.add(answer("done"))
    since = time.monotonic()
    done = report_to(lab, address, "-p", "Go")
    assert time.monotonic() - since < SLOW_END
    assert (done.code, done.stdout) == (0, b"done\n")
    assert "Telemetry:" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_shows_the_answers_of_the_collector(lab: Lab, seen: Collector) -> None:
    done = report_to(lab, seen.address, "telemetry", "check")
    assert (done.code, done.stderr) == (0, "")
    lines = done.stdout.decode().splitlines()
    assert [line.split() for line in lines] == [
        [signal, f"{seen.address}/v1/{signal}", "accepted"]
        for signal in ("traces", "metrics", "logs")
    ]
    assert len(seen.spans) == len(seen.logs) == len(seen.points) == 1
    seen.status = 401
    done = report_to(lab, seen.address, "telemetry", "check")
    assert done.code == 1
    assert done.stdout.count(b"refused the credentials") == 3


def test_the_command_needs_a_collector(lab: Lab) -> None:
    done = lab.run("telemetry", "check")
    assert done.code == 1
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in done.stderr


def test_the_console_exporter_writes_to_stderr_only(lab: Lab) -> None:
    lab.server.add(answer("done"))
    done = lab.run("-p", "Go", OTEL_TRACES_EXPORTER="console")
    assert (done.code, done.stdout) == (0, b"done\n")
    assert '"name": "invoke_agent ludolf"' in done.stderr


def test_settings_turn_it_on_and_a_missing_destination_is_a_warning(lab: Lab) -> None:
    lab.server.add(answer("done"))
    done = lab.run("-p", "--telemetry", "Go")
    assert (done.code, done.stdout) == (0, b"done\n")
    assert "no destination" in done.stderr


def test_without_the_extra_a_wish_is_a_warning_and_a_variable_is_ignored(lab: Lab) -> None:
    """A package of the same name that cannot be imported stands for a missing one."""
    stub = lab.root / "stub" / "opentelemetry"
    stub.mkdir(parents=True)
    (stub / "__init__.py").write_text("raise ImportError('opentelemetry is missing')\n")
    lab.forks = False
    path = os.pathsep.join((str(stub.parent), str(SOURCE)))
    lab.server.add(answer("done"), answer("done"))
    done = report_to(lab, "http://127.0.0.1:9", "-p", "Go", PYTHONPATH=path)
    assert (done.code, done.stdout, done.stderr) == (0, b"done\n", "")
    done = report_to(lab, "http://127.0.0.1:9", "-p", "--telemetry", "Go", PYTHONPATH=path)
    assert (done.code, done.stdout) == (0, b"done\n")
    assert "pip install 'ludolf[otel]'" in done.stderr


def test_headers_of_the_settings_are_sent(lab: Lab, seen: Collector) -> None:
    lab.settings(telemetry={"endpoint": seen.address, "headers": {"x-team": "blue"}})
    lab.server.add(answer("done"))
    assert lab.run("-p", "Go").code == 0
    assert {headers["x-team"] for headers in seen.headers} == {"blue"}
    assert dumps(seen.one("invoke_agent ludolf").attributes).count(b"blue") == 0
