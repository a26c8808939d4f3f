"""Where the clients of others are installed, the command they start, and the talk they have."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import loads
from tests.process.extending import lay
from tests.process.harness import Lab, messages, read_entries, text_of
from tests.process.script import answer, bash, call

FOLDER = os.environ.get("LUDOLF_TEST_CLIENTS", "")
HOSTS = Path(__file__).parent / "hosts"
PATIENCE_SECONDS = 60.0
MODELS = ["claude/large", "chat/large", "responses/large", "gemini/large"]
SESSION_NAME = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z_[0-9a-f-]{36}\.jsonl")
# One turn with a tool, as every host of the family may count on it.
TOOL_TURN = [
    "turn_start",
    "message_start",
    "message_update",
    "message_end",
    "tool_execution_start",
    "tool_execution_end",
    "message_start",
    "message_end",
    "turn_end",
]
FIRST = [
    "agent_start",
    "turn_start",
    *("message_start", "message_end"),
    *TOOL_TURN[1:],
    *TOOL_TURN,
    *("turn_start", "message_start", "message_update", "message_end", "turn_end"),
    "agent_end",
]
# An extension that asks the user, whom only the host knows.
ASKING = """
def extension(api):
    @api.command("ask")
    async def ask(args, ctx):
        said = await ctx.ui.confirm("Go on?", "May I?")
        ctx.ui.notify(f"The user said {said}")
"""

Report = dict[str, Any]
only_if_asked = pytest.mark.skipif(
    not FOLDER, reason="clients of others are tried by `make test-clients`"
)


def there(*names: str) -> Path:
    """A place in the folder of the clients; skips where it is not there."""
    path = Path(FOLDER, *names)
    if not path.exists():
        pytest.skip(f"{path} is not there: run `make test-clients`")
    return path


def client_python(package: str) -> Path:
    """The Python that has this package; skips where it could not be installed."""
    folder = there("python")
    if not list(folder.glob(f"lib/python*/site-packages/{package}/__init__.py")):
        pytest.skip(f"{package} is not installed in {folder}")
    return folder / "bin" / "python"


class Ground:
    """A lab, and in it a command for hosts to start instead of `pi`."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.bin = lab.root / "bin"
        self.bin.mkdir()
        self.command = self._command()
        self.extension = lay(lab, ASKING)
        os.mkfifo(lab.work / "gate")

    def _command(self) -> Path:
        path = self.bin / "ludolf"
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ludolf "$@"\n')
        path.chmod(0o755)
        return path

    @property
    def env(self) -> dict[str, str]:
        found = self.lab.env
        path = os.pathsep.join((str(self.bin), str(Path(FOLDER, "bin")), found["PATH"]))
        return {**found, "PATH": path, "HOST_COMMAND": str(self.command)}

    def run(self, *words: str | Path, **env: str) -> Report:
        """Run a host to its end; it says at last, in one line of JSON, what it saw."""
        done = subprocess.run(
            [str(word) for word in words],
            cwd=self.lab.work,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, (done.stdout[-4000:] + done.stderr[-8000:]).decode()
        report: Report = loads(done.stdout.splitlines()[-1])
        return report

    def play(self) -> None:
        """What the model says in the talk: two tools and an answer; a wait; a sleep."""
        self.lab.server.add(
            answer("I will.", call("write", {"path": "hello.txt", "content": "hi\n"}, "call_1")),
            answer("And look.", bash("cat hello.txt", "call_2")),
            answer("The file says hi."),
            answer("Waiting.", bash("cat gate", "call_3")),
            answer("Steered."),
            answer("Sleeping.", bash("sleep 60", "call_4")),
        )

    def alias(self, name: str) -> Path:
        """The program under the name of another, made by its own command."""
        done = self.lab.run("install-alias", name, "--dir", str(self.bin))
        assert done.code == 0, done.stderr
        return self.bin / name


# ---------------------------------------------------------------- what every host must have seen


def in_order(events: list[str], left_out: tuple[str, ...] = ()) -> list[str]:
    """The kinds of events one after another, repeats told once; progress is not counted."""
    skipped = ("tool_execution_update", "queue_update", "agent_settled", *left_out)
    kept = [event for event in events if event not in skipped]
    return [kind for at, kind in enumerate(kept) if at == 0 or kept[at - 1] != kind]


def check_first_prompt(ground: Ground, events: list[str], text: str) -> None:
    assert in_order(events) == FIRST
    assert text == "The file says hi."
    assert (ground.lab.work / "hello.txt").read_text() == "hi\n"


def check_steering(ground: Ground, text: str) -> None:
    """The steered message went to the model behind the tool's result."""
    assert text == "Steered."
    body = ground.lab.server.requests[4].body
    assert "Never mind the rest" in str(body["messages"][-1])
    assert "open" in str(body["messages"])


def check_session(path: Path, cwd: Path) -> None:
    """The file has the name, the place and the content that hosts read for themselves."""
    assert SESSION_NAME.fullmatch(path.name)
    assert path.parent.name == f"--{str(cwd.resolve()).strip('/').replace('/', '-')}--"
    said = messages(read_entries(path))
    roles = [message["role"] for message in said]
    assert roles[:6] == ["user", "assistant", "toolResult", "assistant", "toolResult", "assistant"]
    assert text_of(said[4]) == "hi\n"
    stopped = [m for m in said if m["role"] == "toolResult" and m["toolCallId"] == "call_4"]
    assert [message["isError"] for message in stopped] == [True]
