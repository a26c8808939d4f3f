"""Commands with large output, run by the host and by the model."""

import time

from bench.programs import Program
from bench.stage import Stage

_LINE = "the quick brown fox jumps over the lazy dog 0123456789"


def measure(stage: Stage) -> None:
    command = f"yes '{_LINE}' | head -c {stage.size(100_000_000, 5_000_000)}"

    def by_host(program: Program) -> None:
        with stage.agent(program) as agent:
            start = time.perf_counter()
            reply = agent.ask("bash", timeout=600, command=command)
            stage.put(program, "shell", reply["at"] - start)
            stage.put(program, "shell.peak", agent.memory().peak)
            if not agent.shell_updates:
                stage.note(program, "shell", "does not stream the output")

    def by_model(program: Program) -> None:
        with stage.agent(program) as agent:
            agent.run("Bench text 5")
            stage.put(program, "tool", agent.run(f"Bench loop 1 {command}").wall)

    stage.each("shell", by_host)
    stage.each("tool", by_model)
