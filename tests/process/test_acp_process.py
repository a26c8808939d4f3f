"""`ludolf acp` as a process: its pipes, signals and exit codes, and the login of its terminal."""

import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import dumps, loads
from tests.process.harness import PROGRAM, WAIT_SECONDS, Lab, survivors, write_all
from tests.process.script import answer, bash

pytestmark = pytest.mark.exec

# One child in the command's group, one in a session of its own.
CHILDREN = "sleep 61 & echo $!; setsid sleep 62 & echo $!; echo up; wait"


class Agent:
    """The program with bare pipes."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.stdin, self.stdout = process.stdin, process.stdout

    def send(self, number: int, method: str, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        write_all(self.stdin, dumps(message) + b"\n")

    def response(self, number: int) -> Any:
        """Read up to the response to a request."""
        while True:
            message = loads(self.stdout.readline())
            if message.get("id") == number and "method" not in message:
                return message["result"]

    def open(self, cwd: Path) -> str:
        """Open a session; its id."""
        self.send(1, "initialize", protocolVersion=1)
        self.response(1)
        self.send(2, "session/new", cwd=str(cwd), mcpServers=[])
        return str(self.response(2)["sessionId"])


@contextmanager
def _agent(lab: Lab, *arguments: str) -> Iterator[Agent]:
    with subprocess.Popen(
        [*PROGRAM, *arguments],
        cwd=lab.work,
        env=lab.env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        try:
            yield Agent(process)
        finally:
            process.kill()


def _in_a_command(lab: Lab, agent: Agent) -> list[int]:
    """Have the model run a command that starts children; their process ids."""
    lab.server.add(answer(bash(CHILDREN)))
    session = agent.open(lab.work)
    blocks = [{"type": "text", "text": "Go"}]
    agent.send(3, "session/prompt", sessionId=session, prompt=blocks)
    for line in agent.stdout:
        update = loads(line).get("params", {}).get("update", {})
        shown = [
            item["content"]["text"] for item in update.get("content", ()) if "text" in str(item)
        ]
        if update.get("status") is None and shown and "up\n" in shown[0]:
            return [int(word) for word in shown[0].split() if word.isdecimal()]
    raise AssertionError("the command did not start")


def test_the_end_of_input_ends_the_program_and_its_commands(lab: Lab) -> None:
    with _agent(lab, "acp", "--approval", "never") as agent:
        pids = _in_a_command(lab, agent)
        agent.stdin.close()
        assert agent.response(3) == {"stopReason": "cancelled"}
        assert agent.process.wait(WAIT_SECONDS) == 0
        assert survivors(pids) == []


def test_a_signal_ends_the_program_and_its_commands(lab: Lab) -> None:
    with _agent(lab, "--mode", "acp", "--approval", "never") as agent:
        pids = _in_a_command(lab, agent)
        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(WAIT_SECONDS) == 143
        assert survivors(pids) == []


def test_a_client_that_stops_reading_ends_the_program(lab: Lab) -> None:
    with _agent(lab, "acp") as agent:
        agent.open(lab.work)
        agent.stdout.close()
        agent.send(3, "session/list")
        assert agent.process.wait(WAIT_SECONDS) == 1


def test_started_at_a_terminal_it_says_what_it_waits_for(lab: Lab) -> None:
    leader, terminal = pty.openpty()
    command = [*PROGRAM, "acp"]
    with subprocess.Popen(
        command,
        cwd=lab.work,
        env=lab.env,
        stdin=terminal,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stderr is not None
        assert b"Agent Client Protocol" in process.stderr.readline()
        os.close(terminal)
        os.close(leader)
        assert process.wait(WAIT_SECONDS) == 0


def test_the_login_of_the_mode_is_that_of_the_program_which_needs_a_terminal(lab: Lab) -> None:
    done = lab.run("--mode", "acp", "--login", program=(*PROGRAM, "--offline"))
    assert (done.code, "ludolf auth login PROVIDER" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("acp", "Hello"), "takes no messages"),
        (("acp", "-h"), "Agent Client Protocol"),
        (("help", "acp"), "Agent Client Protocol"),
    ],
)
def test_words_after_the_mode_are_checked(lab: Lab, words: tuple[str, ...], text: str) -> None:
    done = lab.run(*words)
    assert text in done.stdout.decode() + done.stderr
