"""Large sessions: switch, read, export, start and list."""

import time
from functools import partial
from pathlib import Path

from bench.agent import Agent
from bench.programs import Program
from bench.session_files import make_session
from bench.stage import Stage

_MB = 1_000_000
_FLAGS = {"omp": "--resume"}
_PATIENCE = 300


def measure(stage: Stage) -> None:
    for size in (10, 100):
        amount = size * _MB // stage.size(1, 20)
        stage.each(f"switch.{size}", partial(_visit, stage, size, amount))
        stage.attempt(stage.ours, f"list.{size}", partial(_list, stage, size, amount))


def _visit(stage: Stage, size: int, amount: int, program: Program) -> None:
    path = make_session(stage.home(program), f"big{size}", amount)
    try:
        with stage.agent(program) as agent:
            agent.rest(0.5)
            stage.put(program, f"switch.{size}", _timed(agent, "switch_session", path))
            _read(stage, size, agent, program)
        if size == 100:
            stage.attempt(program, "load.100", partial(_start, stage, path))
    finally:
        path.unlink()


def _read(stage: Stage, size: int, agent: Agent, program: Program) -> None:
    def messages(program: Program) -> None:
        stage.put(program, f"messages.{size}", _timed(agent, "get_messages"))

    def export(program: Program) -> None:
        page = stage.home(program).work / "page.html"
        stage.put(program, f"export.{size}", _timed(agent, "export_html", outputPath=str(page)))
        page.unlink(missing_ok=True)

    stage.attempt(program, f"messages.{size}", messages)
    if size == 100:
        stage.put(program, "load.100.rss", agent.memory().rss)
    stage.attempt(program, f"export.{size}", export)


def _timed(agent: Agent, command: str, path: Path | None = None, **fields: str) -> float:
    if path is not None:
        fields["sessionPath"] = str(path)
    start = time.perf_counter()
    reply = agent.ask(command, timeout=_PATIENCE, **fields)
    return 1e3 * float(reply["at"] - start)


def _start(stage: Stage, path: Path, program: Program) -> None:
    target = path.stem if program.kind == "tau" else str(path)
    agent = stage.home(program).start(_FLAGS.get(program.kind, "--session"), target)
    try:
        reply = agent.ask("get_state", timeout=_PATIENCE)
        stage.put(program, "load.100", 1e3 * (reply["at"] - agent.started))
    finally:
        agent.close()


def _list(stage: Stage, size: int, amount: int, program: Program) -> None:
    """Measure the listing of ten sessions in one folder."""
    paths = [make_session(stage.home(program), f"part{n}", amount // 10) for n in range(10)]
    try:
        with stage.agent(program) as agent:
            stage.put(program, f"list.{size}", _timed(agent, "list_sessions"))
    finally:
        for path in paths:
            path.unlink()
