"""A terminal program in a pseudo-terminal: keys in, bytes out, with the time of both."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.agent import Silent
from bench.process import Memory, cpu_seconds, family, memory
from bench.programs import Home

COLUMNS, LINES = 100, 30
PATIENCE = 60.0
# Letters that nothing else shows: each key has one of its own, so its echo is known.
_FIRST_MARK, _MARKS = 0x100, 0x180
_LOOK = 0.002
_END = 5.0
# Questions of a program to the terminal, and the answers.
_ATTRIBUTES, _CURSOR = re.compile(rb"\x1b\[0?c"), re.compile(rb"\x1b\[6n")
_ANSWERS = ((_ATTRIBUTES, b"\x1b[?62;22c"), (_CURSOR, b"\x1b[1;1R"))


class TerminalProgram:
    """One program with a terminal of its own."""

    def __init__(self, home: Home) -> None:
        self.bytes_out = 0
        self._seen = b""
        self._mark = 0
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        state = termios.tcgetattr(slave)
        state[3] &= ~termios.ECHO  # only the program shows keys
        termios.tcsetattr(slave, termios.TCSANOW, state)
        env = {**home.env(), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self._started = time.perf_counter()
        self._process = subprocess.Popen(
            home.words("terminal"),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**env, "LANG": "C.UTF-8"},
            cwd=home.work,
            start_new_session=True,
        )
        os.close(slave)

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu(self) -> float:
        """Return the CPU seconds of the program with its engine."""
        return sum(map(cpu_seconds, family(self.pid)))

    def seconds(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self._started

    def memory(self) -> Memory:
        return memory(self.pid)

    # ------------------------------------------------------------ keys

    def wait_for_raw(self) -> None:
        """Wait until the program takes single keys."""
        self._until(lambda: not termios.tcgetattr(self._master)[3] & termios.ICANON, "raw mode")

    def echo(self) -> float:
        """Press a key, and return the seconds until it is on the screen."""
        mark = chr(_FIRST_MARK + self._mark % _MARKS).encode()
        self._mark += 1
        self._seen = b""
        start = time.perf_counter()
        os.write(self._master, mark)
        self._until(lambda: mark in self._seen, "echo of a key", look=PATIENCE)
        return time.perf_counter() - start

    def write(self, text: str) -> None:
        os.write(self._master, text.encode())

    def send(self, prompt: str) -> None:
        """Write a prompt and send it."""
        self.write(prompt)
        self.wait_for(prompt[-5:])
        self._seen = b""
        self.write("\r")

    # ------------------------------------------------------------ output

    def wait_for(self, text: str, seconds: float = PATIENCE) -> None:
        """Wait until a text without styles in it is written."""
        self._until(lambda: text.encode() in self._seen, repr(text), seconds, look=seconds)

    def rest(self, seconds: float) -> None:
        """Read for this many seconds."""
        end = time.perf_counter() + seconds
        while (left := end - time.perf_counter()) > 0:
            self._read(left)

    def _until(
        self,
        done: Callable[[], bool],
        what: str,
        seconds: float = PATIENCE,
        look: float = _LOOK,
    ) -> None:
        end = time.perf_counter() + seconds
        while not done():
            if time.perf_counter() > end or self._process.poll() is not None:
                raise Silent(f"no {what} within {seconds:.0f} s: {self._seen[-300:]!r}")
            self._read(min(look, max(0.0, end - time.perf_counter())))

    def _read(self, seconds: float) -> None:
        if not select.select([self._master], [], [], seconds)[0]:
            return
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:
            raise Silent("the program has ended") from None
        self.bytes_out += len(data)
        self._seen = self._seen[-(1 << 16) :] + data
        for question, answer in _ANSWERS:
            if question.search(data):
                os.write(self._master, answer)

    # ------------------------------------------------------------ the end

    def close(self) -> None:
        """End the program and its engine."""
        ids = family(self.pid)
        self._process.send_signal(signal.SIGTERM)
        end = time.perf_counter() + _END
        while self._process.poll() is None and time.perf_counter() < end:
            try:
                self._read(_LOOK)
            except Silent:
                time.sleep(_LOOK)
        for each in ids:
            try:
                os.kill(each, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()
        os.close(self._master)


@contextmanager
def terminal_of(home: Home) -> Iterator[TerminalProgram]:
    """Start a program at a terminal, and end it on exit."""
    program = TerminalProgram(home)
    try:
        program.wait_for_raw()
        yield program
    finally:
        program.close()
