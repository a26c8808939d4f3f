"""Show a batch: a live table at a terminal, else a line for each finished item."""

import asyncio
import os
import time
import warnings
from collections.abc import Sequence
from typing import TextIO

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base.visible import escape_hidden
from ludolf.fleet.orders import ItemProgress

MOST_ROWS = 20
FRAME_SECONDS = 0.25
_BAR_CELLS = 20
_NAME_CELLS = 40
_TOOL_CELLS = 20
_MARKS = {"ok": "ok", "failed": "FAILED", "limit": "LIMIT", "budget": "BUDGET"}


class _Row(msgspec.Struct):
    moved_at: float
    turns: int = 0
    cost: float = 0.0
    tool: str = ""


class PlainView:
    """Writes a line for each finished item, and for each warning."""

    def __init__(self, stream: TextIO, total: int, done: int) -> None:
        self._stream = stream
        self._total = total
        self._done = done

    def started(self, task_id: str) -> None:
        """Shown by the table only."""

    def moved(self, progress: ItemProgress) -> None:
        """Shown by the table only."""

    def finished(self, task_id: str, status: str, text: str) -> None:
        self._done += 1
        cause = f": {one_line(text)}" if text else ""
        self.say(f"[{self._done}/{self._total}] {_MARKS[status]} {one_line(task_id)}{cause}")

    def again(self, task_id: str, text: str) -> None:
        self.say(f"{one_line(task_id)} starts again: {one_line(text)}")

    def say(self, text: str) -> None:
        self._stream.write(f"{text}\n")
        self._stream.flush()


class SilentView:
    """Shows warnings only, as warnings of Python."""

    def started(self, task_id: str) -> None:
        """Not shown."""

    def moved(self, progress: ItemProgress) -> None:
        """Not shown."""

    def finished(self, task_id: str, status: str, text: str) -> None:
        """Not shown."""

    def again(self, task_id: str, text: str) -> None:
        """Not shown."""

    def say(self, text: str) -> None:
        warnings.warn(text, stacklevel=2)


class TableView:
    """A bar and the running items, drawn four times a second below the lines that are written."""

    def __init__(self, stream: TextIO, total: int, done: int, failed: int) -> None:
        self._stream = stream
        self._total = total
        self._done, self._failed = done, failed
        self._began, self._ended_here = time.monotonic(), 0
        self._rows: dict[str, _Row] = {}
        self._cost = 0.0
        self._drawn = 0
        self._tasks = Tasks()

    async def __aenter__(self) -> "TableView":
        self._tasks.start(self._draw_often())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._tasks.close()
        self._rows.clear()
        self._write(self._erased() + f"{self._bar(os_columns(self._stream))}\n")
        self._drawn = 0

    def started(self, task_id: str) -> None:
        self._rows[task_id] = _Row(time.monotonic())

    def moved(self, progress: ItemProgress) -> None:
        old = self._rows.get(progress.id)
        self._cost += progress.cost - (old.cost if old is not None else 0.0)
        self._rows[progress.id] = _Row(
            time.monotonic(), progress.turns, progress.cost, progress.tool
        )

    def finished(self, task_id: str, status: str, text: str) -> None:
        self._rows.pop(task_id, None)
        self._done += 1
        self._ended_here += 1
        if status != "ok":
            self._failed += 1
            self.say(f"{_MARKS[status]} {one_line(task_id)}: {one_line(text)}")

    def again(self, task_id: str, text: str) -> None:
        self._rows.pop(task_id, None)
        self.say(f"{one_line(task_id)} starts again: {one_line(text)}")

    def say(self, text: str) -> None:
        """Write a line above the table."""
        lines = "".join(f"{escape_hidden(line)}\n" for line in text.splitlines())
        self._write(self._erased() + lines)
        self._drawn = 0

    async def _draw_often(self) -> None:
        while True:
            self._draw()
            await asyncio.sleep(FRAME_SECONDS)

    def _draw(self) -> None:
        columns, now = os_columns(self._stream), time.monotonic()
        shown = sorted(self._rows.items(), key=lambda pair: pair[1].moved_at)[:MOST_ROWS]
        rows = [self._bar(columns), *_shown_rows(shown, now, columns)]
        more = len(self._rows) - len(shown)
        if more:
            rows.append(f"  and {more} more")
        self._write(self._erased() + "".join(f"{row}\n" for row in rows))
        self._drawn = len(rows)

    def _bar(self, columns: int) -> str:
        full = _BAR_CELLS * self._done // max(1, self._total)
        seconds = time.monotonic() - self._began
        rate = self._ended_here / seconds if seconds > 0 else 0.0
        left = (self._total - self._done) / rate if rate else 0.0
        parts = [f"[{'#' * full}{'-' * (_BAR_CELLS - full)}] {self._done}/{self._total}"]
        if self._failed:
            parts.append(f"{self._failed} failed")
        parts.append(f"${self._cost:.2f}")
        if rate:
            parts.append(f"{60 * rate:.1f}/min")
        if left:
            parts.append(f"{_clock(left)} left")
        return cut(" · ".join(parts), columns)

    def _erased(self) -> str:
        """Return the sequence that moves to the first row of the table and clears all below."""
        return f"\x1b[{self._drawn}F\x1b[J" if self._drawn else ""

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _shown_rows(shown: Sequence[tuple[str, _Row]], now: float, columns: int) -> list[str]:
    """Return a row for each item, with aligned columns: name, turn, tool, silence, cost."""
    cells = [
        (
            cut(one_line(task_id), _NAME_CELLS),
            f"turn {row.turns}",
            cut(one_line(row.tool), _TOOL_CELLS),
            f"{now - row.moved_at:.0f} s",
            f"${row.cost:.3f}",
        )
        for task_id, row in shown
    ]
    filled = (column for column in zip(*cells, strict=True) if any(column))
    padded = [_padded(column) for column in filled]
    return [cut("  " + "  ".join(row).rstrip(), columns) for row in zip(*padded, strict=True)]


def _padded(texts: Sequence[str]) -> list[str]:
    most = max(map(width, texts))
    return [text + " " * (most - width(text)) for text in texts]


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def one_line(text: str) -> str:
    """Return text of models and files on one line, without control characters."""
    return escape_hidden(" ".join(text.split()))


def cut(text: str, columns: int) -> str:
    """Return the beginning of a text that fits into the columns of a terminal."""
    if text.isascii():
        return text[: max(0, columns - 1)]
    while text and width(text) >= columns:
        text = text[:-1]
    return text


def width(text: str) -> int:
    """Return the cells of a text on one line."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    return max(0, wcswidth(text))


def os_columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
