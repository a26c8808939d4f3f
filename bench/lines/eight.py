"""Eight processes at once, as in a host with eight workers."""

import time

from bench.agent import Agent, Silent
from bench.programs import Program
from bench.stage import Stage

_COUNT = 8
_PATIENCE = 300


def measure(stage: Stage) -> None:
    def once(program: Program) -> None:
        start = time.perf_counter()
        agents = [stage.home(program).start() for _ in range(_COUNT)]
        try:
            for agent in agents:
                agent.greet()
            for agent in agents:
                agent.open_session()
            stage.put(program, "eight.ready", 1e3 * (time.perf_counter() - start))
            agents[0].rest(1)
            stage.put(program, "eight.pss", sum(agent.memory().pss for agent in agents))
            stage.put(program, "eight.stream", 1e3 * _stream(agents))
        finally:
            for agent in agents:
                agent.close()

    stage.each("eight.ready", once, others=True)


def _stream(agents: list[Agent]) -> float:
    """Run one prompt in all processes at once."""
    start = time.perf_counter()
    since = [len(agent.events) for agent in agents]
    for agent in agents:
        agent.prompt("Bench text 2000")
    while not all(agent.is_idle(first) for agent, first in zip(agents, since, strict=True)):
        for agent in agents:
            agent.rest(0.001)
        if time.perf_counter() - start > _PATIENCE:
            raise Silent(f"eight answers did not end within {_PATIENCE} s")
    return time.perf_counter() - start
