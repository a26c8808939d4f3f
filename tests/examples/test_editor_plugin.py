"""The plugin works in a real Neovim, without a screen."""

import re
import shutil
from pathlib import Path

import pytest

from ludolf.client import Record
from tests.examples.ground import EXAMPLES, Ground
from tests.process.harness import survivors, text_of

NVIM = shutil.which("nvim")
CASES = Path(__file__).with_name("editor_plugin.lua")
NAMES = re.findall(r"^function cases\.(\w+)", CASES.read_text(), re.MULTILINE)
QUESTIONS = """
def extension(api):
    @api.command("questions")
    async def questions(args, ctx):
        sure = await ctx.ui.confirm("Sure?", "Really.")
        first = await ctx.ui.select("Which?", ["red", "green"])
        second = await ctx.ui.input("Which else?")
        ctx.ui.notify(f"{sure} {first} {second}")
"""
SCRIPTS: dict[str, list[Record]] = {
    "the_selection_is_sent_with_its_place": [{"text": "It is code."}],
    "an_answer_is_stopped": [{"text": "Let me think", "hang": True}],
    "what_is_said_meanwhile_is_heard": [
        {"content": [{"tool": "open_in_editor", "args": {"path": "code.lua"}}]},
        {"text": "Heard both.", "match": "and this"},
    ],
    "a_file_is_opened_at_a_line_by_the_agent": [
        {"content": [{"tool": "open_in_editor", "args": {"path": "code.lua", "line": 2}}]},
        {"text": "There."},
    ],
}

pytestmark = pytest.mark.skipif(NVIM is None, reason="the plugin needs nvim")


def _try(ground: Ground, name: str) -> None:
    (ground.work / "a.txt").write_text("hi\n")
    (ground.work / "code.lua").write_text("one()\ntwo('```')\nthree()\n")
    (ground.work / "questions.py").write_text(QUESTIONS)
    if name in SCRIPTS:
        ground.script(*SCRIPTS[name])
    ground.env["CASE"] = name
    ground.env["XDG_STATE_HOME"] = str(ground.root)
    folder = EXAMPLES / "editor_plugin"
    bare = ("--headless", "-u", "NONE", "-i", "NONE", "-n")
    ready = ("--cmd", f"set rtp^={folder}", "--cmd", "runtime plugin/ludolf.lua")
    done = ground.run(str(NVIM), *bare, *ready, "-S", str(CASES))
    assert done.code == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_in_the_editor(ground: Ground, name: str) -> None:
    _try(ground, name)
    if "program" not in name:
        assert survivors(ground.pids) == []


def test_the_selection_is_quoted_so_that_nothing_in_it_ends_the_quote(ground: Ground) -> None:
    _try(ground, "the_selection_is_sent_with_its_place")
    expected = "explain\n\ncode.lua, lines 2 to 3:\n````lua\ntwo('```')\nthree()\n````"
    assert text_of(ground.said[0]) == expected


def test_every_script_belongs_to_a_case() -> None:
    assert set(SCRIPTS) <= set(NAMES)
