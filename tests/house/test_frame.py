"""The repository's papers tell the truth about the repository."""

import re
import tomllib
from typing import Any

import pytest

import ludolf
from ludolf.cli.help import HELP
from ludolf.config.settings.arguments import SWITCHES, VALUES
from tests.house.source import ROOT, SOURCE

PAPERS = ("README.md", "AGENTS.md", "CONTRIBUTING.md")
DECISIONS = [f"docs/decisions/{path.name}" for path in (ROOT / "docs/decisions").glob("*.md")]
LOCKS = ("requirements.lock", "requirements-dev.lock")
AGENTS_LINES = 150
_PATH = re.compile(r"`((?:src|tests|docs|scripts|\.ci)/[\w./-]+)`")
_ROOM_PATH = re.compile(
    r"`((?:ai|agent|tools|session|config|protocol|extensions|engine|functions|page|rpc|cli|client)/[\w./]*)`"
)
_TARGET = re.compile(r"^([a-z]+):.*## ", re.MULTILINE)
_MADE = re.compile(r"(?:^|`)make ([a-z]+)", re.MULTILINE)
_PINNED = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)


def _project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def _names(requirements: list[Any]) -> set[str]:
    found = [re.match(r"[\w.-]+", one) for one in requirements if isinstance(one, str)]
    return {_normal(match[0]) for match in found if match}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_package_and_its_metadata_name_the_same_version() -> None:
    assert _project()["project"]["version"] == ludolf.__version__


def test_the_changelog_knows_the_version() -> None:
    assert f"## {ludolf.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_pins_by_hash_and_names_no_place(name: str) -> None:
    lock = (ROOT / name).read_text()
    pins = re.split(r"\n(?=[a-z])", lock)[1:]
    assert pins
    assert all("--hash=sha256:" in pin for pin in pins)
    assert not re.search(r"://|@ |index-url|find-links", lock)


def test_the_locks_hold_every_declared_dependency_in_the_same_version() -> None:
    project = _project()
    runtime = (ROOT / "requirements.lock").read_text()
    develop = (ROOT / "requirements-dev.lock").read_text()
    needed = _names(project["project"]["dependencies"])
    assert needed <= set(_PINNED.findall(runtime))
    assert needed | _names(project["dependency-groups"]["dev"]) <= set(_PINNED.findall(develop))
    pins = set(re.findall(r"^\S+==[^ ]+", runtime, re.MULTILINE))
    assert pins <= set(re.findall(r"^\S+==[^ ]+", develop, re.MULTILINE))


@pytest.mark.parametrize("name", [*PAPERS, *DECISIONS])
def test_files_that_a_paper_names_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    named = [ROOT / path for path in _PATH.findall(text)]
    named += [SOURCE / "ludolf" / path for path in _ROOM_PATH.findall(text)]
    assert [path for path in named if not path.exists()] == []


@pytest.mark.parametrize("name", PAPERS)
def test_make_targets_that_a_paper_names_exist(name: str) -> None:
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text()))
    named = _MADE.findall((ROOT / name).read_text())
    assert named
    assert set(named) <= targets


def test_the_paper_for_agents_stays_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text().splitlines()) <= AGENTS_LINES


def test_the_help_text_names_every_option() -> None:
    named = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", HELP))
    options = {*VALUES, *SWITCHES, "-p", "--print", "--list-models"}
    assert options - named == set()
    assert named - options == set()


def test_the_help_text_fits_a_terminal() -> None:
    assert [line for line in HELP.splitlines() if len(line) > 80] == []


def test_each_option_begins_a_line_of_the_help_text_with_its_long_form() -> None:
    """Some hosts read these lines to learn which options the program has."""
    lines = {line.split()[0].rstrip(",") for line in HELP.splitlines() if line.startswith("  -")}
    ignored = {"--use-theme", "--no-themes", "--tui-mode", "--verbose"}
    long = {name for name in (*VALUES, *SWITCHES) if name.startswith("--")}
    assert lines == {*long, "--print", "--list-models"} - ignored
