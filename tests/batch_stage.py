"""A batch of the real program in a lab, and a model that sees in a request how far an item is."""

import os
import re
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ludolf.base import dumps, loads
from tests.process.harness import PROGRAM, Finished, Lab
from tests.process.model_server import Asked, ModelServer
from tests.process.script import Answer, Gate, Reply, answer, bash, say

WAIT_SECONDS = 60.0
_ITEM = re.compile(r"Item (\w+)\.")


class ItemModel(ModelServer):
    """Answers by the item and the turn: commands first, then `Done ID.`.

    `held` are gates of items: their answers stop in the middle. `replies` replace answers of items.
    """

    def __init__(self, turns: int = 3) -> None:
        super().__init__()
        self._turns = turns
        self.asked: Counter[tuple[str, int]] = Counter()
        self.running = 0
        self.most_running = 0
        self.held: dict[str, Gate] = {}
        self.replies: dict[str, Callable[[int], Reply]] = {}

    def hold(self, *names: str) -> None:
        for name in names:
            self.held[name] = Gate()
            self.add_gates(self.held[name])

    def add_gates(self, *gates: Gate) -> None:
        """Open these gates at the end of the test, if they are still closed."""
        self._gates += gates

    def take(self, asked: Asked) -> Reply:
        name, turn = item_of(asked.body)
        with self._lock:
            self.requests.append(asked)
            self.asked[name, turn] += 1
        if name in self.replies:
            return self.replies[name](turn)
        gate = self.held.get(name)
        return self._answer(name, turn, gate)

    def _answer(self, name: str, turn: int, gate: Gate | None) -> Answer:
        pause = (gate,) if gate is not None else ()
        if turn < self._turns - 1:
            command = f"echo {turn} >> {name}.log"
            return answer(say(f"Step {turn}.", *pause), bash(command, f"call_{name}_{turn}"))
        return answer(say(f"Done {name}.", *pause))


def item_of(body: Mapping[str, Any]) -> tuple[str, int]:
    """The item that a request is about, and how many answers the conversation has."""
    found = _ITEM.search(dumps(body["messages"]).decode())
    assert found is not None
    return found[1], sum(each["role"] == "assistant" for each in body["messages"])


class BatchStage:
    """A folder with items, and the program that runs them."""

    def __init__(self, lab: Lab, names: Sequence[str], **more: Any) -> None:
        self.lab = lab
        self.out = lab.work / "tasks.batch"
        self.write(*({"id": name, **more} for name in names))

    def write(self, *items: Mapping[str, Any]) -> None:
        lines = b"".join(dumps(item) + b"\n" for item in items)
        (self.lab.work / "tasks.jsonl").write_bytes(lines)

    def words(self, *options: str) -> tuple[str, ...]:
        return (*PROGRAM, "batch", "tasks.jsonl", "Item {id}. Work.", *options)

    def run(self, *options: str, **env: str) -> Finished:
        """Run the batch to its end."""
        process = self.start(*options, **env)
        stdout, stderr = process.communicate(timeout=2 * WAIT_SECONDS)
        return Finished(process.returncode, stdout, stderr.decode())

    def start(self, *options: str, **env: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self.words(*options),
            cwd=self.lab.work,
            env={**self.lab.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @property
    def results(self) -> list[dict[str, Any]]:
        return _whole_lines(self.out / "results.jsonl")

    @property
    def started(self) -> list[dict[str, Any]]:
        return _whole_lines(self.out / "journal.jsonl")

    def by_id(self) -> dict[str, dict[str, Any]]:
        found = {result["id"]: result for result in self.results}
        assert len(found) == len(self.results)
        return found

    @property
    def workspaces(self) -> list[str]:
        return sorted(os.listdir(self.out / "work"))


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [loads(line) for line in lines]


def wait_until(is_so: Callable[[], Any], what: str) -> None:
    """Wait for another process; a busy machine may be slow."""
    until = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < until, f"never: {what}"
        time.sleep(0.005)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def is_gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in (b"Z", b"X")


def make_repository(path: Path, files: Mapping[str, str]) -> str:
    """Make a git repository with one commit; returns the commit."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    identity = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
    for words in (
        ("init", "-q", "-b", "main"),
        ("add", "-A"),
        (*identity, "commit", "-q", "-m", "first"),
    ):
        subprocess.run(("git", *words), cwd=path, check=True, capture_output=True)
    head = ("git", "rev-parse", "HEAD")
    return subprocess.run(head, cwd=path, check=True, capture_output=True).stdout.decode().strip()
