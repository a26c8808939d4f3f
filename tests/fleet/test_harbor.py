"""Ludolf as an agent of the real Harbor, whose reader for pi reads our session file."""

import os
import subprocess
from pathlib import Path
from typing import Any

from ludolf.base import loads
from tests.fleet.inspect_peer import HERE, fleet_environment


def test_a_trial_runs_the_program_and_harbor_reads_its_session(tmp_path: Path) -> None:
    environment = fleet_environment("harbor")
    (tmp_path / "a.txt").write_text("pear\n")
    python = environment / "bin" / "python"
    done = subprocess.run(
        [str(python), str(HERE / "harbor_trial.py"), str(tmp_path), "read a.txt"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = loads(done.stdout)
    assert "ludolf --print --mode json" in shown["commands"][-1]
    assert "--max-turns 3" in shown["commands"][-1]
    trajectory: dict[str, Any] = loads((tmp_path / "logs" / "trajectory.json").read_text())
    assert trajectory["agent"]["name"] == "ludolf"
    assert [step["source"] for step in trajectory["steps"]] == ["user", "agent", "agent"]
    (call,) = trajectory["steps"][1]["tool_calls"]
    assert (call["function_name"], call["arguments"]) == ("read", {"path": "a.txt"})
    results = trajectory["steps"][1]["observation"]["results"]
    assert results[0]["content"] == "pear"
    total, context = trajectory["final_metrics"], shown["context"]
    assert context["n_input_tokens"] == total["total_prompt_tokens"] > 0
    assert context["n_output_tokens"] == total["total_completion_tokens"] > 0
