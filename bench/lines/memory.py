"""Memory of one process: idle, and after some work."""

from bench.programs import Program
from bench.stage import Stage


def measure(stage: Stage) -> None:
    def once(program: Program) -> None:
        with stage.agent(program) as agent:
            agent.rest(2)
            stage.put(program, "rss.idle", agent.memory().rss)
            agent.run("Bench text 2000")
            agent.run("Bench loop 20 true")
            agent.rest(1)
            stage.put(program, "rss.after", agent.memory().rss)

    stage.each("rss.idle", once, others=True)
