"""acpx, a client of ACP, with `ludolf acp`, and with pi-acp, which adapts `pi --mode rpc`."""

import os
import signal
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from ludolf.base import loads
from tests.clients.ground import (
    PATIENCE_SECONDS,
    Ground,
    check_session,
    only_if_asked,
    there,
)
from tests.process.harness import survivors
from tests.process.script import answer

pytestmark = [only_if_asked, pytest.mark.timeout(120)]


Said = list[dict[str, Any]]


class Acp:
    """acpx with an agent: pi-acp, which starts this program by one variable, or `ludolf acp`."""

    def __init__(self, ground: Ground, agent: str) -> None:
        self._cwd = ground.lab.work
        node, modules = there("bin", "node"), there("npm", "node_modules")
        self._words = (
            *(str(node), str(modules / "acpx" / "dist" / "cli.js")),
            *("--agent", agent),
            *("--format", "json", "--approve-all"),
        )
        self._env = {**ground.env, "PI_ACP_PI_COMMAND": str(ground.command)}

    def start(self, *words: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [*self._words, *words],
            cwd=self._cwd,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *words: str) -> Said:
        """Run to the end; all that it said."""
        with self.start(*words) as process:
            return self.finish(process)

    def finish(self, process: "subprocess.Popen[bytes]") -> Said:
        """What it says until its end."""
        out, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0, (out + errors).decode()
        return [loads(line) for line in out.splitlines()]


@pytest.fixture
def acp(ground: Ground) -> Iterator[Acp]:
    modules = there("npm", "node_modules")
    agent = f"{there('bin', 'node')} {modules / 'pi-acp' / 'dist' / 'index.js'}"
    yield from _serving(Acp(ground, agent))


@pytest.fixture
def native(ground: Ground) -> Iterator[Acp]:
    yield from _serving(Acp(ground, f"{ground.command} acp"))


def _serving(made: Acp) -> Iterator[Acp]:
    yield made
    # Nobody goes on serving a session, however the test went.
    with made.start("sessions", "close") as process:
        process.communicate(timeout=PATIENCE_SECONDS)


def updates(said: Said) -> Said:
    return [one["params"]["update"] for one in said if one.get("method") == "session/update"]


def spoken(said: Said) -> str:
    chunks = [one for one in updates(said) if one["sessionUpdate"] == "agent_message_chunk"]
    return "".join(one["content"]["text"] for one in chunks).strip()


def tools(said: Said) -> list[tuple[str, str]]:
    """How each call of a tool went on, repeats told once."""
    calls = [one for one in updates(said) if one["sessionUpdate"].startswith("tool_call")]
    steps = [(one["toolCallId"], one["status"]) for one in calls if "status" in one]
    return list(dict.fromkeys(steps))


def stop_reason(said: Said) -> str:
    return str(said[-1]["result"]["stopReason"])


def test_one_prompt_runs_with_its_tools(ground: Ground, acp: Acp) -> None:
    said = acp.run("exec", "Write hello.txt")
    assert tools(said) == [
        (call, status)
        for call in ("call_1", "call_2")
        for status in ("pending", "in_progress", "completed")
    ]
    assert spoken(said) == "I will.And look.The file says hi."
    assert stop_reason(said) == "end_turn"
    assert (ground.lab.work / "hello.txt").read_text() == "hi\n"
    (opened,) = [one["result"] for one in said if "sessionId" in one.get("result", {})]
    models = [model["modelId"] for model in opened["models"]["availableModels"]]
    assert models == ["claude/large", "chat/large", "responses/large", "gemini/large"]
    (session,) = ground.lab.sessions
    assert session.stem.endswith(opened["sessionId"])


def test_a_session_goes_on_is_cancelled_and_comes_back(ground: Ground, acp: Acp) -> None:
    lab = ground.lab
    acp.run("sessions", "new")
    assert stop_reason(acp.run("prompt", "Write hello.txt")) == "end_turn"
    with acp.start("prompt", "Wait for the gate") as process:
        (lab.work / "gate").write_text("open\n")
        assert stop_reason(acp.finish(process)) == "end_turn"
    cancelled = cancel_in_its_tool(acp)
    assert ("call_4", "failed") in tools(cancelled)
    assert stop_reason(cancelled) == "cancelled"
    (set_,) = acp.run("set", "model", "chat/large")
    assert set_["modelId"] == "chat/large"
    acp.run("set", "thought_level", "low")
    ((listed,), (status,)) = (acp.run("sessions"), acp.run("status"))
    assert [one["title"] for one in listed["sessions"]] == ["Write hello.txt"]
    assert status["mode"] == "low"
    (session,) = lab.sessions
    check_session(session, lab.work)
    # Whoever serves the session ends; the next prompt loads its file.
    os.kill(status["pid"], signal.SIGTERM)
    assert survivors([status["pid"]], seconds=10) == []
    lab.server.add(answer("I am back."))
    assert spoken(acp.run("prompt", "Come back")).endswith("I am back.")
    assert "The file says hi." in str(lab.server.requests[-1].body["messages"])


def test_one_prompt_runs_without_an_adapter(ground: Ground, native: Acp) -> None:
    said = native.run("exec", "Write hello.txt")
    assert tools(said) == [
        (call, status)
        for call in ("call_1", "call_2")
        for status in ("pending", "in_progress", "completed")
    ]
    assert spoken(said) == "I will.And look.The file says hi."
    assert stop_reason(said) == "end_turn"
    assert (ground.lab.work / "hello.txt").read_text() == "hi\n"


def test_a_session_without_an_adapter_is_cancelled_and_comes_back(
    ground: Ground, native: Acp
) -> None:
    lab = ground.lab
    native.run("sessions", "new")
    assert stop_reason(native.run("prompt", "Write hello.txt")) == "end_turn"
    with native.start("prompt", "Wait for the gate") as process:
        (lab.work / "gate").write_text("open\n")
        assert stop_reason(native.finish(process)) == "end_turn"
    cancelled = cancel_in_its_tool(native)
    assert ("call_4", "failed") in tools(cancelled)
    assert stop_reason(cancelled) == "cancelled"
    native.run("set", "model", "chat/large")
    native.run("set", "mode", "auto")
    (status,) = native.run("status")
    (session,) = lab.sessions
    check_session(session, lab.work)
    os.kill(status["pid"], signal.SIGTERM)
    assert survivors([status["pid"]], seconds=10) == []
    lab.server.add(answer("I am back."))
    assert spoken(native.run("prompt", "Come back")).endswith("I am back.")
    assert "The file says hi." in str(lab.server.requests[-1].body["messages"])


def cancel_in_its_tool(acp: Acp) -> Said:
    said: Said = []
    with acp.start("prompt", "Sleep") as process:
        assert process.stdout is not None
        for line in process.stdout:
            said.append(loads(line))
            if ("call_4", "in_progress") in tools(said):
                break
        acp.run("cancel")
        return said + acp.finish(process)
