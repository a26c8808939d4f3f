"""`ludolf completion`: the scripts in real shells, with the names of a real home."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ludolf.cli import subcommands
from ludolf.config.settings.arguments import SWITCHES, VALUES
from tests.process.harness import Lab
from tests.process.script import answer

BASH = """
source "$1"
COMP_LINE="$2" COMP_POINT=${#2}
_ludolf
printf '%s\\n' "${COMPREPLY[@]}"
"""
ZSH = """
compdef() { :; }
compset() { PREFIX=${cur#*=}; }
compadd() { shift; print -l -- ${(M)@:#${PREFIX}*}; }
_files() { print -l -- ${PREFIX}*(N); }
source "$1"
words=("${(@s: :)2}") CURRENT=$#words PREFIX=$words[-1]
_ludolf
"""
FISH = 'source $argv[1]; complete -C "$argv[2]"'
COMMANDS: dict[str, Sequence[str]] = {
    "bash": ("bash", "--norc", "--noprofile", "-c", BASH, "bash"),
    "zsh": ("zsh", "-f", "-c", ZSH, "zsh"),
    "fish": ("fish", "--no-config", "-c", FISH),
}


class Shell:
    """Completes lines in one shell."""

    def __init__(self, lab: Lab, name: str) -> None:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")
        self.lab = lab
        self.name = name
        done = lab.run("completion", name)
        assert (done.code, done.stderr) == (0, "")
        self.script = lab.root / f"ludolf.{name}"
        self.script.write_bytes(done.stdout)
        folder = lab.root / "bin"
        folder.mkdir()
        program = folder / "ludolf"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ludolf "$@"\n')
        program.chmod(0o755)
        self.path = f"{folder}{os.pathsep}{lab.env['PATH']}"

    def complete(self, line: str) -> set[str]:
        done = subprocess.run(
            [*COMMANDS[self.name], str(self.script), line],
            cwd=self.lab.work,
            env={**self.lab.env, "PATH": self.path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.stderr == ""
        # fish adds a description after a tab.
        return {row.partition("\t")[0] for row in done.stdout.splitlines() if row}


@pytest.fixture(params=list(COMMANDS))
def shell(lab: Lab, request: pytest.FixtureRequest) -> Shell:
    return Shell(lab, request.param)


def test_commands_and_options_are_completed(shell: Shell) -> None:
    words = shell.complete("ludolf ")
    assert set(subcommands.names()) <= words
    assert shell.complete("ludolf --thin") == {"--thinking"}
    assert shell.complete("ludolf ses") == {"sessions"}


def test_options_of_commands_are_completed(shell: Shell) -> None:
    assert {"login", "logout", "status", "print-bearer-token"} <= shell.complete("ludolf auth ")
    assert shell.complete("ludolf auth login --api") == {"--api-key-stdin"}
    assert shell.complete("ludolf completion b") == {"bash"}


def test_values_of_options_are_completed(shell: Shell) -> None:
    assert shell.complete("ludolf --sandbox r") == {"read-only"}
    assert shell.complete("ludolf schema --dialect pi-d") == {"pi-delta"}


def test_models_providers_and_settings_come_from_the_program(shell: Shell) -> None:
    assert shell.complete("ludolf --model claude/l") == {"claude/large"}
    assert "anthropic" in shell.complete("ludolf auth login anth")
    assert shell.complete("ludolf settings get defaultMod") == {"defaultModel"}


def test_the_default_model_is_completed(shell: Shell) -> None:
    assert shell.complete("ludolf models default claude/l") == {"claude/large"}


def test_bash_completes_the_values_of_settings(lab: Lab) -> None:
    shell = Shell(lab, "bash")
    assert shell.complete("ludolf settings set compaction.enabled ") == {"true", "false"}
    assert shell.complete("ludolf settings set steeringMode o") == {"one-at-a-time"}
    assert shell.complete("ludolf settings set sandbox.mode r") == {"read-only"}


def test_sessions_of_the_folder_are_completed(lab: Lab, shell: Shell) -> None:
    lab.server.add(answer("Hello."))
    assert lab.run("-p", "Hi", "--session-id", "my-first-one").code == 0
    assert shell.complete("ludolf sessions show my") == {"my-first-one"}
    assert shell.complete("ludolf view la") == {"last"}


def test_folders_are_completed(lab: Lab, shell: Shell) -> None:
    (lab.work / "project").mkdir()
    found = {name.rstrip("/") for name in shell.complete("ludolf trust proj")}
    assert found == {"project"}


def test_bash_completes_after_a_colon_and_an_equals_sign(lab: Lab) -> None:
    models = lab.agent / "models.json"
    models.write_text(models.read_text().replace('"large"', '"large:8b"'))
    bash = Shell(lab, "bash")
    assert bash.complete("ludolf --model claude/large:") == {"8b"}
    assert bash.complete("ludolf --model=claude/") == {"claude/large:8b"}


def test_names_that_a_shell_would_expand_are_left_out(lab: Lab) -> None:
    models = lab.agent / "models.json"
    models.write_text(models.read_text().replace('"large"', '"$(touch pwned)"'))
    assert Shell(lab, "bash").complete("ludolf --model claude/") == set()
    assert not Path(lab.work / "pwned").exists()


def test_every_flag_of_the_program_is_in_the_scripts(lab: Lab) -> None:
    for name in COMMANDS:
        text = lab.run("completion", name).stdout.decode()
        assert not [flag for flag in (*SWITCHES, *VALUES) if flag not in text]


def test_without_a_shell_the_choices_are_named(lab: Lab) -> None:
    done = lab.run("completion")
    assert done.code == 2
    assert done.stderr.endswith("error: name a shell: bash, zsh, fish\n")
