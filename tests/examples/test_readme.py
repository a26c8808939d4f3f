"""What a newcomer reads first: its hosts run, its figures are measured."""

import re
import shutil
import sys

import pytest

from tests.examples.ground import ROOT, Ground
from tests.process.harness import Finished

PAGE = (ROOT / "README.md").read_text()
HOSTS = dict(re.findall(r"^```\w+ file=(\S+)\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE))
PROGRAMS = {"host.py": sys.executable, "host.mjs": shutil.which("node")}
MOST_LINES = 20
_ROW = re.compile(r"^ *\|(.+)\|$", re.MULTILINE)


def _rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in row.split("|")] for row in _ROW.findall(text)]


def _run(name: str, ground: Ground, text: str) -> Finished:
    program = PROGRAMS[name]
    if program is None:
        pytest.skip(f"{name} needs node")
    (ground.work / name).write_text(text)
    return ground.run(program, name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_host_of_the_readme_prints_an_answer_and_ends(name: str, ground: Ground) -> None:
    ground.script({"text": "A folder with one file."})

    done = _run(name, ground, HOSTS[name])

    assert (done.code, done.stdout.decode().strip()) == (0, "A folder with one file."), done.stderr
    assert len(HOSTS[name].splitlines()) <= MOST_LINES


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_host_of_the_readme_fails_with_the_error_of_the_model(name: str, ground: Ground) -> None:
    ground.script({"error": "no credit left"})

    done = _run(name, ground, HOSTS[name])

    assert (done.code, done.stdout) == (1, b"")
    assert "no credit left" in done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_host_of_the_readme_fails_when_its_prompt_is_refused(name: str, ground: Ground) -> None:
    done = _run(name, ground, HOSTS[name].replace('"message"', '"massage"'))

    assert done.code == 1
    assert 'prompt: missing or invalid "message"' in done.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_host_of_the_readme_fails_when_ludolf_does_not_start(name: str, ground: Ground) -> None:
    done = _run(name, ground, HOSTS[name].replace("pi-delta", "klingon"))

    assert done.code == 1
    assert "klingon" in done.stderr


def test_the_figures_of_the_readme_are_those_of_the_performance_page() -> None:
    heads, *rows = (row for row in _rows(PAGE) if len(row) == 6)
    table = (ROOT / "docs/performance.md").read_text().partition("<!-- bench: field -->")[2]
    names, *lines = _rows(table.partition("<!-- end -->")[0])
    measured = {f"{line[0]}, {line[1]}": dict(zip(names, line, strict=True)) for line in lines}
    figures = {row[0]: row[1:] for row in rows if row[1][:1].isdigit()}

    assert len(figures) >= 4
    assert {label: [measured[label][name] for name in heads[1:]] for label in figures} == figures


def test_the_first_screen_names_the_limits_and_the_folder() -> None:
    screen = PAGE.partition("## Two commands")[0]

    assert len(screen.splitlines()) <= 48
    for fact in ("at a terminal", "Windows", "MCP", "`~/.pi/agent`", "`LUDOLF_DIR`"):
        assert fact in screen


@pytest.mark.parametrize("name", ["README.md", "docs/embedding.md", "docs/sdk.md"])
def test_a_page_that_starts_ludolf_says_how_the_shell_finds_it(name: str) -> None:
    assert ". .venv/bin/activate" in (ROOT / name).read_text()
