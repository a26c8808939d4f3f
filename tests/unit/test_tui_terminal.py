"""The terminal is asked for its modes at the start and is left sane, however the program ends."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from ludolf.tui.keys import KeyParser, TerminalReply
from ludolf.tui.terminal import FALLBACK_SIZE, RawTerminal, TerminalTraits
from tests.tui_pane import SOURCE, is_sane

XTERM = {"TERM": "xterm-256color"}
ASKED = ("\x1b[?2004h", "\x1b[>5u", "\x1b[>4;2m", "\x1b[>0q", "\x1b]11;?\x1b\\", "\x1b[c")
UNDONE = ("\x1b[?25h", "\x1b[?2004l", "\x1b[<u", "\x1b[>4;0m", "\x1b[?2026l")
PROGRAM = """
import os, sys
from ludolf.tui.screen import LiveScreen
from ludolf.tui.terminal import RawTerminal
with RawTerminal({"TERM": "xterm"}) as terminal:
    screen = LiveScreen(terminal.write, terminal.size)
    screen.show(["live"], (0, 2))
    screen.draw()
    ALTERNATE
    terminal.write(b"READY")
    END
"""


class Line:
    """Both ends of a pseudo terminal."""

    def __init__(self) -> None:
        self.outer, self.inner = pty.openpty()

    def read(self, until: str) -> str:
        """Return what has been written up to a text."""
        text = ""
        while until not in text:
            assert select.select([self.outer], [], [], 30)[0], text
            text += os.read(self.outer, 65536).decode()
        return text

    def rest(self) -> str:
        """Return what has been written so far."""
        text = b""
        while select.select([self.outer], [], [], 0)[0]:
            text += os.read(self.outer, 65536)
        return text.decode()


@pytest.fixture
def line() -> Iterator[Line]:
    line = Line()
    yield line
    os.close(line.outer)
    os.close(line.inner)


def _run(line: Line, end: str, alternate: str = "pass") -> subprocess.Popen[bytes]:
    program = PROGRAM.replace("ALTERNATE", alternate).replace("END", end)
    return subprocess.Popen(
        [sys.executable, "-P", "-c", program],
        env={"PYTHONPATH": str(SOURCE)},
        stdin=line.inner,
        stdout=line.inner,
        stderr=subprocess.DEVNULL,
    )


def test_the_modes_of_the_block_are_undone_at_its_end(line: Line) -> None:
    assert is_sane(line.inner)
    with pytest.raises(KeyError), RawTerminal(XTERM, line.inner, line.inner):
        assert not is_sane(line.inner)
        written = line.rest()
        assert all(mode in written for mode in ASKED)
        raise KeyError
    assert is_sane(line.inner)
    written = line.rest()
    assert all(mode in written for mode in UNDONE)


def test_keys_that_were_typed_before_the_block_are_kept(line: Line) -> None:
    os.write(line.outer, b"typed\n")
    with RawTerminal(XTERM, line.inner, line.inner) as terminal:
        assert terminal.read() == b"typed\n"


def test_a_simple_terminal_is_asked_for_nothing(line: Line) -> None:
    with RawTerminal({"TERM": "linux"}, line.inner, line.inner):
        assert line.rest() == ""
    assert line.rest() == "\x1b[0m\x1b[?2026l\x1b[?25h"


@pytest.mark.parametrize(
    "end",
    ["raise RuntimeError", "sys.exit(3)", "os.kill(os.getpid(), 2)"],
)
def test_a_crash_leaves_a_sane_terminal(line: Line, end: str) -> None:
    with _run(line, f"terminal.read(); {end}") as child:
        line.read("READY")
        os.write(line.outer, b"x")
        assert child.wait(30) != 0
    assert is_sane(line.inner)
    written = line.rest()
    assert all(mode in written for mode in UNDONE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
@pytest.mark.parametrize("alternate", ["pass", 'terminal.write(b"\\x1b[?1049h")'])
def test_a_signal_that_ends_the_program_leaves_a_sane_terminal(
    line: Line, number: signal.Signals, alternate: str
) -> None:
    with _run(line, "terminal.read()", alternate) as child:
        line.read("READY")
        child.send_signal(number)
        # Python handles a signal that comes just before `read` only after a byte was read.
        os.write(line.outer, b"x")
        assert child.wait(30) == -number
    assert is_sane(line.inner)
    written = line.rest()
    assert all(mode in written for mode in UNDONE)
    assert ("\x1b[?1049l" in written) is (alternate != "pass")


def test_answers_that_come_late_are_not_left_for_the_shell(line: Line) -> None:
    with RawTerminal(XTERM, line.inner, line.inner):
        os.write(line.outer, b"\x1b[?62c")
    os.write(line.outer, b"ls\n")
    assert os.read(line.inner, 100) == b"ls\n"
    with RawTerminal(XTERM, line.inner, line.inner) as terminal:
        terminal.capabilities.learn(TerminalReply("csi", "?62c"))
        os.write(line.outer, b"pwd\n")
    assert os.read(line.inner, 100) == b"pwd\n"


def test_raw_mode_is_entered_again_after_a_stop_from_outside(line: Line) -> None:
    with RawTerminal(XTERM, line.inner, line.inner) as terminal:
        sane = termios.tcgetattr(line.inner)
        sane[3] |= termios.ICANON | termios.ECHO
        termios.tcsetattr(line.inner, termios.TCSANOW, sane)
        line.rest()
        terminal.continued()
        assert not is_sane(line.inner)
        assert not termios.tcgetattr(line.inner)[3] & termios.ECHO
        written = line.rest()
        assert "\x1b[?2004h" in written
        assert "\x1b[>0q" not in written
    assert is_sane(line.inner)


def test_the_size_is_the_terminals_or_a_common_one(line: Line, tmp_path: Path) -> None:
    terminal = RawTerminal(XTERM, line.inner, line.inner)
    assert (terminal.known_size(), terminal.size()) == (None, FALLBACK_SIZE)
    termios.tcsetwinsize(line.inner, (30, 100))
    assert terminal.size() == (100, 30)
    with (tmp_path / "file").open("wb") as file:
        assert RawTerminal(XTERM, line.inner, file.fileno()).known_size() is None


def test_a_terminal_that_is_gone_ends_reading_and_takes_writes() -> None:
    line = Line()
    with RawTerminal(XTERM, line.inner, line.inner) as terminal:
        os.close(line.outer)
        assert terminal.read() == b""
        terminal.write(b"lost")
    os.close(line.inner)


def test_answers_say_what_the_terminal_can_do() -> None:
    traits = TerminalTraits()
    assert (traits.is_light, traits.reflows, traits.answered) == (None, True, False)
    data = (
        b"\x1bP>|XTerm(390)\x1b\\\x1b]11;rgb:ffff/f0f0/8080\x1b\\\x1b[?5u\x1b[?62;4c"
        b"\x1b]11;rgb:nonsense\x07\x1b[?2026;1$y"
    )
    replies = [event for event in KeyParser().feed(data) if isinstance(event, TerminalReply)]
    assert [traits.learn(reply) for reply in replies] == [True] * 4 + [False] * 2
    assert (traits.name, traits.background) == ("XTerm(390)", (255, 240, 128))
    assert (traits.is_light, traits.reflows, traits.kitty_keys) == (True, False, True)
    assert traits.answered
    assert traits.learn(TerminalReply("osc", "11;rgb:00/00/20"))
    assert traits.is_light is False
