"""Tool arguments in many small deltas."""

from functools import partial

from bench.programs import Program
from bench.stage import Stage

_SIZES = {"5k": 5000, "20k": 20_000}


def measure(stage: Stage) -> None:
    for size, count in _SIZES.items():
        stage.each(f"arguments.{size}", partial(_once, stage, size, stage.size(count, count // 10)))


def _once(stage: Stage, size: str, count: int, program: Program) -> None:
    with stage.agent(program) as agent:
        agent.run("Bench text 5")
        run = agent.run(f"Bench arguments {count}")
        if run.updates < count // 2:
            stage.note(program, f"arguments.{size}", "does not stream arguments")
        stage.put(program, f"arguments.{size}", 1e3 * run.cpu)
