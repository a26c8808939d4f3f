"""Servers of the Model Context Protocol: cost of known ones, calls, search and the end."""

import json
import sys
import time
from pathlib import Path
from statistics import median

from bench.agent import Agent, Silent
from bench.known_servers import write_known_servers
from bench.process import family
from bench.programs import ROOT, Program
from bench.stage import Stage

_STUBBORN = ("-m", "bench.mcp_server", "stubborn")
# Modules that are loaded after the first reply have been loaded by then.
_SETTLED = 1.5


def measure(stage: Stage) -> None:
    def in_process(program: Program) -> None:
        folder = stage.root / "mcp"
        folder.mkdir(exist_ok=True)
        count = str(stage.size(2000, 200))
        stage.measure_module(program, "bench.mcp_client", count, str(folder))

    def start(program: Program) -> None:
        home = stage.home(program)
        command = (sys.executable, *_STUBBORN)
        file = write_known_servers(home.folder / "known.json", home.agent, home.work, command)
        known, plain = [], []
        for _ in range(stage.size(5, 2)):
            plain.append(_main_thread_cpu(stage, program))
            known.append(_main_thread_cpu(stage, program, "--mcp-config", str(file)))
        stage.put(program, "mcp.start", 1e3 * (median(known) - median(plain)))

    def end(program: Program) -> None:
        file = stage.home(program).folder / "stubborn.json"
        entry = {"command": sys.executable, "args": _STUBBORN, "cwd": str(ROOT), "start": "eager"}
        file.write_text(json.dumps({"mcpServers": {"stubborn": entry}}))
        with stage.agent(program, "--mcp-config", str(file)) as agent:
            _wait_until_ready(agent)
            began = time.perf_counter()
        stage.put(program, "mcp.end", time.perf_counter() - began)

    stage.attempt(stage.ours, "mcp.none", in_process)
    stage.attempt(stage.ours, "mcp.start", start)
    stage.attempt(stage.ours, "mcp.end", end)


def _main_thread_cpu(stage: Stage, program: Program, *more: str) -> float:
    """Return the CPU seconds of the main thread after the first reply.

    Raises:
        Silent: a child process was started.
    """
    with stage.agent(program, *more) as agent:
        before = _thread_seconds(agent.pid)
        agent.rest(_SETTLED)
        spent = _thread_seconds(agent.pid) - before
        if len(family(agent.pid)) > 1:
            raise Silent("a known server was started")
    return spent


def _thread_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def _wait_until_ready(agent: Agent) -> None:
    deadline = time.perf_counter() + 30
    while agent.ask("get_mcp_servers")["data"]["servers"][0]["state"] != "ready":
        if time.perf_counter() > deadline:
            raise Silent("the server is not ready")
        agent.rest(0.05)
