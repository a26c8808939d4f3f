"""Ways to make trouble for the real program: its disk, its clock, its rights, its memory."""

import io
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, Self

from ludolf.base import dumps, loads
from ludolf.client import Client, Record
from tests.process.harness import RPC, SOURCE, WAIT_SECONDS, Lab, Patient, write_all
from tests.process.script import answer

SHIM = Path(__file__).parent / "shim"
MIB = 1 << 20
# Root obeys no modes; without these rights it does, as everybody else.
_PLAIN = """
import ctypes, os, sys
if os.geteuid() == 0:
    for right in (1, 2, 3):
        ctypes.CDLL(None).prctl(24, right, 0, 0, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def shim_path() -> str:
    """What PYTHONPATH has to be for the shim to be loaded."""
    return os.pathsep.join((str(SHIM), str(SOURCE)))


def failing_disk(call: str, kind: str, *, first: int = 1, count: int = 1) -> dict[str, str]:
    """The environment of a program whose session files fail at the first-th call, `count` times."""
    plan = f"{call}:{kind}:{first}:{count}:.jsonl"
    return {"PYTHONPATH": shim_path(), "LUDOLF_TEST_DISK": plan}


def counted_disk(log: Path) -> dict[str, str]:
    """The environment of a program that notes each call on a session file."""
    plan = "none:none:0:0:.jsonl"
    return {
        "PYTHONPATH": shim_path(),
        "LUDOLF_TEST_DISK": plan,
        "LUDOLF_TEST_CALLS": str(log),
    }


class Clock:
    """A wall clock that is off; the program reads it anew each time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.jump(0)

    def jump(self, seconds: float) -> None:
        beside = self._path.with_suffix(".new")
        beside.write_text(str(seconds))
        beside.replace(self._path)

    @property
    def env(self) -> dict[str, str]:
        return {"PYTHONPATH": shim_path(), "LUDOLF_TEST_CLOCK": str(self._path)}


def fill_disk(pid: int, size: int = 0) -> None:
    """No file of the process may grow beyond this size from now on."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))


def free_disk(pid: int) -> None:
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


def plain_client(lab: Lab, *arguments: str) -> Client:
    """A program for which modes count even if root runs the tests."""
    program = (sys.executable, "-c", _PLAIN, *RPC)
    return Patient(*arguments, program=program, cwd=lab.work, env=lab.env)


def peak_bytes(pid: int) -> int:
    """The most memory that a process has held."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no such process")


# ---------------------------------------------------------------- bare pipes


class Pipes:
    """The program behind bare pipes; a test that fails leaves none behind."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self.stdin = process.stdin
        self.stdout: IO[bytes] = io.BufferedReader(process.stdout)  # type: ignore[type-var]

    @property
    def pid(self) -> int:
        return self.process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is not None:
            self.process.kill()
        self.stdout.close()
        self.process.__exit__(None, None, None)

    def say(self, command: str, **params: Any) -> None:
        """Send one command."""
        write_all(self.stdin, dumps({"type": command, **params}) + b"\n")

    def hear(self) -> Record:
        record: Record = loads(self.stdout.readline())
        return record

    def hear_until(self, kind: str, **fields: Any) -> list[Record]:
        """All records up to the first of a type with these fields."""
        told: list[Record] = []
        for line in self.stdout:
            told.append(loads(line))
            if told[-1]["type"] == kind and fields.items() <= told[-1].items():
                return told
        raise AssertionError(f"the output ended before {kind}: {told[-3:]}")

    def end(self, seconds: float = WAIT_SECONDS) -> int:
        """End the input and read all that is left; the exit code."""
        self.stdin.close()
        for _ in self.stdout:
            pass
        return self.process.wait(seconds)


def warm(lab: Lab, *words: str) -> Pipes:
    """A program that has answered once, and so has loaded all that an answer needs."""
    lab.server.add(answer("Ready."))
    pipes = Pipes(lab.popen(*words))
    pipes.say("prompt", message="Are you there?")
    pipes.hear_until("agent_settled")
    return pipes


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
