"""Results file: one JSON line per full run, for comparison over time."""

import datetime
import json
import os
import platform
import sysconfig
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from bench.programs import Program
from bench.stage import Stage

FILE = Path(__file__).with_name("results.jsonl")


def record(stage: Stage, rounds: int) -> dict[str, Any]:
    """Return the figures with programs and machine; nothing identifies the owner."""
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%MZ"),
        "programs": {each.name: _about(each) for each in stage.programs},
        "machine": machine(),
        "load": stage.load_before,
        "rounds": rounds,
        "quick": stage.quick,
        "figures": summaries(stage, median),
        "minima": summaries(stage, min),
        "notes": {name: notes for name, notes in stage.notes.items() if notes},
    }


def append(result: dict[str, Any], file: Path = FILE) -> None:
    with file.open("a") as results:
        results.write(json.dumps(result, ensure_ascii=False) + "\n")


def last(file: Path = FILE) -> dict[str, Any]:
    """Return the last stored run."""
    result: dict[str, Any] = json.loads(file.read_text().splitlines()[-1])
    return result


def summaries(stage: Stage, summary: Callable[[list[float]], float]) -> dict[str, dict[str, float]]:
    """Return one figure for each program and line, of the values of all rounds."""
    return {
        name: {key: float(f"{summary(values):.4g}") for key, values in lines.items() if values}
        for name, lines in stage.figures.items()
    }


def machine() -> dict[str, Any]:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "system": platform.system(),
        "kernel": platform.release().partition("-")[0],
        "architecture": platform.machine(),
        "processors": os.cpu_count(),
        "memory_gib": round(memory / (1 << 30)),
        "python": platform.python_version(),
        "build": python_build(),
    }


def python_build() -> str:
    """Return how the interpreter was optimized, as far as its recorded flags show it."""
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    flags = sysconfig.get_config_var("CFLAGS_NODIST") or ""
    profiled = "--enable-optimizations" in options or "-fprofile-use" in flags
    linked = "--with-lto" in options or "-flto" in flags
    words = [word for word, known in (("PGO", profiled), ("LTO", linked)) if known]
    return " and ".join(words) or "no PGO recorded"


def _about(program: Program) -> dict[str, str]:
    return {"kind": program.kind, "version": program.version}
