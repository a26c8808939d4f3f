"""The page about editors: its transcript is played, its tables and files are checked."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ludolf.acp.slash_commands import _COMMANDS
from ludolf.protocol.acp.structs import PARAMS
from tests.process.harness import SOURCE, WAIT_SECONDS
from tests.process.test_protocol_page import ANYTHING, fits, read_expected

PAGE = (Path(__file__).parents[2] / "docs" / "acp.md").read_text()
FOLDER = "/path/to/project"
_FENCE = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FENCES = [(found[1], found[2], found[3]) for found in _FENCE.finditer(PAGE)]
TRANSCRIPT = "".join(text for language, _, text in FENCES if language == "jsonl")


@contextmanager
def started(command: str, root: Path) -> Iterator["subprocess.Popen[str]"]:
    """The program of the page's first line, in a folder with the files of the page."""
    work = root / "work"
    for folder in (work, root / "home"):
        folder.mkdir()
    for _, name, text in FENCES:
        if name:
            (work / name).write_text(text)
    words = shlex.split(command)
    program = words.index("ludolf")
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(root / "home"),
        "TMPDIR": str(root),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(SOURCE),
        "LUDOLF_LOCAL_SERVERS": "0",
        **dict(word.split("=", 1) for word in words[:program]),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "ludolf", *words[program + 1 :]],
        cwd=work,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(WAIT_SECONDS) == 0
        finally:
            process.kill()


@pytest.mark.timeout(4 * WAIT_SECONDS)
def test_the_transcript_happens_as_the_page_says(tmp_path: Path) -> None:
    first, *lines = TRANSCRIPT.splitlines()
    names: dict[str, Any] = {}
    may_skip = False
    with started(first.removeprefix("$ "), tmp_path) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for line in lines:
            direction, _, text = line.replace(FOLDER, str(tmp_path / "work")).partition(" ")
            if direction == ">":
                known = re.sub(r'"(\$\w+)"', lambda one: json.dumps(names[one[1]]), text)
                program.stdin.write(f"{known}\n")
                program.stdin.flush()
            elif text == ANYTHING:
                may_skip = True
            else:
                frame = json.loads(program.stdout.readline())
                while may_skip and not fits(read_expected(text), frame, dict(names)):
                    frame = json.loads(program.stdout.readline())
                assert fits(read_expected(text), frame, names), (text, frame)
                may_skip = False


def test_the_configurations_in_json_are_valid() -> None:
    texts = [text for language, name, text in FENCES if language == "json" and not name]
    servers = [json.loads(text)["agent_servers"]["Ludolf"] for text in texts]
    assert [server["args"] for server in servers] == [["acp"], ["acp"]]


@pytest.mark.parametrize("name", sorted(_COMMANDS))
def test_every_slash_command_is_on_the_page(name: str) -> None:
    assert re.search(rf"^\| `/{name}\b", PAGE, re.MULTILINE)


@pytest.mark.parametrize("name", sorted(PARAMS))
def test_every_method_is_on_the_page(name: str) -> None:
    assert f"`{name}`" in PAGE or f"`{name.removeprefix('session/')}`" in PAGE
