"""A real `ludolf serve`, and the clients of a transcript on its socket."""

import json
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.examples.ground import Ground
from tests.frames import server_frames_in, server_frames_out
from tests.process.harness import WAIT_SECONDS
from tests.process.test_protocol_page import ANYTHING, fits, read_expected

FOLDER = "/home/me/demo"


class Served:
    """A server that runs; `said` is its first line."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        assert process.stdout is not None
        self.said = json.loads(process.stdout.readline())
        self.socket = str(self.said.get("socket"))
        self.url = str(self.said.get("url"))

    def end(self) -> int:
        """End it as a service manager does; returns its exit code."""
        self.process.terminate()
        return self.process.wait(WAIT_SECONDS)


@contextmanager
def served(ground: Ground, *options: str) -> Iterator[Served]:
    """`ludolf serve`, with a socket whose path is short enough for every system."""
    with tempfile.TemporaryDirectory(prefix="l", dir="/tmp") as folder:
        ground.env["XDG_RUNTIME_DIR"] = folder
        with ground.started("ludolf", "serve", *options) as process:
            yield Served(process)


class Client:
    """One client of a transcript; every frame that it reads is checked against the schema."""

    def __init__(self, place: str) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.settimeout(WAIT_SECONDS)
        self._connection.connect(place)
        self._lines = self._connection.makefile("rb")

    def send(self, text: str) -> None:
        server_frames_in().check(json.loads(text))
        self._connection.sendall(text.encode() + b"\n")

    def read(self) -> Any:
        try:
            frame = json.loads(self._lines.readline())
        except TimeoutError:
            return None
        server_frames_out().check(frame)
        return frame

    def cut(self) -> None:
        self._lines.close()
        self._connection.close()


class Transcript:
    """Plays the lines of one example, and remembers what its `$names` stand for."""

    def __init__(self, place: str, work: Path) -> None:
        self._place = place
        self._work = str(work)
        self._clients: dict[str, Client] = {}
        self._names: dict[str, Any] = {}
        self._may_skip: set[str] = set()

    def play(self, line: str) -> None:
        found = re.fullmatch(r"([a-z])([<>!])(?: (.*))?", line)
        assert found is not None, f"neither sent nor expected: {line}"
        name, direction, text = found[1], found[2], (found[3] or "").replace(FOLDER, self._work)
        if direction == "!":
            self._clients.pop(name).cut()
            return
        if name not in self._clients:
            self._clients[name] = Client(self._place)
        if direction == ">":
            known = re.sub(r'"(\$\w+)"', lambda one: json.dumps(self._names[one[1]]), text)
            self._clients[name].send(known)
        elif text == ANYTHING:
            self._may_skip.add(name)
        else:
            self._expect(name, text)

    def _expect(self, name: str, text: str) -> None:
        expected = read_expected(text)
        skipped: list[str] = []
        while (frame := self._clients[name].read()) is not None:
            known = dict(self._names)
            if fits(expected, frame, known):
                self._names = known
                self._may_skip.discard(name)
                return
            skipped.append(json.dumps(frame)[:300])
            if name not in self._may_skip:
                break
        pytest.fail(f"{name} did not read: {text}\nbut: " + "\n     ".join(skipped))

    def close(self) -> None:
        for client in self._clients.values():
            client.cut()
