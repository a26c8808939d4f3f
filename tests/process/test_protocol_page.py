"""The page for writers of hosts: its examples are played to the real program, its hosts run."""

import json
import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, get_args

import msgspec
import pytest

from ludolf.agent.events import MessageUpdate
from ludolf.protocol.commands import COMMANDS
from ludolf.protocol.events import EVENT_NAMES, Event
from ludolf.protocol.framing import MORE_CODES
from tests.frames import dialect_of, frames_out
from tests.process.harness import SOURCE, WAIT_SECONDS

PAGE = Path(__file__).parents[2] / "docs" / "protocol.md"
ANYTHING = "…"
# Described on the page of dialects, or an answer itself.
OF_OTHERS = frozenset(
    (
        "set_host_tools",
        "host_tool_update",
        "host_tool_result",
        "set_host_uri_schemes",
        "host_uri_result",
        "set_interrupt_mode",
        "set_todos",
        "set_event_filter",
        "set_prompt_results",
        "negotiate_protocol",
        "get_messages_page",
        "set_locale",
        "get_integrations",
        "extension_ui_response",
    )
)
_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_STRING_OR_GAP = re.compile(r'"(?:\\.|[^"\\])*"|…(\s*\})?')
_NAME = re.compile(r"\$\w+")


class Fence(msgspec.Struct, frozen=True):
    """A fenced block; one with a file name is also a file of every example."""

    language: str
    file: str | None
    text: str
    heading: str


def _fences() -> list[Fence]:
    page = PAGE.read_text()
    return [
        Fence(found[1], found[2], found[3], _HEADING.findall(page[: found.start()])[-1])
        for found in _FENCE.finditer(page)
    ]


EXAMPLES = [
    pytest.param(fence.text, id=f"{number}-{fence.heading}")
    for number, fence in enumerate(f for f in _fences() if f.language == "jsonl")
]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A folder with the files of the page, and a `ludolf` beside it."""
    folder, programs = tmp_path / "work", tmp_path / "bin"
    for new in (folder, programs, tmp_path / "home"):
        new.mkdir()
    for fence in _fences():
        if fence.file is not None:
            path = folder / fence.file
            path.parent.mkdir(exist_ok=True)
            path.write_text(fence.text)
    program = programs / "ludolf"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ludolf "$@"\n')
    program.chmod(0o755)
    return folder


def _env(work: Path) -> dict[str, str]:
    path = os.environ.get("PATH", os.defpath)
    return {
        "PATH": f"{work.parent / 'bin'}{os.pathsep}{path}",
        "HOME": str(work.parent / "home"),
        "TMPDIR": str(work.parent),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(SOURCE),
        "LUDOLF_LOCAL_SERVERS": "0",
    }


# ---------------------------------------------------------------- examples


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_happens_as_the_page_says(example: str, work: Path) -> None:
    first, *lines = example.splitlines()
    assert first.startswith("$ ludolf ") or first.startswith("$ LUDOLF_")
    with started(first.removeprefix("$ "), work, _env(work)) as program:
        stage = Stage(program, dialect_of(shlex.split(first), {}))
        for line in lines:
            stage.play(line)


@contextmanager
def started(command: str, work: Path, env: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """The program of a shell's command line; it must end well."""
    words = shlex.split(command)
    program = words.index("ludolf")
    more = dict(word.split("=", 1) for word in words[:program])
    pipe = subprocess.PIPE
    with subprocess.Popen(
        ["ludolf", *words[program + 1 :]], cwd=work, env=env | more, stdin=pipe, stdout=pipe
    ) as process:
        try:
            yield process
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(WAIT_SECONDS) == 0
        finally:
            process.kill()


class Stage:
    """Plays the lines of one example, and remembers what its `$names` stand for."""

    def __init__(self, program: "subprocess.Popen[bytes]", dialect: str = "pi") -> None:
        assert program.stdin is not None
        assert program.stdout is not None
        self._stdin: IO[bytes] = program.stdin
        self._frames: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._names: dict[str, Any] = {}
        self._may_skip = False
        self._known = frames_out(dialect)
        # The thread reads a descriptor of its own, since the program's is closed by another one.
        stdout = os.dup(program.stdout.fileno())
        threading.Thread(target=self._listen, args=(stdout,), daemon=True).start()

    def _listen(self, stdout: int) -> None:
        with open(stdout, "rb") as lines:
            for line in lines:
                self._frames.put(json.loads(line))

    def play(self, line: str) -> None:
        direction, _, text = line.partition(" ")
        assert direction in ("<", ">"), f"neither sent nor expected: {line}"
        if direction == ">":
            self._say(text)
            return
        self._stdin.flush()
        if text == ANYTHING:
            self._may_skip = True
        else:
            self._expect(text)

    def _say(self, text: str) -> None:
        """Lines that follow each other leave in one write."""
        known = re.sub(r'"(\$\w+)"', lambda found: json.dumps(self._names[found[1]]), text)
        self._stdin.write(known.encode() + b"\n")

    def _expect(self, text: str) -> None:
        expected = read_expected(text)
        skipped: list[Any] = []
        while True:
            try:
                frame = self._frames.get(timeout=WAIT_SECONDS)
            except queue.Empty:
                pytest.fail(f"never came: {text}\nbut: {_shown(skipped)}")
            self._known.check(frame)
            if self._fits(expected, frame):
                break
            skipped.append(frame)
            if not self._may_skip:
                pytest.fail(f"did not come next: {text}\nbut: {_shown(skipped)}")
        self._may_skip = False

    def _fits(self, expected: Any, actual: Any) -> bool:
        before = dict(self._names)
        if fits(expected, actual, self._names):
            return True
        self._names = before
        return False


def _shown(frames: list[Any]) -> str:
    return "\n     ".join(json.dumps(frame, ensure_ascii=False)[:300] for frame in frames)


def read_expected(text: str) -> Any:
    """An expected frame; a bare `…` becomes a text, or a key where a pair would stand."""

    def mark(found: "re.Match[str]") -> str:
        if found[0][0] == '"':
            return found[0]
        return f'"{ANYTHING}":0}}' if found[1] else f'"{ANYTHING}"'

    return json.loads(_STRING_OR_GAP.sub(mark, text))


def fits(expected: Any, actual: Any, names: dict[str, Any]) -> bool:
    """Whether all that is expected is there: keys may be more, `…` is anything."""
    if isinstance(expected, dict):
        keys = expected.keys() - {ANYTHING}
        return isinstance(actual, dict) and all(
            key in actual and fits(expected[key], actual[key], names) for key in keys
        )
    if isinstance(expected, list):
        return isinstance(actual, list) and _fits_list(expected, actual, names)
    if isinstance(expected, str):
        return _fits_text(expected, actual, names)
    return type(expected) is type(actual) and bool(expected == actual)


def _fits_list(expected: list[Any], actual: list[Any], names: dict[str, Any]) -> bool:
    if ANYTHING not in expected:
        return len(expected) == len(actual) and all(
            fits(one, other, names) for one, other in zip(expected, actual, strict=True)
        )
    gap = expected.index(ANYTHING)
    first, last = expected[:gap], expected[gap + 1 :]
    if len(actual) < len(first) + len(last):
        return False
    ends = actual[: len(first)] + actual[len(actual) - len(last) :]
    return _fits_list(first + last, ends, names)


def _fits_text(expected: str, actual: Any, names: dict[str, Any]) -> bool:
    if expected == ANYTHING:
        return True
    if _NAME.fullmatch(expected):
        return bool(names.setdefault(expected, actual) == actual)
    pattern = ".*".join(map(re.escape, expected.split(ANYTHING)))
    return isinstance(actual, str) and re.fullmatch(pattern, actual, re.DOTALL) is not None


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ('{"a":1}', {"a": 2}),
        ('{"a":1,…}', {"b": 1}),
        ('{"a":true}', {"a": 1}),
        ('{"a":{…}}', {"a": [1]}),
        ('{"a":[]}', {"a": [1]}),
        ('{"a":[1,…]}', {"a": [2, 1]}),
        ('{"a":[…,1]}', {"a": [1, 2]}),
        ('{"a":[1,…,1]}', {"a": [1]}),
        ('{"a":"x…z"}', {"a": "xy"}),
        ('{"a":"$one","b":"$one"}', {"a": 1, "b": 2}),
    ],
)
def test_an_example_that_is_wrong_does_not_fit(expected: str, actual: Any) -> None:
    assert not fits(read_expected(expected), actual, {})


def test_an_example_fits_with_more_keys_and_anything_for_the_dots() -> None:
    expected = '{"a":…,"b":[1,…],"c":[…,{"d":"x…"}],"e":{…},"f":"$name","g":"$name",…}'
    actual = {"a": 0, "b": [1, 2], "c": [{"d": "xyz"}], "e": {}, "f": 5, "g": 5, "h": 6}
    assert fits(read_expected(expected), actual, {})


# ---------------------------------------------------------------- hosts


def test_the_python_host_shows_the_answer(work: Path) -> None:
    assert "hi" in _run_host([sys.executable, "host.py"], work)


@pytest.mark.skipif(shutil.which("jq") is None, reason="the host needs jq")
def test_the_shell_host_shows_the_answer(work: Path) -> None:
    assert "hi" in _run_host(["sh", "host.sh"], work)


def test_the_python_host_fails_with_the_error_of_the_model(work: Path) -> None:
    (work / "fail.json").write_text('[{"error": "no credit left"}]')
    settings = work.parent / "home" / ".pi" / "agent" / "settings.json"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"defaultProvider": "ludolf", "defaultModel": "scripted"}')
    done = subprocess.run(
        [sys.executable, "host.py", "Hi"],
        cwd=work,
        env={**_env(work), "LUDOLF_SCRIPT": "fail.json"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=2 * WAIT_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"no credit left" in done.stderr


def _run_host(command: list[str], work: Path) -> str:
    done = subprocess.run(
        [*command, "read a.txt"],
        cwd=work,
        env=_env(work),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=2 * WAIT_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
    assert b"Here is a.txt" in done.stdout
    return done.stdout.decode()


@pytest.mark.parametrize("name", ["host.py", "host.sh"])
def test_a_host_has_about_twenty_lines(name: str) -> None:
    (text,) = [fence.text for fence in _fences() if fence.file == name]
    assert len([line for line in text.splitlines() if line.strip()]) <= 22


# ---------------------------------------------------------------- completeness


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE.read_text()


@pytest.mark.parametrize("code", sorted(MORE_CODES))
def test_every_error_code_is_on_the_page(code: str) -> None:
    assert f"\n| `{code}` |" in PAGE.read_text()


@pytest.mark.parametrize("name", EVENT_NAMES)
def test_every_event_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE.read_text()


@pytest.mark.parametrize(
    ("order", "words"), [("now", "at once"), ("in_turn", "in turn"), ("own_task", "concurrently")]
)
def test_the_page_knows_the_order_of_every_command(order: str, words: str) -> None:
    found = re.search(rf"^\| \*\*{words}\*\* \|([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    assert found is not None
    named = re.findall(r"`(\w+)`", found[1])
    assert sorted(named) == sorted(name for name, spec in COMMANDS.items() if spec.order == order)


@pytest.mark.parametrize("kind", [kind for kind in get_args(Event) if kind is not MessageUpdate])
def test_every_field_of_an_event_is_in_its_row(kind: type[msgspec.Struct]) -> None:
    row = _row(str(kind.__struct_config__.tag))
    for field in kind.__struct_encode_fields__:
        assert re.search(rf"`{field}\??`", row), field


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - OF_OTHERS))
def test_every_parameter_of_a_command_is_in_its_row(name: str) -> None:
    row = _row(name)
    for parameter in COMMANDS[name].params.__struct_encode_fields__:
        assert re.search(rf"`{parameter}\??`", row), parameter


def _row(name: str) -> str:
    """The row of a command or an event in its table."""
    rows = re.findall(
        rf"^\| (?:[^|]*, (?:also called )?)?`{name}`[^|]*\|.*$", PAGE.read_text(), re.MULTILINE
    )
    assert len(rows) == 1, rows
    return str(rows[0])


def test_links_of_the_page_lead_to_a_heading_or_a_page_of_this_folder() -> None:
    page = PAGE.read_text()
    anchors = {
        "#" + re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in _HEADING.findall(page)
    }
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    assert links
    for link in links:
        assert link in anchors or re.fullmatch(r"[\w-]+\.md|decisions/[\w-]+\.md", link), link
