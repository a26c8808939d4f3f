"""`ludolf serve` as a real program, with the home of a lab."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ludolf.base import loads
from tests.process.forks import ForkedProgram
from tests.process.harness import WAIT_SECONDS, Lab


class RunningServer:
    def __init__(self, program: Any, address: str) -> None:
        self.program = program
        self.address = address

    def kill(self) -> None:
        self.program.send_signal(signal.SIGKILL)
        self.program.wait(WAIT_SECONDS)


@contextmanager
def running_server(
    lab: Lab, name: str = "serve", path: Path | None = None
) -> Iterator[RunningServer]:
    """A server on a Unix socket in the agent folder, where other programs find it, or elsewhere."""
    path = path or lab.agent / "run" / f"{name}.sock"
    words = ["serve", "--socket", str(path)]
    program: Any = ForkedProgram(words, str(lab.work), lab.env)
    with program:
        try:
            first = loads(program.stdout.readline())
            assert first["socket"] == str(path)
            yield RunningServer(program, f"unix:{path}")
        finally:
            if program.poll() is None:
                program.send_signal(signal.SIGTERM)
            program.wait(WAIT_SECONDS)
