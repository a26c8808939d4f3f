"""Terminals that can less: lines only, ASCII, no colours."""

import pytest

from tests.process.harness import Lab
from tests.process.script import answer, call
from tests.process.tmux_stage import tmux_terminal


@pytest.mark.parametrize(("words", "env"), [((), {"TERM": "dumb"}), (("--plain",), {})])
def test_a_dumb_terminal_gets_lines_and_numbered_questions(
    lab: Lab, words: tuple[str, ...], env: dict[str, str]
) -> None:
    lab.server.add(answer("I **write**.", call("bash", {"command": "echo x"})), answer("Done."))
    with tmux_terminal(lab) as terminal:
        terminal.start(*words, "--approval", "on-command", "go", **env)
        terminal.wait_for("3. Deny")
        terminal.type("2")
        terminal.press("Enter")
        screen = terminal.wait_for("Done.\n>")
        assert "I **write**." in screen
        assert "command: echo x" in screen
        assert "[bash] echo x: done" in screen
        assert "\x1b" not in terminal.styled()
        terminal.press("C-d")
        terminal.wait(lambda screen: screen.rstrip().endswith("$"))
        assert terminal.pids("--private") == []


def test_a_locale_without_utf_8_gets_ascii_frames(lab: Lab) -> None:
    lab.server.add(answer("Grüße, 世界. Bye"))
    with tmux_terminal(lab) as terminal:
        terminal.start("hi", LANG="C")
        screen = terminal.wait_for("Bye")
        screen = terminal.wait_for("% of 200k")
        assert "Gr??e" in screen
        assert screen.isascii()
        assert "------" in screen


def test_no_color_means_none(lab: Lab) -> None:
    lab.server.add(answer("# Head\n\n```python\nx = 1\n```\nEnd"))
    with tmux_terminal(lab) as terminal:
        terminal.start("hi", NO_COLOR="1")
        terminal.wait_for("% of 200k")
        assert "\x1b[38" not in terminal.styled()
        assert "\x1b[48" not in terminal.styled()


def test_a_tiny_terminal_has_an_editor_and_a_footer(lab: Lab) -> None:
    with tmux_terminal(lab, 25, 6) as terminal:
        terminal.start()
        screen = terminal.wait_for("large")
        assert "> Type a task" in screen
        assert "──" not in screen
