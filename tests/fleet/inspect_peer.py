"""Runs Inspect in its own environment and reads its logs by its own commands."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import loads

HERE = Path(__file__).parent
# Read now: each test has an environment without such variables.
FLEET = os.environ.get("LUDOLF_TEST_FLEET")
TASK = HERE / "inspect_task.py"


class InspectPeer:
    """`folder` holds logs; `model` names the model of the task file, which Inspect finds by an
    entry point, as it finds those of packages.
    """

    def __init__(self, environment: Path, folder: Path) -> None:
        self.program = environment / "bin" / "inspect"
        self.folder = folder
        self.logs = folder / "logs"
        self.model = "follower/x"
        found = folder / "packages" / "follower-1.0.dist-info"
        found.mkdir(parents=True)
        (found / "METADATA").write_text("Metadata-Version: 2.1\nName: follower\nVersion: 1.0\n")
        (found / "entry_points.txt").write_text("[inspect_ai]\nfollower = inspect_task\n")
        self.environ = {
            **os.environ,
            "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{found.parent}{os.pathsep}{HERE}",
            "LUDOLF_DIR": str(folder / "agent"),
        }

    def run(self, *words: str, **environ: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [str(self.program), *words],
            cwd=self.folder,
            env={**self.environ, **environ},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    def eval(
        self, *words: str, task: str = "words", **environ: str
    ) -> "subprocess.CompletedProcess[str]":
        place = f"{TASK}@{task}"
        shown = ("--model", self.model, "--display", "plain", "--log-dir", str(self.logs))
        return self.run("eval", place, *shown, *words, **environ)

    def log(self) -> dict[str, Any]:
        """The newest log, as Inspect dumps it."""
        newest = max(self.logs.glob("*.eval"), key=lambda path: path.stat().st_mtime)
        dumped = self.run("log", "dump", str(newest))
        assert dumped.returncode == 0, dumped.stderr
        log: dict[str, Any] = loads(dumped.stdout)
        return log


def fleet_environment(name: str = "inspect") -> Path:
    """An environment that `make test-fleet` has installed."""
    if not FLEET:
        pytest.skip("make test-fleet sets LUDOLF_TEST_FLEET")
    place = Path(FLEET) / name
    if not (place / "installed.txt").exists():
        pytest.skip(f"{name} is not installed")
    return place
