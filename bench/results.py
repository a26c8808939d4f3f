"""Results file: one JSON line per full run, for comparison over time."""

import datetime
import json
import os
import platform
from pathlib import Path
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
        "load": os.getloadavg()[2],
        "rounds": rounds,
        "quick": stage.quick,
        "figures": medians(stage),
        "notes": {name: notes for name, notes in stage.notes.items() if notes},
    }


def append(result: dict[str, Any], file: Path = FILE) -> None:
    with file.open("a") as results:
        results.write(json.dumps(result, ensure_ascii=False) + "\n")


def last(file: Path = FILE) -> dict[str, Any]:
    """Return the last stored run."""
    result: dict[str, Any] = json.loads(file.read_text().splitlines()[-1])
    return result


def medians(stage: Stage) -> dict[str, dict[str, float]]:
    return {
        program.name: {
            key: float(f"{value:.4g}")
            for key in stage.figures[program.name]
            if (value := stage.value(program.name, key)) is not None
        }
        for program in stage.programs
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
    }


def _about(program: Program) -> dict[str, str]:
    return {"kind": program.kind, "version": program.version}
