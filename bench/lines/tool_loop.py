"""Tool loop: many turns with one trivial `bash` call each."""

from bench.programs import Program
from bench.stage import Stage


def measure(stage: Stage) -> None:
    turns = stage.size(200, 20)

    def once(program: Program) -> None:
        with stage.agent(program) as agent:
            agent.run("Bench loop 1 true")
            run = agent.run(f"Bench loop {turns} true")
        stage.put(program, "loop", 1e3 * run.wall / turns)
        stage.put(program, "loop.cpu", 1e3 * run.cpu / turns)

    stage.each("loop", once, others=True)
