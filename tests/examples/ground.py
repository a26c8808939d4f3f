"""A folder, a home and a `ludolf` on the PATH, as whoever tries an example has them."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ludolf.base import dumps
from ludolf.client import Record
from tests.process.harness import SOURCE, WAIT_SECONDS, Finished, messages, read_entries

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
# Each start writes down its process id, so that a test can tell who is left.
_PROGRAM = '#!/bin/sh\necho $$ >>{pids}\nexec {python} -P -m ludolf "$@"\n'


class Ground:
    """Runs programs that expect a `ludolf`; what the model says is `script`, or the offline one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.work, self.home, programs = root / "work", root / "home", root / "bin"
        for folder in (self.work, self.home, programs):
            folder.mkdir()
        self._pids = root / "pids"
        program = programs / "ludolf"
        words = {"pids": shlex.quote(str(self._pids)), "python": shlex.quote(sys.executable)}
        program.write_text(_PROGRAM.format(**words))
        program.chmod(0o755)
        self.env = {
            "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self.home),
            "TMPDIR": str(root),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(SOURCE),
            "LUDOLF_LOCAL_SERVERS": "0",
        }
        self.settings(defaultProvider="ludolf", defaultModel="offline")

    def settings(self, **settings: Any) -> None:
        path = self.home / ".pi" / "agent" / "settings.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dumps({"retry": {"baseDelayMs": 1}, **settings}))

    def script(self, *replies: Record) -> None:
        """What the model says from now on."""
        path = self.root / "script.json"
        path.write_bytes(dumps(replies))
        self.env["LUDOLF_SCRIPT"] = str(path)
        self.settings(defaultProvider="ludolf", defaultModel="scripted")

    def run(self, *command: str, stdin: bytes = b"") -> Finished:
        done = subprocess.run(
            command,
            cwd=self.work,
            env=self.env,
            input=stdin,
            capture_output=True,
            timeout=2 * WAIT_SECONDS,
            check=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr.decode())

    @contextmanager
    def started(self, *command: str) -> Iterator["subprocess.Popen[bytes]"]:
        """The command with pipes; killed if it is still there at the end."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            command, cwd=self.work, env=self.env, stdin=pipe, stdout=pipe, stderr=pipe
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    @property
    def pids(self) -> list[int]:
        """The processes in which the program was started, in order."""
        return [int(word) for word in self._pids.read_text().split()]

    @property
    def said(self) -> list[Record]:
        """The messages of the only session."""
        (path,) = self.home.rglob("*.jsonl")
        return messages(read_entries(path))


def read_until(stream: IO[bytes] | None, wanted: bytes) -> bytes:
    """Read up to and including the bytes; what was read."""
    assert stream is not None
    seen = b""
    while not seen.endswith(wanted):
        byte = stream.read(1)
        assert byte, f"never came: {wanted!r}; but: {seen!r}"
        seen += byte
    return seen


def interrupt(process: "subprocess.Popen[bytes]") -> tuple[int, bytes]:
    """Ctrl-C, then the exit code and the rest of stdout."""
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=WAIT_SECONDS)
    return process.returncode, stdout
