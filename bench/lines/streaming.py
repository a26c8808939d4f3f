"""Streams of text: CPU, time, bytes and memory per delta in every dialect."""

import time
from functools import partial

from bench.agent import Agent, Run
from bench.programs import Home, Program
from bench.stage import Stage

_SIZES = {"1k": 1000, "5k": 5000}
# The size that programs with other protocols are measured on too.
_FIELD_SIZE = "5k"
_DIALECTS = {"lean": "pi-delta", "fat": "pi", "early": "pi-early", "omp": "omp", "xcsh": "xcsh"}
_REMEMBERED = ("lean", "fat", "omp")


def measure(stage: Stage) -> None:
    for size, count in _SIZES.items():
        count = stage.size(count, count // 10)
        measure_one = partial(_short, stage, size, count)
        stage.each(f"lean.{size}", measure_one, others=size == _FIELD_SIZE)
    stage.each("first", partial(_first, stage), others=True)
    whole = stage.size(20_000, 2000)
    for key in _DIALECTS:
        stage.attempt(stage.ours, f"{key}.20k", partial(_long, stage, (key,), whole))
    stage.attempt(stage.ours, "lean.20k.few", partial(_few, stage, whole))
    for key in ("fat", "omp"):
        stage.attempt(stage.ours, f"unread.{key}", partial(_unread, stage, key, whole))
    for program in stage.programs[1:]:
        keys = _keys(program)
        stage.attempt(program, f"{keys[0]}.20k", partial(_long, stage, keys, whole))
        if program.is_fat:
            stage.attempt(program, f"unread.{keys[0]}", partial(_unread, stage, keys[0], whole))


def _keys(program: Program) -> tuple[str, ...]:
    """Return the lines to which the only dialect of a peer belongs, the closest first."""
    if program.is_lean or program.is_other:
        return ("lean",)
    if program.kind == "pi":  # the current pi is on the other lines
        return ("fat", "early")
    return ("omp", "xcsh", "lean") if program.kind == "omp" else ("fat", "early", "lean")


def _short(stage: Stage, size: str, count: int, program: Program) -> None:
    with stage.agent(program) as agent:
        agent.run("Bench text 5")
        run = agent.run(f"Bench text {count}")
    stage.put(program, f"lean.{size}", 1e6 * run.cpu / count)


def _long(stage: Stage, keys: tuple[str, ...], count: int, program: Program) -> None:
    agent = _started(stage.home(program), _DIALECTS[keys[0]])
    try:
        agent.run("Bench text 5")
        run = agent.run(f"Bench text {count}")
        peak = agent.memory().peak
    finally:
        agent.close()
    for key in keys:
        stage.put(program, f"{key}.20k", 1e6 * run.cpu / count)
        stage.put(program, f"{key}.20k.bytes", run.bytes_out / count)
        if key in _REMEMBERED:
            stage.put(program, f"{key}.20k.peak", peak)
    if "lean" in keys:
        stage.put(program, "lean.20k.wall", 1e6 * run.wall / count)


def _few(stage: Stage, count: int, program: Program) -> None:
    """Measure bytes for a host that wants the usage only where it changes."""
    with stage.agent(program) as agent:
        agent.ask("set_event_filter", usage="changes")
        run = agent.run(f"Bench text {count}")
    stage.put(program, "lean.20k.few", run.bytes_out / count)


def _first(stage: Stage, program: Program) -> None:
    with stage.agent(program) as agent:
        agent.run("Bench text 5")
        runs = [agent.run("Bench text 5") for _ in range(stage.size(20, 5))]
        stage.put(program, "first", 1e3 * sorted(map(_delay, runs))[len(runs) // 2])
        run = agent.run(f"Bench paced {stage.size(1000, 200)} 200")
        stage.put(program, "paced", 100 * run.cpu / run.wall)


def _delay(run: Run) -> float:
    return run.wall if run.first_update is None else run.first_update


def _unread(stage: Stage, key: str, count: int, program: Program) -> None:
    """Measure memory while the host does not read the answer."""
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
    """Start an agent and wait until it is ready, if the dialect has replies."""
    return home.start(dialect=dialect) if dialect == "pi-early" else home.ready(dialect=dialect)
