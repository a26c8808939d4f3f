"""Programs for use outside the sandbox: none that a command could have put there."""

import os
from pathlib import Path

import pytest

from ludolf.base.programs import find_program, safe_path
from ludolf.config.settings.value_syntax import Resolver


def _program(path: Path, text: str = "exit 0") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_a_program_comes_from_no_writable_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, own = tmp_path / "work", tmp_path / "own"
    _program(work / "bin/tool")
    good = _program(own / "tool")
    (tmp_path / "linked").symlink_to(work / "bin")
    (tmp_path / "links").mkdir()
    (tmp_path / "links/tool").symlink_to(work / "bin/tool")
    (work / "back").mkdir()
    (work / "back/tool").symlink_to(good)
    monkeypatch.chdir(work)
    bad = (work / "bin", tmp_path / "linked", tmp_path / "links", work / "back", "bin", "", ".")
    monkeypatch.setenv("PATH", os.pathsep.join(map(str, (*bad, own))))
    assert find_program("tool", os.environ["PATH"], (work,)) == str(good)
    assert find_program("tool", os.environ["PATH"], (work, own)) is None
    path = safe_path(os.environ["PATH"], (work,))
    assert path.split(os.pathsep) == [str(tmp_path / "links"), str(own)]


def test_the_systems_own_program_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _program(tmp_path / "sh")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("sh", os.environ.get("PATH", "")) in ("/usr/bin/sh", "/bin/sh")


def test_a_key_command_runs_no_program_from_a_writable_place(tmp_path: Path) -> None:
    work, own = tmp_path / "work", tmp_path / "own"
    _program(work / "keytool", "echo stolen")
    _program(own / "keytool", "echo key")
    resolver = Resolver({"PATH": f"{work}:{own}:/usr/bin:/bin"})
    assert resolver.resolve("!keytool") == "stolen"
    resolver.writable = (work,)
    assert resolver.resolve("!keytool") == "key"
