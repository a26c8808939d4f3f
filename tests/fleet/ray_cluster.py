"""A real Ray cluster on this machine, with nodes that can be killed."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from ludolf.tools.supervisor import children_of
from tests.batch_stage import is_gone, wait_until
from tests.process.harness import SOURCE

FOLDER = os.environ.get("LUDOLF_TEST_FLEET", "")
BIN = Path(FOLDER, "ray", "bin")
PYTHON = str(BIN / "python")
only_if_asked = pytest.mark.skipif(not FOLDER, reason="Ray is tried by `make test-fleet`")


class RayCluster:
    """Serves while the `with` block lasts."""

    def __init__(self, env: Mapping[str, str]) -> None:
        # Short: the paths of sockets have at most 107 bytes.
        self.folder = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
        self._env = {
            **env,
            "PATH": f"{BIN}:{env['PATH']}",
            "PYTHONPATH": str(SOURCE),
            "RAY_USAGE_STATS_ENABLED": "0",
            # Nodes that do not answer are given up sooner.
            "RAY_health_check_period_ms": "500",
            "RAY_health_check_failure_threshold": "3",
            "RAY_health_check_initial_delay_ms": "500",
        }
        self._nodes: list[subprocess.Popen[bytes]] = []
        self.port = _free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        port, folder = str(self.port), str(self.folder / "r")
        head = ("--head", "--port", port, "--temp-dir", folder, "--num-cpus", "1")
        self._start(*head, "--include-dashboard", "false", "--node-ip-address", "127.0.0.1")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._nodes:
            process.terminate()
        for pid in self.processes():
            _kill(pid)
        for process in self._nodes:
            process.wait(60)
        wait_until(lambda: not self.processes(), "the cluster ends")
        shutil.rmtree(self.folder, ignore_errors=True)

    def add_node(self) -> int:
        """Start a node with one CPU; returns the number of its raylet."""
        before = set(self.raylets())
        self._start("--address", self.address, "--num-cpus", "1")
        wait_until(lambda: set(self.raylets()) - before, "a node starts")
        (raylet,) = set(self.raylets()) - before
        return raylet

    def _start(self, *words: str) -> None:
        command = [str(BIN / "ray"), "start", *words, "--block", "--disable-usage-stats"]
        log = (self.folder / f"node{len(self._nodes)}.log").open("wb")
        with log:
            self._nodes.append(
                subprocess.Popen(
                    command, env=self._env, stdout=log, stderr=log, stdin=subprocess.DEVNULL
                )
            )
        started = Path(log.name)
        wait_until(lambda: b"Ray runtime started" in started.read_bytes(), "a node of Ray starts")

    def raylets(self) -> list[int]:
        return [pid for pid in self.processes() if _command(pid)[0].endswith("/raylet")]

    def processes(self) -> list[int]:
        """The processes of this cluster, by the folder that stands in their commands."""
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if any(str(self.folder) in word for word in _command(pid))]

    def actors(self) -> list[int]:
        """The actors of this cluster: Ray sets their titles, and raylets start them."""
        children = {pid for raylet in self.raylets() for pid in children_of(raylet)}
        return [pid for pid in children if _command(pid)[0].startswith("ray::RayWorkerActor")]

    def files(self) -> list[Path]:
        """The logs of the cluster."""
        return [path for path in (self.folder / "r").rglob("*") if path.is_file()]


def _command(pid: int) -> list[str]:
    try:
        data = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return [""]
    return data.decode("utf-8", "replace").split("\0")


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        assert is_gone(pid)


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
