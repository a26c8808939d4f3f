"""`ludolf view` as a process beside a test, and the file that it follows."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.process.forks import ForkedProgram


@contextmanager
def view(file: Path, home: Path) -> Iterator[str]:
    """Serve a session file; gives the address."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"}
    with ForkedProgram(["view", str(file)], str(home), env) as server:
        server.stdin.close()
        _name, url = server.stdout.readline(), server.stdout.readline().decode().strip()
        try:
            yield url
        finally:
            server.terminate()
            server.wait()
