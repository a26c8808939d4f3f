"""Cold start: from the start of the process to its first reply."""

from collections import defaultdict
from statistics import median

from bench.programs import Program
from bench.stage import Stage


def measure(stage: Stage) -> None:
    rounds = stage.size(10, 3)
    walls: dict[str, list[float]] = defaultdict(list)
    cpus: dict[str, list[float]] = defaultdict(list)

    def once(program: Program) -> None:
        more = () if program.kind == "tau" else ("--no-session",)
        agent = stage.home(program).start(*more)
        try:
            reply = agent.ask("get_state")
            walls[program.name].append(1e3 * (reply["at"] - agent.started))
            cpus[program.name].append(1e3 * agent.cpu())
        finally:
            agent.close()

    # Alternate, so that other load affects all programs; the first round fills the caches.
    for _ in range(rounds + 1):
        stage.each("start", once)
    for program in stage.programs:
        if walls[program.name]:
            stage.put(program, "start", median(walls[program.name][1:]))
            stage.put(program, "start.cpu", median(cpus[program.name][1:]))
