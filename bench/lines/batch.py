"""A batch of many items: one item, the driver's share, and a resume over many results."""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

from bench.programs import Home, Program
from bench.stage import Stage

_RESULTS = 100_000
_RESULT_BYTES = 1920
_ITEMS = 300
_DRIVER = """
import resource, sys
from ludolf.cli.subcommands.batch import run
code = run(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_SELF)
# ru_maxrss begins with the size of the parent process.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(code, used.ru_utime + used.ru_stime, int(peak.split()[1]) / 1024)
"""
_OPTIONS = ("--model", "ludolf/offline", "--in", "here", "--no-tools", "--sandbox", "off")


def measure(stage: Stage) -> None:
    stage.attempt(stage.ours, "batch.one", partial(_one, stage))
    stage.attempt(stage.ours, "batch.driver", partial(_driver, stage))
    stage.attempt(stage.ours, "batch.gate", partial(_parts, stage))
    stage.attempt(stage.ours, "batch.resume", partial(_resume, stage))


def _one(stage: Stage, program: Program) -> None:
    """Time of a batch of one item, from the start of the program to its end."""
    home, times = stage.home(program), []
    for number in range(stage.size(5, 2) + 1):
        tasks = _new_items(home, f"one-{number}", 1)
        start = time.perf_counter()
        _drive(home, tasks)
        times.append(time.perf_counter() - start)
    stage.put(program, "batch.one", median(times[1:]))


def _driver(stage: Stage, program: Program) -> None:
    """CPU of the driver for each item, above that of a batch of one."""
    home, count = stage.home(program), stage.size(_ITEMS, 50)
    base, _ = _drive(home, _new_items(home, "driver-1", 1))
    spent, _ = _drive(home, _new_items(home, "driver-many", count))
    stage.put(program, "batch.driver", 1e3 * (spent - base) / (count - 1))


def _parts(stage: Stage, program: Program) -> None:
    """The gate, a turn with a command, and the memory of agents."""
    with tempfile.TemporaryDirectory() as folder:
        stage.measure_module(program, "bench.fleet_parts", str(stage.size(5, 1)), folder)


def _resume(stage: Stage, program: Program) -> None:
    """Time and memory of a resume that finds everything recorded."""
    home, count = stage.home(program), stage.size(_RESULTS, 5_000)
    few = _new_items(home, "resume-few", 1)
    _drive(home, few)
    base, small = _drive(home, few)
    many = _new_items(home, "resume-many", 1)
    _drive(home, many)
    _repeat(many.with_suffix(".batch"), count)
    _write_items(home, "resume-many", count)
    spent, large = _drive(home, many)
    stage.put(program, "batch.resume", spent - base)
    stage.put(program, "batch.resume.rss", large - small)


def _new_items(home: Home, name: str, count: int) -> Path:
    """Write items of a batch that has not run yet."""
    path = _write_items(home, name, count)
    shutil.rmtree(path.with_suffix(".batch"), ignore_errors=True)
    return path


def _write_items(home: Home, name: str, count: int) -> Path:
    path = home.work / f"{name}.jsonl"
    path.write_text("".join(f'{{"id": "item-{number}"}}\n' for number in range(count)))
    return path


def _repeat(out: Path, count: int) -> None:
    """Store the result of the first item for many, each as long as a usual one."""
    result = json.loads((out / "results.jsonl").read_text())
    started = json.loads((out / "journal.jsonl").read_text())
    result["answer"] = "x" * (_RESULT_BYTES - len(json.dumps(result)))
    with (out / "results.jsonl").open("w") as results, (out / "journal.jsonl").open("w") as journal:
        for number in range(count):
            name = f"item-{number}"
            results.write(json.dumps({**result, "id": name, "item": {"id": name}}) + "\n")
            journal.write(json.dumps({**started, "id": name}) + "\n")


def _drive(home: Home, tasks: Path, *more: str) -> tuple[float, float]:
    """Run a batch; returns the seconds of CPU and the MiB of its driver."""
    python, prompt = home.program.command[0], "say hello {id}"
    words: Sequence[str] = (python, "-P", "-c", _DRIVER, tasks.name, prompt, *_OPTIONS, *more)
    done = subprocess.run(
        (*words, "-j", "20", "--plain"),
        cwd=home.work,
        env=home.env(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode or not done.stdout.startswith("0 "):
        raise OSError(f"{os.path.basename(python)}: {done.stdout} {done.stderr[-500:]}")
    _, cpu, memory = done.stdout.split()
    return float(cpu), float(memory)
