"""The live screen keeps the rules of drawing inline, on each of its bytes and on the screen."""

import random
import re

import pyte
import pytest

from ludolf.tui.cells import width
from ludolf.tui.screen import LiveScreen

# What a draw may contain: text, our styles, moves relative to the cursor, and the clears.
_ALLOWED = re.compile(
    r"[^\x00-\x1f\x7f-\x9f]|\r\n|\r|\x1b\[[0-9;]*m|\x1b\[[0-9]*[ABC]|\x1b\[2?K|\x1b\[J"
    r"|\x1b\[\?25[hl]|\x1b\[\?2026[hl]"
)


class Stage:
    """A live screen on a terminal in memory, which checks each write."""

    def __init__(self, columns: int = 20, lines: int = 8, row: int = 0) -> None:
        self.size = (columns, lines)
        self.writes: list[str] = []
        self.terminal = pyte.HistoryScreen(columns, lines, history=10_000)
        self.stream = pyte.Stream(self.terminal)
        self.stream.feed("\r\n" * row)
        self.screen = LiveScreen(self._write, lambda: self.size)

    def _write(self, data: bytes) -> None:
        text = data.decode()
        self.writes.append(text)
        assert _ALLOWED.sub("", text) == ""
        for row in re.split(r"\r\n|\r", text):
            assert width(re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", row)) < self.size[0]
        for piece in re.split(r"(?=\x1b\[J)", text):
            if piece.startswith("\x1b[J"):
                assert self.terminal.cursor.y > 0, "tmux moves the screen into its history"
            self.stream.feed(piece)

    def draw(self, *finished: str, live: tuple[str, ...], at: tuple[int, int] | None) -> int:
        """Draw, and return the number of bytes that it took."""
        before = len(self.writes)
        self.screen.print(finished)
        self.screen.show(live, at)
        self.screen.draw()
        assert len(self.writes) <= before + 1
        return sum(len(text.encode()) for text in self.writes[before:])

    def rows(self) -> list[str]:
        """Return all rows of scrollback and screen, without empty ones at the end."""
        top = [
            "".join(row[column].data for column in range(self.terminal.columns)).rstrip()
            for row in self.terminal.history.top
        ]
        rows = [*top, *(row.rstrip() for row in self.terminal.display)]
        while rows and not rows[-1]:
            rows.pop()
        return rows


def test_finished_rows_stay_above_the_live_area() -> None:
    stage = Stage()
    stage.draw("one", "two", live=("> ", "footer"), at=(0, 2))
    assert stage.rows() == ["one", "two", ">", "footer"]
    assert (stage.terminal.cursor.y, stage.terminal.cursor.x) == (2, 2)
    stage.draw("three", live=("> x", "footer"), at=(0, 3))
    assert stage.rows() == ["one", "two", "three", "> x", "footer"]
    assert (stage.terminal.cursor.y, stage.terminal.cursor.x) == (3, 3)
    assert not stage.terminal.cursor.hidden


def test_an_unchanged_area_writes_nothing_and_a_key_writes_little() -> None:
    stage = Stage(80, 24)
    live = ("status " * 8, "─" * 60, "> hello", "footer " * 8)
    stage.draw(live=live, at=(2, 7))
    assert stage.draw(live=live, at=(2, 7)) == 0
    assert stage.draw(live=(*live[:2], "> hellox", live[3]), at=(2, 8)) <= 80
    assert stage.draw(live=(*live[:2], "> hellox", live[3]), at=(2, 7)) <= 8


def test_a_draw_is_one_synchronised_write() -> None:
    stage = Stage()
    stage.draw("a", live=("x", "y"), at=(0, 1))
    stage.draw(live=("z",), at=None)
    for text in stage.writes:
        assert text.startswith("\x1b[?2026h\x1b[?25l")
        assert text.endswith("\x1b[?2026l")
    assert stage.terminal.cursor.hidden


def test_the_live_area_shrinks_and_vanishes() -> None:
    stage = Stage()
    stage.draw("a", live=("1", "2", "3", "4"), at=(3, 0))
    stage.draw(live=("1",), at=(0, 0))
    assert stage.rows() == ["a", "1"]
    stage.draw("b", "c", live=(), at=None)
    assert stage.rows() == ["a", "b", "c"]
    stage.draw(live=("x",), at=(0, 0))
    assert stage.rows() == ["a", "b", "c", "x"]


def test_too_many_rows_and_too_wide_ones_are_cut() -> None:
    stage = Stage(10, 8)
    stage.draw("f" * 30, live=tuple(f"{n} {'日' * 10}" for n in range(9)), at=(7, 5))
    assert stage.rows() == ["f" * 9, *(f"{n} 日日日" for n in range(5, 9))]
    assert stage.terminal.cursor.y == 3


def test_the_row_of_the_cursor_is_among_those_that_are_shown() -> None:
    stage = Stage(10, 8)
    stage.draw(live=tuple("012345678"), at=(2, 0))
    assert stage.rows() == list("2345")
    assert (stage.terminal.cursor.y, stage.terminal.cursor.x) == (0, 0)


@pytest.mark.parametrize("row", [0, 3, 7])
def test_any_draws_leave_each_finished_row_once_and_one_live_area(row: int) -> None:
    chance = random.Random(row)
    stage = Stage(20, 8, row)
    finished: list[str] = []
    for step in range(150):
        new = [f"row {step}.{number}" for number in range(chance.choice([0, 0, 1, 2, 11]))]
        count = chance.randint(0, 4)
        live = tuple(f"live {chance.randint(0, 2)}" for _ in range(count))
        at = (chance.randrange(count), chance.randint(0, 6)) if count and step % 3 else None
        finished += new
        stage.draw(*new, live=live, at=at)
        if finished or live:
            assert stage.rows()[row:][-8:] == [*finished, *live][-8:]
    assert stage.rows()[row:] == [*finished, *live]


def test_suspend_removes_the_area_and_resume_draws_it_again() -> None:
    stage = Stage()
    stage.draw("a", live=("x", "y"), at=(0, 1))
    stage.screen.print(["b"])
    stage.screen.suspend()
    assert stage.rows() == ["a", "b"]
    assert not stage.terminal.cursor.hidden
    assert stage.draw(live=("z",), at=None) == 0
    stage.stream.feed("$ fg\r\n")
    stage.screen.resume()
    stage.screen.draw()
    assert stage.rows() == ["a", "b", "$ fg", "z"]
    stage.screen.close()
    assert stage.rows() == ["a", "b", "$ fg"]
    assert stage.writes[-1].endswith("\x1b[0m\x1b[?25h")


def test_the_alternate_screen_holds_draws_back_and_comes_back_to_the_same_rows() -> None:
    writes: list[bytes] = []
    screen = LiveScreen(writes.append, lambda: (20, 8))
    screen.show(["live"], (0, 0))
    screen.draw()
    with screen.alternate() as page:
        screen.print(["finished"])
        screen.draw()
        page.draw(["one", "two"], (1, 0))
        first = len(writes[-1])
        page.draw(["one", "TWO"])
        assert len(writes[-1]) < first
        assert b"finished" not in b"".join(writes)
    assert writes[1].startswith(b"\x1b[?1049h")
    assert b"\x1b[?1049l" in writes[-1]
    assert writes[-1].endswith(b"\x1b[?25h")
    screen.draw()
    assert b"finished" in writes[-1]


@pytest.mark.parametrize("columns", [10, 15, 19, 40])
def test_after_a_resize_the_terminals_own_wrapping_is_counted(columns: int) -> None:
    """A terminal that reflows has wrapped the two rows above the cursor, and the cursor's own."""
    writes: list[bytes] = []
    size = [(31, 20)]
    screen = LiveScreen(writes.append, lambda: size[0])
    screen.show(["日" * 15, "x" * 30, "y" * 25], (2, 25))
    screen.draw()
    size[0] = (columns, 20)
    screen.resized()
    screen.draw()
    wide = {10: 3, 15: 3, 19: 2, 40: 1}[columns]
    above = wide + -(-30 // columns) + (25 - (columns == 25)) // columns
    assert f"\r\x1b[{above}A\x1b[2K\r\n\x1b[J".encode() in writes[-1]
    screen.reflows = False
    screen.resized()
    screen.draw()
    assert b"\r\x1b[2A\x1b[2K\r\n\x1b[J" in writes[-1]


def test_a_character_that_the_encoding_lacks_is_a_question_mark() -> None:
    writes: list[bytes] = []
    screen = LiveScreen(writes.append, lambda: (20, 8), "ascii")
    screen.print(["é\ud800"])
    screen.draw()
    assert b"??" in writes[0]
