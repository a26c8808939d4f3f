"""Emacs and Neovim with their clients of ACP: `ludolf acp` asks with a diff and edits a file.

`make test-editors EDITORS=folder` runs them. The folder has the sources of the plugins, one folder
each: for Emacs (29.1 or newer) `acp.el`, `shell-maker`, `agent-shell`; for Neovim (0.11 or newer)
`plenary.nvim`, `codecompanion.nvim`.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ludolf.base import loads
from tests.process.harness import Lab
from tests.process.model_server import ModelServer
from tests.process.script import answer, call

HERE = Path(__file__).parent
FOLDER = os.environ.get("LUDOLF_TEST_EDITORS", "")
PATIENCE_SECONDS = 180.0
EDIT = {"path": "notes.txt", "edits": [{"oldText": "Hello", "newText": "Good morning"}]}

pytestmark = [
    pytest.mark.skipif(not FOLDER, reason="editors are tried by `make test-editors`"),
    pytest.mark.timeout(2 * PATIENCE_SECONDS),
]


class Desk:
    """A lab with a `ludolf` on PATH and a file for the editor."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.notes = lab.work / "notes.txt"
        self.notes.write_text("Hello\n")
        self._bin = lab.root / "bin"
        self._bin.mkdir()
        command = self._bin / "ludolf"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ludolf "$@"\n')
        command.chmod(0o755)
        lab.server.add(
            answer("I look.", call("read", {"path": "notes.txt"}, "call_0")),
            answer("I edit.", call("edit", EDIT, "call_0")),
            answer("The greeting is polite now."),
        )

    def run(self, *words: str | Path) -> dict[str, Any]:
        """Run an editor to its end; its last line says what the user saw."""
        env = self.lab.env
        done = subprocess.run(
            [str(word) for word in words],
            cwd=self.lab.work,
            env={
                **env,
                "PATH": f"{self._bin}{os.pathsep}{env['PATH']}",
                "XDG_CONFIG_HOME": str(self.lab.root / "config"),
                "LUDOLF_TEST_EDITORS": FOLDER,
                "TERM": "dumb",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        said = (done.stdout[-4000:] + done.stderr[-8000:]).decode(errors="replace")
        assert done.returncode == 0, said
        report: dict[str, Any] = loads(done.stdout.splitlines()[-1])
        assert "error" not in report, said
        return report


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(Lab(tmp_path, server))


def editor(name: str, *plugins: str) -> list[Path]:
    """The program and the folders of its plugins; skips where one is missing."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not on PATH")
    folders = [Path(FOLDER, plugin) for plugin in plugins]
    for folder in folders:
        if not folder.is_dir():
            pytest.skip(f"{folder} is not there: put the sources of {folder.name} there")
    return [Path(found), *folders]


def test_emacs_shows_the_diff_and_the_agent_works_on_unsaved_text(desk: Desk) -> None:
    emacs, *folders = editor("emacs", "acp.el", "shell-maker", "agent-shell")
    paths = [word for folder in folders for word in ("-L", folder)]
    report = desk.run(emacs, "-Q", "--batch", *paths, "-l", HERE / "agent_shell.el")
    if "tooOld" in report:
        pytest.skip(f"agent-shell needs Emacs 29.1 or newer; this is {report['tooOld']}")
    (asked,) = report["asked"]
    assert (asked["title"], asked["kind"]) == ("Edit notes.txt", "edit")
    assert set(asked["options"]) == {"allow_once", "allow_always", "reject_once"}
    assert (asked["old"], asked["new"]) == ("Hello\nunsaved line\n", "Good morning\nunsaved line\n")
    assert "unsaved line" in str(desk.lab.server.requests[1].body["messages"][-1])
    assert report["buffer"] == desk.notes.read_text() == "Good morning\nunsaved line\n"
    assert not report["modified"]
    assert "The greeting is polite now." in report["chat"]


def test_neovim_shows_the_diff_and_its_buffer_has_the_edit(desk: Desk) -> None:
    nvim, *_ = editor("nvim", "plenary.nvim", "codecompanion.nvim")
    report = desk.run(nvim, "--headless", "-u", HERE / "codecompanion.lua")
    assert report["asked"] == 1
    for line in ("Proposed edits for `notes.txt`", "-Hello", "+Good morning", "Always accept"):
        assert line in report["question"]
    # The plugin adds an empty line at the end of a file that is open in a buffer.
    assert report["buffer"].rstrip() == desk.notes.read_text().rstrip() == "Good morning"
    assert "The greeting is polite now." in report["chat"]
