"""The page about batches: its commands print what it shows."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from ludolf.fleet.api import BatchOptions
from ludolf.fleet.results import ItemResult
from tests.process.harness import SOURCE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "fleet.md").read_text()
_FENCE = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FENCES = [(found[1], found[2], found[3]) for found in _FENCE.finditer(PAGE)]


def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    work, programs = tmp_path / "work", tmp_path / "bin"
    for folder in (work, programs, tmp_path / "home"):
        folder.mkdir()
    python = shlex.quote(sys.executable)
    for name, words in {"ludolf": f"{python} -m ludolf", "python3": python}.items():
        (programs / name).write_text(f'#!/bin/sh\n{words} "$@"\n')
        (programs / name).chmod(0o755)
    env = {
        "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path),
        "LANG": "C.UTF-8",
        "PYTHONPATH": str(SOURCE),
        "LUDOLF_LOCAL_SERVERS": "0",
    }
    for _, name, text in FENCES:
        if name:
            (work / name).write_text(text)
    for language, _, text in FENCES:
        for part in text.split("$ ")[1:] if language == "console" else ():
            command, _, wanted = part.partition("\n")
            done = subprocess.run(
                ["sh", "-c", command],
                cwd=work,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            pattern = ".*".join(map(re.escape, wanted.rstrip().split("…")))
            output = done.stdout.decode().rstrip()
            assert re.fullmatch(pattern, output, re.DOTALL), f"{command}\n{output}"


def test_the_page_names_every_field_of_a_result() -> None:
    for name in ItemResult.__struct_encode_fields__:
        assert f"`{name}`" in PAGE, name


def test_every_option_of_the_function_is_described() -> None:
    described = BatchOptions.__doc__ or ""
    assert [name for name in BatchOptions.__optional_keys__ if name not in described] == []
