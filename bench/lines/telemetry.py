"""Telemetry: the check at start, spans of a turn, deltas, export, and the end."""

import json
import time

from bench.programs import Program
from bench.stage import Stage

# Nothing listens there.
_DEAD = "http://127.0.0.1:9"


def measure(stage: Stage) -> None:
    def in_process(program: Program) -> None:
        folder = stage.root / "telemetry"
        folder.mkdir(exist_ok=True)
        turns = str(stage.size(100, 20))
        stage.measure_module(program, "bench.telemetry_client", turns, str(folder))

    def end(program: Program) -> None:
        settings = stage.home(program).agent / "settings.json"
        settings.write_text(json.dumps({"telemetry": {"endpoint": _DEAD}}))
        try:
            with stage.agent(program) as agent:
                agent.run("Bench text 5")
                began = time.perf_counter()
        finally:
            settings.unlink()
        stage.put(program, "telemetry.end", time.perf_counter() - began)

    stage.attempt(stage.ours, "telemetry.none", in_process)
    stage.attempt(stage.ours, "telemetry.end", end)
