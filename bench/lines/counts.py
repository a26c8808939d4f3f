"""Counts of Ludolf that do not vary with load: modules, system calls, instructions.

Also the cost of an environment with many distributions. Ludolf is started as its installed command
does it, so that the search path has no further folders.
"""

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from bench.agent import Agent, Silent
from bench.programs import ROOT, Home, Program
from bench.stage import Stage

# A program runs about fifty times slower when its instructions are counted.
_PATIENCE = 300.0
_FEW, _MANY = 100, 500
# Slow enough that each delta arrives separately then.
_PACE = 50
_DISTRIBUTIONS = 400
_COMMAND = (sys.executable, "-P", "-c", "from ludolf.cli.start import main; main()")
_COUNTER = (sys.executable, "-P", str(ROOT / "bench" / "first_reply.py"))
_NOT_CALLS = ("+++", "---", "resumed>")
_SUMMARY = re.compile(r"^summary: (\d+)", re.MULTILINE)


def measure(stage: Stage) -> None:
    for what in ("modules", "regexes"):
        stage.attempt(stage.ours, f"start.{what}", partial(_count, stage, what))
    stage.attempt(stage.ours, "start.calls", partial(_calls, stage))
    stage.attempt(stage.ours, "start.many", partial(_many_distributions, stage))
    stage.attempt(stage.ours, "paced.instructions", partial(_instructions, stage))


def _count(stage: Stage, what: str, program: Program) -> None:
    home, file = stage.home(program), stage.root / f"{what}.txt"
    file.unlink(missing_ok=True)
    _answered(home, (*_COUNTER, str(file), what), _environment(home))
    stage.put(program, f"start.{what}", int(file.read_text()))


def _calls(stage: Stage, program: Program) -> None:
    """Count system calls of all threads until the reply is written."""
    home, file = stage.home(program), stage.root / "calls.txt"
    tracer = (_tool("strace"), "-f", "-qq", "-s", "120", "-o", str(file))
    _answered(home, (*tracer, *_COMMAND), _environment(home))
    count = 0
    for line in file.read_text(errors="replace").splitlines():
        count += not any(mark in line for mark in _NOT_CALLS)
        if r"\"response\"" in line:
            break
    stage.put(program, "start.calls", count)


def _instructions(stage: Stage, program: Program) -> None:
    """Count instructions of a delta as the difference of two runs."""
    few, many = (_instructions_of(stage.home(program), count) for count in (_FEW, _MANY))
    stage.put(program, "paced.instructions", (many - few) / (_MANY - _FEW) / 1e3)


def _instructions_of(home: Home, deltas: int) -> int:
    file = home.folder / "cachegrind.txt"
    counter = (_tool("valgrind"), "--tool=cachegrind", "--cache-sim=no", "--log-file=/dev/null")
    words = (*counter, f"--cachegrind-out-file={file}", *_COMMAND)
    agent = _started(home, words, _environment(home))
    try:
        agent.reply(agent.send("get_state"), _PATIENCE)
        agent.run(f"Bench paced {deltas} {_PACE}")
    finally:
        agent.close(_PATIENCE)
    found = _SUMMARY.search(file.read_text())
    if found is None:
        raise Silent("valgrind did not write a summary")
    return int(found[1])


def _many_distributions(stage: Stage, program: Program) -> None:
    home = stage.home(program)
    env = _environment(home)
    folders = _make_distributions(stage.root, 0), _make_distributions(stage.root, _DISTRIBUTIONS)
    # Both have one folder more on the search path, in which Python looks for each module.
    empty, crowded = ({**env, "PYTHONPATH": str(folder)} for folder in folders)
    pairs = [
        (_answered(home, _COMMAND, empty), _answered(home, _COMMAND, crowded))
        for _ in range(stage.size(40, 3) + 1)  # the first fills the caches
    ]
    alone, among = (min(costs) for costs in zip(*pairs[1:], strict=True))
    stage.put(program, "start.many", max(0.0, 1e3 * (among - alone)))


def _make_distributions(root: Path, count: int) -> Path:
    """Return a folder with the metadata of so many packages."""
    folder = root / f"distributions-{count}"
    folder.mkdir(exist_ok=True)
    for number in range(count):
        about = folder / f"package_{number}-1.0.dist-info"
        about.mkdir(parents=True, exist_ok=True)
        name = f"Metadata-Version: 2.1\nName: package-{number}\nVersion: 1.0\n"
        (about / "METADATA").write_text(name)
        (about / "entry_points.txt").write_text(f"[console_scripts]\np{number} = p:main\n")
        (about / "RECORD").write_text("")
    return folder


def _answered(home: Home, words: Sequence[str], env: Mapping[str, str]) -> float:
    """Start a program, ask for one reply and end it; returns its CPU seconds at the reply."""
    agent = _started(home, words, env)
    try:
        agent.reply(agent.send("get_state"), _PATIENCE)
        return agent.cpu()
    finally:
        agent.close()


def _started(home: Home, words: Sequence[str], env: Mapping[str, str]) -> Agent:
    return Agent([*words, *home.arguments("pi-delta")], env, home.work, settles=True)


def _environment(home: Home) -> dict[str, str]:
    return {name: value for name, value in home.env().items() if name != "PYTHONPATH"}


def _tool(name: str) -> str:
    """Find a program on PATH.

    Raises:
        Silent: it is not installed.
    """
    found = shutil.which(name)
    if found is None:
        raise Silent(f"{name} is not installed")
    return found
