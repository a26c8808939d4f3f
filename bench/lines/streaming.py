"""Streams of text: CPU, time, bytes and memory per delta in every dialect."""

import time
from functools import partial

from bench.agent import Agent, Run
from bench.programs import Home, Program
from bench.stage import Stage

_SIZES = {"1k": 1000, "5k": 5000, "20k": 20_000}
_DIALECTS = {"fat": "pi", "early": "pi-early", "omp": "omp", "xcsh": "xcsh"}
# Nobody else speaks these two: they stand beside the peers of their nearest kin.
_KIN = {"fat": "early", "omp": "xcsh"}


def measure(stage: Stage) -> None:
    for size, count in _SIZES.items():
        stage.each(f"lean.{size}", partial(_lean, stage, size, stage.size(count, count // 10)))
    stage.each("first", partial(_first, stage))
    whole = stage.size(20_000, 2000)
    for key in _DIALECTS:
        stage.attempt(stage.ours, f"{key}.20k", partial(_fat, stage, key, whole))
    for program in stage.programs:
        if program.is_fat:
            key = "omp" if program.kind == "omp" else "fat"
            stage.attempt(program, f"{key}.20k", partial(_fat, stage, key, whole))
            stage.attempt(program, f"unread.{key}", partial(_unread, stage, key, whole))
    for key in _KIN:
        stage.attempt(stage.ours, f"unread.{key}", partial(_unread, stage, key, whole))


def _lean(stage: Stage, size: str, count: int, program: Program) -> None:
    with stage.agent(program) as agent:
        agent.run("Bench text 5")
        run = agent.run(f"Bench text {count}")
        stage.put(program, f"lean.{size}", 1e6 * run.cpu / count)
        if size != "20k":
            return
        stage.put(program, "lean.20k.wall", 1e6 * run.wall / count)
        stage.put(program, "lean.20k.bytes", run.bytes_out / count)
        stage.put(program, "lean.20k.peak", agent.memory().peak)


def _first(stage: Stage, program: Program) -> None:
    with stage.agent(program) as agent:
        agent.run("Bench text 5")
        runs = [agent.run("Bench text 5") for _ in range(stage.size(20, 5))]
        stage.put(program, "first", 1e3 * sorted(map(_delay, runs))[len(runs) // 2])
        run = agent.run(f"Bench paced {stage.size(1000, 200)} 200")
        stage.put(program, "paced", 100 * run.cpu / run.wall)


def _delay(run: Run) -> float:
    return run.wall if run.first_update is None else run.first_update


def _fat(stage: Stage, key: str, count: int, program: Program) -> None:
    agent = _started(stage.home(program), _DIALECTS[key])
    try:
        agent.run("Bench text 5")
        run = agent.run(f"Bench text {count}")
        keys = (key,) if program == stage.ours else (key, _KIN[key])
        for each in keys:
            stage.put(program, f"{each}.20k", 1e6 * run.cpu / count)
            stage.put(program, f"{each}.20k.bytes", run.bytes_out / count)
        if key in _KIN:
            stage.put(program, f"{key}.20k.peak", agent.memory().peak)
    finally:
        agent.close()


def _unread(stage: Stage, key: str, count: int, program: Program) -> None:
    """A host that looks away while the answer comes."""
    agent = _started(stage.home(program), _DIALECTS[key])
    try:
        agent.run("Bench text 5")
        agent.send("prompt", message=f"Bench text {count}")
        time.sleep(stage.size(15, 2))
        stage.put(program, f"unread.{key}", agent.memory().peak)
    finally:
        agent.kill()
        agent.close()


def _started(home: Home, dialect: str) -> Agent:
    """Ready, unless the dialect has no replies by which to know."""
    return home.start(dialect=dialect) if dialect == "pi-early" else home.ready(dialect=dialect)
