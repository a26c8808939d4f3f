"""State of a benchmark run: programs with their homes, the model server, and the figures."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.agent import Agent, Silent, ending
from bench.programs import OURS, ROOT, Home, Program

Values = dict[str, list[float]]


class Stage:
    """A benchmark run; `figures` contains the values of all rounds per program and line."""

    def __init__(self, root: Path, port: int, programs: list[Program], *, quick: bool) -> None:
        self.programs = programs
        self.quick = quick
        self.root = root
        self.load_before = os.getloadavg()[0]
        self.figures: dict[str, Values] = {program.name: {} for program in programs}
        self.notes: dict[str, dict[str, str]] = {program.name: {} for program in programs}
        self._homes = {program.name: Home(root, program, port) for program in programs}

    @property
    def ours(self) -> Program:
        return next(program for program in self.programs if program.name == OURS)

    def home(self, program: Program) -> Home:
        return self._homes[program.name]

    def size(self, whole: int, quick: int) -> int:
        return quick if self.quick else whole

    def put(self, program: Program, key: str, value: float) -> None:
        self.figures[program.name].setdefault(key, []).append(value)
        say(f"  {program.name:8} {key:18} {value:.4g}")

    def put_all(self, program: Program, key: str, values: list[float]) -> None:
        """Add the values of a line that is measured several times in a round."""
        if values:
            self.figures[program.name].setdefault(key, []).extend(values)
            say(f"  {program.name:8} {key:18} {min(values):.4g} / {median(values):.4g}")

    def note(self, program: Program, key: str, text: str) -> None:
        """Record why a program has no figure on a line."""
        text = text.replace(str(self.root), "HOME")
        self.notes[program.name][key] = text
        say(f"  {program.name:8} {key:18} -- {text}")

    @contextmanager
    def agent(self, program: Program, *more: str, dialect: str = "pi-delta") -> Iterator[Agent]:
        """Start an agent, wait until it is ready, and end it on exit."""
        with ending(self.home(program).ready(*more, dialect=dialect)) as agent:
            yield agent

    def measure_module(self, program: Program, module: str, *arguments: str) -> None:
        """Run a module that prints figures as JSON, in the home of a program.

        Raises:
            OSError: it failed.
        """
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=self.root,
            env=self.home(program).env(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise OSError(done.stderr[-500:])
        for key, value in json.loads(done.stdout).items():
            self.put(program, key, value)

    def each(self, key: str, measure: Callable[[Program], None], *, others: bool = False) -> None:
        """Measure every program; errors are recorded as notes.

        An old pi is skipped if a current pi is measured too: it is only the base of the lines
        with whole messages. `others` includes programs with protocols of their own.
        """
        lean = any(program.is_lean for program in self.programs)
        for program in self.programs:
            is_old = lean and program.kind == "pi" and program.is_fat
            if not is_old and (others or not program.is_other):
                self.attempt(program, key, measure)

    def attempt(self, program: Program, key: str, measure: Callable[[Program], None]) -> None:
        try:
            measure(program)
        except (Silent, OSError) as problem:
            self.note(program, key, str(problem))


@contextmanager
def open_stage(programs: list[Program], *, quick: bool) -> Iterator[Stage]:
    with TemporaryDirectory(prefix="bench.") as folder, _model_server() as port:
        yield Stage(Path(folder), port, programs, quick=quick)


@contextmanager
def _model_server() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-m", "bench.model_server"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.kill()


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
