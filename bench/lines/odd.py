"""Rare cases: a huge input line and a long queue."""

import json
import time

from bench.agent import Agent, Silent
from bench.programs import Program
from bench.stage import Stage


def measure(stage: Stage) -> None:
    size = stage.size(100_000_000, 5_000_000)
    count = stage.size(3000, 300)

    def frame(program: Program) -> None:
        with stage.agent(program) as agent:
            line = json.dumps({"id": "big", "type": "get_state", "unused": "x" * size})
            start = time.perf_counter()
            agent.write(line.encode() + b"\n")
            reply = agent.reply("big", 150)
            if not reply["success"]:
                raise Silent(f"refuses a line of {size >> 20} MiB")
            stage.put(program, "frame.100", reply["at"] - start)

    def queue(program: Program) -> None:
        with stage.agent(program) as agent:
            figure = _queued(agent, count)
        stage.put(program, "queue", figure)
        if program.kind == "omp":
            stage.put(program, "queue.omp", figure)

    def queue_of_omp(program: Program) -> None:
        with stage.agent(program, dialect="omp") as agent:
            stage.put(program, "queue.omp", _queued(agent, count))

    stage.each("frame.100", frame)
    stage.each("queue", queue)
    stage.attempt(stage.ours, "queue.omp", queue_of_omp)


def _queued(agent: Agent, count: int) -> float:
    """Queue messages during an answer; return the kilobytes that the host receives."""
    agent.send("prompt", message="Bench paced 5000 5")
    agent.wait(lambda: agent.updates > 0, 60, "first delta")
    before = agent.bytes_out
    names = [agent.send("follow_up", message=f"item {n}") for n in range(count)]
    for name in names:
        agent.reply(name, 300)
    agent.rest(0.3)
    sent = (agent.bytes_out - before) / 1e3
    agent.kill()
    return sent
