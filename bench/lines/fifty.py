"""Many sessions in one Python program, which the peers do not support."""

from bench.programs import Program
from bench.stage import Stage


def measure(stage: Stage) -> None:
    folder = stage.root / "in-process"
    folder.mkdir(exist_ok=True)

    def once(program: Program) -> None:
        count = str(stage.size(50, 10))
        stage.measure_module(program, "bench.in_process", count, str(folder))

    stage.attempt(stage.ours, "second", once)
