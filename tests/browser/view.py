"""`ludolf view` as a process beside a test, and the file that it follows."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.process.harness import PROGRAM, SOURCE


@contextmanager
def view(file: Path, home: Path) -> Iterator[str]:
    """Serve a session file; gives the address."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "PYTHONPATH": str(SOURCE)}
    with subprocess.Popen(
        [*PROGRAM, "view", str(file)], stdout=subprocess.PIPE, env=env, text=True
    ) as server:
        assert server.stdout is not None
        _name, url = server.stdout.readline(), server.stdout.readline().strip()
        try:
            yield url
        finally:
            server.terminate()
