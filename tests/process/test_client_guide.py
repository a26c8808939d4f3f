"""The guide to the client tells the truth: its examples run, and its reference is current."""

import re
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from scripts.make_client_reference import OPTIONS, PAGE, options, updated
from tests.process.harness import SOURCE, Lab
from tests.process.serving import running_server

GUIDE = PAGE.read_text()
_FENCE = re.compile(r"^(`{3,})(\w*)(?: (?:file=)?(\S+))?\n(.*?)^\1$", re.DOTALL | re.MULTILINE)
FILES = {found[3]: found[4] for found in _FENCE.finditer(GUIDE) if found[3]}
SHOWN = [found[4] for found in _FENCE.finditer(GUIDE) if found[4].startswith("$ ")]


def test_the_reference_is_current() -> None:
    assert updated(GUIDE) == GUIDE, "run scripts/make_client_reference.py"


@pytest.mark.parametrize("kind", OPTIONS.values())
def test_every_option_is_told(kind: Any) -> None:
    assert set(options(kind)) == kind.__optional_keys__


def test_every_example_is_run() -> None:
    run = {word for example in SHOWN for word in example.split() if word.endswith(".py")}
    assert {name for name in FILES if name.endswith(".py")} - {"order.py"} == run


def test_links_within_the_guide_lead_somewhere() -> None:
    titles = re.findall(r"^#+ (.+)$", GUIDE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
    assert set(re.findall(r"\]\(#([\w-]+)\)", GUIDE)) <= anchors


@pytest.mark.parametrize("example", SHOWN, ids=lambda text: text.partition("\n")[0].split()[-1])
def test_an_example_prints_what_the_guide_shows(lab: Lab, example: str, tmp_path: Path) -> None:
    command, _, wanted = example.partition("\n")
    for name, text in FILES.items():
        (lab.work / name).write_text(text)
    (lab.agent / "models.json").unlink()
    (lab.agent / "settings.json").write_text("{}")
    words = shlex.split(command.removeprefix("$ "))
    env = dict(word.split("=", 1) for word in words if "=" in word)
    script = next(word for word in words if word.endswith(".py"))
    path = f"{_programs(tmp_path)}:{lab.env['PATH']}"
    more: Any = {"PATH": path, "PYTHONPATH": str(SOURCE), **env}
    with running_server(lab, path=lab.work / "serve.sock") if "remote" in script else nullcontext():
        done = lab.run(script, program=(sys.executable,), **more)
    assert (done.code, done.stderr) == (0, "")
    pattern = ".*".join(map(re.escape, wanted.rstrip().split("…")))
    assert re.fullmatch(pattern, done.stdout.decode().rstrip(), re.DOTALL), done.stdout.decode()


def _programs(folder: Path) -> Path:
    """A folder with a `ludolf` in it."""
    programs = folder / "bin"
    programs.mkdir()
    program = programs / "ludolf"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ludolf "$@"\n')
    program.chmod(0o755)
    return programs
