"""Many sessions in one Python program, which the peers do not support."""

import json
import subprocess
import sys

from bench.programs import Program
from bench.stage import Stage


def measure(stage: Stage) -> None:
    folder = stage.root / "in-process"
    folder.mkdir(exist_ok=True)

    def once(program: Program) -> None:
        count = stage.size(50, 10)
        done = subprocess.run(
            [sys.executable, "-m", "bench.in_process", str(count), str(folder)],
            cwd=stage.root,
            env=stage.home(program).env(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise OSError(done.stderr[-500:])
        for key, value in json.loads(done.stdout).items():
            stage.put(program, key, value)

    stage.attempt(stage.ours, "second", once)
