"""Round trip of `get_state`: idle, during a paced stream, and during a stream at full speed."""

import time

from bench.agent import Agent
from bench.programs import Program
from bench.stage import Stage


def measure(stage: Stage) -> None:
    def idle(program: Program) -> None:
        with stage.agent(program) as agent:
            agent.rest(1)
            _trips(agent, 100)
            trips = _trips(agent, stage.size(2000, 200))
        stage.put(program, "idle.p50", 1e3 * _quantile(trips, 0.5))
        stage.put(program, "idle.p99", 1e3 * _quantile(trips, 0.99))

    def busy(program: Program) -> None:
        with stage.agent(program) as agent:
            agent.run("Bench text 5")
            trips = _trips_during(agent, f"Bench paced {stage.size(2500, 500)} 500")
            stage.put(program, "busy.p99", 1e3 * _quantile(trips, 0.99))
            trips = _trips_during(agent, f"Bench text {stage.size(20_000, 2000)}")
            stage.put(program, "flat.worst", 1e3 * max(trips))

    stage.each("idle.p50", idle)
    stage.each("busy.p99", busy)


def _trips(agent: Agent, count: int) -> list[float]:
    return [_trip(agent) for _ in range(count)]


def _trip(agent: Agent) -> float:
    start = time.perf_counter()
    return float(agent.ask("get_state", timeout=300)["at"]) - start


def _trips_during(agent: Agent, prompt: str) -> list[float]:
    since, trips = len(agent.events), []
    agent.send("prompt", message=prompt)
    while not agent.is_idle(since):
        trips.append(_trip(agent))
        agent.rest(0.002)
    return trips


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]
