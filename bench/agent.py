"""Client of one measured agent: sends commands, records frames and their times.

A single thread drives all agents and reads while it waits, so that only the pipe delays a reply.
Frames are parsed only as far as the figures need it.
"""

import contextlib
import json
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from bench.process import Memory, family, family_cpu_seconds, memory

A = TypeVar("A", bound="Agent")
READ = 1 << 20
_F_SETPIPE_SZ = 1031
_TYPE = re.compile(rb'"type":\s*"([a-z_]+)"')
_ENDS = ("agent_settled", "agent_end")
_SHOWN = 4096


class Silent(RuntimeError):
    """Raised when an expected frame does not arrive in time, or a command is refused."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of one prompt, until the agent was idle again."""

    wall: float
    cpu: float
    bytes_out: int
    updates: int
    first_update: float | None


class Agent:
    # Seconds for one run.
    patience = 900.0

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], cwd: Path, *, settles: bool
    ) -> None:
        self._cwd = cwd
        self._errors = open(cwd / "stderr.txt", "ab")  # noqa: SIM115  # closed with the process
        self.started = time.perf_counter()
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=dict(env),
            cwd=cwd,
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._out, selectors.EVENT_READ)
        os.set_blocking(self._in, False)
        _enlarge(self._out)
        self._end_of_run = _ENDS[0] if settles else _ENDS[1]
        self._parts: list[bytes] = []
        self._number = 0
        self._replies: dict[str, dict[str, Any]] = {}
        self.ended = False
        self.failure = ""
        self.bytes_out = 0
        self.updates = 0
        self.shell_updates = 0
        self.events: list[tuple[float, str]] = []
        self.first_update: float | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu(self) -> float:
        """Return the CPU seconds of the program and its live child processes."""
        return family_cpu_seconds(self.pid)

    def memory(self) -> Memory:
        return memory(self.pid)

    # ------------------------------------------------------------ output

    def send(self, kind: str, **fields: Any) -> str:
        """Write a command; returns its id."""
        self._number += 1
        name = f"q{self._number}"
        self.write(json.dumps({"id": name, "type": kind, **fields}).encode() + b"\n")
        return name

    def write(self, data: bytes) -> None:
        """Write all data, reading output of the agent meanwhile.

        Raises:
            Silent: the agent has ended.
        """
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._in, left) :]
            except BrokenPipeError:
                raise Silent("the program ended") from None
            except BlockingIOError:
                with selectors.DefaultSelector() as both:
                    both.register(self._in, selectors.EVENT_WRITE)
                    both.register(self._out, selectors.EVENT_READ)
                    ready = [key.fd for key, _ in both.select()]
                if self._out in ready:
                    self._take()

    def ask(self, kind: str, timeout: float = 60, **fields: Any) -> dict[str, Any]:
        """Send a command and return its reply, with its time as `at`.

        Raises:
            Silent: no reply in time, or the command was refused.
        """
        reply = self.reply(self.send(kind, **fields), timeout)
        if not reply.get("success"):
            raise Silent(f"{kind} was refused: {str(reply.get('error'))[:200]}")
        return reply

    def greet(self) -> float:
        """Ask for the first reply of the program; returns its time."""
        return float(self.ask("get_state")["at"])

    def open_session(self) -> float:
        """Open a session for prompts; returns the time of the answer. RPC mode starts with one."""
        return time.perf_counter()

    def prompt(self, text: str) -> None:
        """Send a prompt; `is_idle` says when its run has ended."""
        self.send("prompt", message=text)

    def reply(self, name: str, timeout: float = 60) -> dict[str, Any]:
        self.wait(lambda: name in self._replies, timeout, f"reply to {name}")
        return self._replies.pop(name)

    # ------------------------------------------------------------ input

    def wait(self, done: Callable[[], bool], timeout: float, what: str = "event") -> None:
        """Read until the condition holds.

        Raises:
            Silent: the timeout expired, the agent ended, or it reported a failed run.
        """
        deadline = time.perf_counter() + timeout
        while not done():
            left = deadline - time.perf_counter()
            if self.failure:
                raise Silent(self.failure)
            if self.ended:
                raise Silent(f"no {what}: the program ended")
            if left <= 0:
                raise Silent(f"no {what} within {timeout:.0f} s")
            if self._selector.select(left):
                self._take()

    def rest(self, seconds: float) -> None:
        """Read for this many seconds."""
        deadline = time.perf_counter() + seconds
        while (left := deadline - time.perf_counter()) > 0:
            if self._selector.select(left):
                if self.ended:
                    time.sleep(left)
                    return
                self._take()

    def is_idle(self, since: int) -> bool:
        """Return whether a run has ended since the event of this number."""
        return any(name == self._end_of_run for _, name in self.events[since:])

    def run(self, prompt: str, timeout: float | None = None) -> Run:
        """Send a prompt and wait until the agent is idle again."""
        since, updates, sizes = len(self.events), self.updates, self.bytes_out
        self.first_update = None
        cpu, start = self.cpu(), time.perf_counter()
        self.prompt(prompt)
        self.wait(lambda: self.is_idle(since), timeout or self.patience, f"end of {prompt[:40]!r}")
        end = next(at for at, kind in self.events[since:] if kind == self._end_of_run)
        self.rest(0.05)  # pending writes belong to the run
        return Run(
            wall=end - start,
            cpu=self.cpu() - cpu,
            bytes_out=self.bytes_out - sizes,
            updates=self.updates - updates,
            first_update=None if self.first_update is None else self.first_update - start,
        )

    def _take(self) -> None:
        data = os.read(self._out, READ)
        now = time.perf_counter()
        self.bytes_out += len(data)
        if not data:
            self.ended = True
            return
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = b"".join((*self._parts, lines[0]))
            self._parts = []
            for line in lines:
                self._line(line, now)
        if rest:
            self._parts.append(rest)

    def _count_delta(self, now: float) -> None:
        self.updates += 1
        if self.first_update is None:
            self.first_update = now

    def _end_run(self, now: float, *, failed: bool, line: bytes) -> None:
        """Record the end of a run, or why it failed."""
        if failed:
            self.failure = f"the run failed: {line[-300:].decode(errors='replace')}"
        else:
            self.events.append((now, self._end_of_run))

    def _line(self, line: bytes, now: float) -> None:
        head = line[:96]
        if b'"message_update"' in head:
            self._count_delta(now)
        elif b'"bash_execution_update"' in head or b'"bash_output"' in head:
            self.shell_updates += 1
        elif b'"response"' in head:
            self._keep(line, now)
        elif match := _TYPE.search(line[:_SHOWN]):
            self.events.append((now, match[1].decode()))

    def _keep(self, line: bytes, now: float) -> None:
        reply = msgspec.json.decode(line)
        self._replies[str(reply.get("id"))] = {**reply, "at": now, "size": len(line)}

    # ------------------------------------------------------------ the end

    def close(self, patience: float = 10) -> None:
        """Close stdin, and kill the agent if it does not exit."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        deadline = time.perf_counter() + patience
        while not self.ended and time.perf_counter() < deadline:
            if self._selector.select(0.2):
                self._take()
        try:
            self._process.wait(max(0.1, deadline - time.perf_counter()))
        except subprocess.TimeoutExpired:
            self.kill()
        self._release()

    def kill(self) -> None:
        for each in family(self.pid):
            try:
                os.kill(each, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()

    def _release(self) -> None:
        assert self._process.stdout is not None
        self._selector.close()
        self._process.stdout.close()
        self._errors.close()


def _enlarge(pipe: int) -> None:
    import fcntl

    with contextlib.suppress(OSError):  # the user's limit for large pipes may be reached
        fcntl.fcntl(pipe, _F_SETPIPE_SZ, READ)


@contextlib.contextmanager
def ending(agent: A) -> Iterator[A]:
    """End an agent on exit; after an error at once."""
    try:
        yield agent
    except BaseException:
        agent.kill()
        raise
    finally:
        agent.close()
