"""The page about telemetry: its examples are run."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.process.harness import SOURCE, WAIT_SECONDS

PAGE = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text()
_FENCE = re.compile(r"^```(\w+) run\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def _fence(language: str) -> str:
    (text,) = [found[2] for found in _FENCE.finditer(PAGE) if found[1] == language]
    return text


def _env(folder: Path) -> dict[str, str]:
    program = folder / "ludolf"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ludolf "$@"\n')
    program.chmod(0o755)
    return {
        "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(SOURCE),
        "LUDOLF_LOCAL_SERVERS": "0",
    }


def _run(folder: Path, *words: str) -> str:
    return subprocess.run(
        words,
        cwd=folder,
        env=_env(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=True,
    ).stdout


def test_the_console_exporter_shows_the_spans_of_the_page(tmp_path: Path) -> None:
    lines = _fence("console").splitlines()
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    shown = [line for line in lines if not line.startswith("$ ")]
    assert _run(tmp_path, "sh", "-c", "\n".join(commands)).splitlines() == shown


def test_the_program_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(_fence("python"))
    printed = re.findall(r"^#> (.*)$", _fence("python"), re.MULTILINE)
    assert _run(tmp_path, sys.executable, "program.py").splitlines() == printed
