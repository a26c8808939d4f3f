"""The project to copy: its instructions, skill and template reach the model as the page says."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from ludolf.base import dumps
from tests.examples.ground import EXAMPLES, ROOT, Ground
from tests.process.harness import Finished, text_of

PROJECT = EXAMPLES / "project"
PAGE = (ROOT / "docs" / "instructions.md").read_text()
COMMANDS = re.findall(r"^ludolf (--approve .+)$", PAGE, re.MULTILINE)


@pytest.fixture
def project(ground: Ground) -> Path:
    shutil.copytree(PROJECT, ground.work, dirs_exist_ok=True)
    ground.script({"text": "Done."})
    return ground.work


def _run(ground: Ground, arguments: str) -> tuple[Finished, str]:
    """Run one command; how it ended, and the prompt that the model received."""
    done = ground.run("ludolf", *shlex.split(arguments))
    return done, text_of(ground.said[0])


def _system_prompt(ground: Ground, *options: str) -> str:
    done = ground.run(
        *("ludolf", "--mode", "rpc", "--rpc-dialect", "omp", "--no-session", *options),
        stdin=dumps({"type": "get_state"}) + b"\n",
    )
    (state,) = (one["data"] for one in done.records if one.get("command") == "get_state")
    return "\n".join(state["systemPrompt"])


def test_the_page_names_every_file() -> None:
    files = {path.relative_to(PROJECT).as_posix() for path in PROJECT.rglob("*") if path.is_file()}
    assert {name for name in files if f"\n{name} " not in PAGE} == set()


@pytest.mark.parametrize("arguments", COMMANDS)
def test_the_commands_of_the_page_are_answered(
    arguments: str, ground: Ground, project: Path
) -> None:
    done, prompt = _run(ground, arguments)
    assert (done.code, done.stdout, done.stderr) == (0, b"Done.\n", "")
    assert not prompt.startswith("/")


def test_a_template_takes_its_arguments(ground: Ground, project: Path) -> None:
    _, plain = _run(ground, COMMANDS[0])
    assert plain.startswith("Review `tides.py`. Pay attention to correctness and missing tests.\n")


def test_a_template_prefers_what_is_given_to_its_default(ground: Ground, project: Path) -> None:
    _, aimed = _run(ground, COMMANDS[1])
    assert aimed.startswith("Review `tides.py`. Pay attention to time zones.\n")


def test_a_skill_comes_with_its_folder_and_the_rest_of_the_line(
    ground: Ground, project: Path
) -> None:
    _, prompt = _run(ground, COMMANDS[2])
    folder = project / ".pi/skills/release-notes"
    assert f"References are relative to {folder}." in prompt
    assert prompt.endswith("</skill>\n\nfor version 2")
    assert (folder / "form.md").is_file()


def test_the_system_prompt_has_instructions_addendum_and_skill(
    ground: Ground, project: Path
) -> None:
    prompt = _system_prompt(ground, "--approve")
    assert (PROJECT / "AGENTS.md").read_text().strip() in prompt
    assert (PROJECT / ".pi/APPEND_SYSTEM.md").read_text().strip() in prompt
    assert "<name>release-notes</name>" in prompt


def test_without_trust_only_the_instructions_are_used(ground: Ground, project: Path) -> None:
    prompt = _system_prompt(ground)
    assert "# Tides" in prompt
    assert "Ask before you add a dependency" not in prompt
    assert "release-notes" not in prompt
