"""In a real terminal that reflows, each finished row is there once and one live area is left."""

import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ludolf.tui.pace import SETTLE_SECONDS
from tests.tui_pane import Pane

pytestmark = pytest.mark.skipif(not shutil.which("tmux"), reason="tmux is not installed")

SIZES = [(60, 24), (100, 20), (37, 30), (80, 12), (50, 24), (90, 24)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder whose path fits into the address of a socket."""
    with tempfile.TemporaryDirectory(prefix="pane.") as name:
        yield Path(name)


def _live(columns: int, text: str) -> list[str]:
    """A live area whose rows fill the width, as rules and footers do."""
    footer = f"FOOTER {columns}".ljust(columns - 6, ".") + "right"
    return ["STATUS " + "日" * 8, "─" * (columns - 1), f"> PROMPT {text}", footer]


def _stream(pane: Pane, finished: list[str], columns: int) -> None:
    for _ in range(6):
        new = [f"row {len(finished)} " + "x" * (1 + len(finished) % 30)]
        finished += new
        text = "y" * (len(finished) % (columns - 12))
        pane.order(print=new, show=_live(columns, text), cursor=(2, 9 + len(text)))


@pytest.mark.parametrize("first", ["true", "seq -f 'shell %g' 60"], ids=["top", "bottom"])
def test_a_stream_and_six_resizes_leave_each_row_once_and_one_live_area(
    folder: Path, first: str
) -> None:
    with Pane(folder, 80, 24, first) as pane:
        finished: list[str] = []
        columns = 80
        for size in SIZES:
            _stream(pane, finished, columns)
            pane.resize(*size)
            columns = size[0]
        _stream(pane, finished, columns)
        rows = pane.rows()
        shell = [f"shell {number}" for number in range(1, 61)] if "seq" in first else []
        assert [row for row in rows if row.startswith("shell")] == shell
        assert [row for row in rows if row.startswith("row")] == finished
        for mark in ("STATUS", "PROMPT", "FOOTER", "────"):
            assert len([row for row in rows if mark in row]) == 1, mark
        assert len(rows) == len(shell) + len(finished) + 4


def _drag(pane: Pane) -> None:
    for size in SIZES:
        pane.set_size(*size)


def test_sizes_that_change_during_each_draw_lose_no_row_and_leave_one_prompt(folder: Path) -> None:
    with Pane(folder, 80, 24, settle_seconds=SETTLE_SECONDS) as pane:
        finished: list[str] = []
        with ThreadPoolExecutor(1) as others:
            drag = others.submit(_drag, pane)
            while not drag.done():
                _stream(pane, finished, 80)
            drag.result()
        pane.resize(70, 20)
        _stream(pane, finished, 70)
        rows = pane.rows()
        assert [row for row in rows if row.startswith("row")] == finished
        assert len([row for row in rows if "PROMPT" in row or "FOOTER" in row]) == 2


def test_the_pager_and_the_end_leave_the_rows_as_they_were(folder: Path) -> None:
    with Pane(folder, 60, 12) as pane:
        finished: list[str] = []
        _stream(pane, finished, 60)
        pane.order(page=[f"page {number}" for number in range(40)])
        _stream(pane, finished, 60)
        pane.order(end=True)
        assert pane.rows() == finished


def test_a_suspended_program_leaves_a_sane_terminal_and_comes_back(folder: Path) -> None:
    with Pane(folder, 60, 12) as pane:
        finished: list[str] = []
        _stream(pane, finished, 60)
        pane.order(suspend=True)
        assert (folder / "state").read_text() == "true"
        rows = pane.rows()
        assert rows[: len(finished)] == finished
        assert len(rows) == len(finished) + 4
        _stream(pane, finished, 60)
        assert pane.rows()[: len(finished)] == finished
