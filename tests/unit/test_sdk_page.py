"""The page about the SDK tells the truth: its examples run, its tables are whole."""

import ast
import asyncio
import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ludolf import sdk
from ludolf.sdk import AgentSession, SessionOptions
from ludolf.sdk.sync import BlockingSession

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "sdk.md").read_text()
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def _title(at: int) -> str:
    return str(_HEADING.findall(PAGE[:at])[-1])


SCRIPTS = (ROOT / "docs" / "scripted-provider.md").read_text()
EXAMPLES = [
    *(
        pytest.param(found[2], id=f"{number} {_title(found.start())}")
        for number, found in enumerate(_FENCE.finditer(PAGE))
        if found[1] == "python"
    ),
    *(
        pytest.param(found[2], id="scripts")
        for found in _FENCE.finditer(SCRIPTS)
        if found[1] == "python"
    ),
]


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of every example."""
    (tmp_path / "a.txt").write_text("hi\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LUDOLF_LOCAL_SERVERS", "0")
    monkeypatch.setenv("LUDOLF_SCRIPT", "")  # put back when the example has changed it
    return tmp_path


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_prints_what_the_page_says(
    example: str, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = _split(example)
    _run(code)
    printed = capsys.readouterr().out
    pattern = ".*".join(map(re.escape, shown.split("…")))
    assert re.fullmatch(pattern, printed, re.DOTALL), f"page:\n{shown}\nprinted:\n{printed}"


def _split(example: str) -> tuple[str, str]:
    """The program, and what it prints."""
    lines = example.splitlines(keepends=True)
    code = [line for line in lines if not line.startswith("#>")]
    return "".join(code), "".join(line[3:] for line in lines if line.startswith("#>"))


def _run(code: str) -> None:
    program = compile(code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    names: dict[str, Any] = {"__name__": "example"}
    work = eval(program, names)
    if inspect.iscoroutine(work):
        asyncio.run(work)


def test_every_example_prints_something() -> None:
    assert len(EXAMPLES) >= 12
    assert [each.id for each in EXAMPLES if "#>" not in str(each.values[0])] == []


# ---------------------------------------------------------------- completeness


@pytest.mark.parametrize("name", sdk.__all__)
def test_every_public_name_is_on_the_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", PAGE)


@pytest.mark.parametrize("name", sorted(SessionOptions.__optional_keys__))
def test_every_option_is_in_the_table(name: str) -> None:
    table = PAGE.partition("### Options of")[2].partition("### `AgentSession`")[0]
    assert f"`{name}`" in table


@pytest.mark.parametrize("kind", [AgentSession, BlockingSession])
def test_every_member_of_a_session_is_in_the_table(kind: type[Any]) -> None:
    table = PAGE.partition("### `AgentSession`")[2].partition("### `Run`")[0]
    members = [name for name in dir(kind) if not name.startswith("_")]
    assert [name for name in members if not re.search(rf"\b{name}\b", table)] == []


def test_links_of_the_page_lead_somewhere() -> None:
    anchors = {
        "#" + re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in _HEADING.findall(PAGE)
    }
    for link in re.findall(r"\]\(([^)\s]+)\)", PAGE):
        assert link in anchors or (ROOT / "docs" / link).exists(), link


# ---------------------------------------------------------------- docstrings

# What people look up while they write.
WITH_EXAMPLES = (
    "ludolf.sdk",
    "ludolf.sdk.session.create_session",
    "ludolf.sdk.session.AgentSession.prompt",
    "ludolf.sdk.session.AgentSession.ask",
    "ludolf.sdk.session.AgentSession.steer",
    "ludolf.sdk.session.AgentSession.abort",
    "ludolf.sdk.session.AgentSession.bash",
    "ludolf.sdk.history.SessionHistory.switch_session",
    "ludolf.sdk.history.SessionHistory.fork",
    "ludolf.sdk.run.Run",
    "ludolf.sdk.run.Run.text",
    "ludolf.sdk.options.SessionOptions",
    "ludolf.sdk.backend.ModelBackend",
    "ludolf.sdk.sync",
    "ludolf.sdk.sync.BlockingSession.prompt",
    "ludolf.sdk.sync.BlockingSession.stream",
    "ludolf.sdk.sync.BlockingSession.stream_text",
    "ludolf.sdk.sync.BlockingSession.ask",
)


def _modules() -> list[ModuleType]:
    inner = [
        importlib.import_module(f"ludolf.sdk.{each.name}")
        for each in pkgutil.iter_modules(sdk.__path__)
    ]
    return [sdk, *inner]


def _doctests() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = {test.name: test for module in _modules() for test in finder.find(module)}
    return [test for test in found.values() if test.examples]


@pytest.mark.parametrize("test", _doctests(), ids=lambda test: str(test.name))
def test_an_example_in_a_docstring_is_right(test: doctest.DocTest, work: Path) -> None:
    told: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    failed, tried = doctest.DocTestRunner(optionflags=flags).run(test, out=told.append)
    assert tried
    assert not failed, "".join(told)


def test_what_people_look_up_has_an_example() -> None:
    assert set(WITH_EXAMPLES) - {test.name for test in _doctests()} == set()
