"""Progress line on stderr for long operations, if stderr is a terminal."""

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from ludolf.base import loads
from ludolf.cli.terminal import one_line, unguarded
from ludolf.protocol.events import (
    AgentSettled,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    Event,
    SummaryRetryFinished,
    SummaryRetryScheduled,
    SummaryRetryStart,
)

# Shorter operations show no line.
_PATIENCE_SECONDS = 0.5
_STEP_SECONDS = 0.25
_SIGNS = "◐◓◑◒"
_MESSAGE = re.compile(r'"message"\s*:\s*("(?:[^"\\]|\\.)*")')


def is_watched() -> bool:
    """Return whether stderr is a terminal that can erase a line."""
    return (
        sys.stderr is not None
        and sys.stderr.isatty()
        and os.environ.get("TERM", "dumb") not in ("", "dumb")
    )


class ProgressLine:
    """Draw a progress line from a separate thread, so that blocking work is shown too.

    Without a terminal, no thread is started and nothing is written.
    """

    def __init__(self, enabled: bool = True) -> None:
        self._watched = enabled and is_watched()
        self._text: Callable[[], str] | None = None
        self._due = 0.0
        self._drawn = False
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._wake:
            self._over = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(1)
        self.hide()

    def show(self, text: Callable[[], str], *, at_once: bool = False) -> None:
        """Show a line until `hide`; `text` is called for each drawing."""
        if not self._watched:
            return
        with self._wake:
            self._text = text
            self._due = time.monotonic() + (0 if at_once else _PATIENCE_SECONDS)
            self._wake.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._draw_all, daemon=True)
            self._thread.start()

    def hide(self) -> None:
        """Erase the progress line, if there is one."""
        with self._wake:
            self._text = None
            self._clear()

    def say(self, text: str) -> None:
        """Write a permanent line to stderr, after erasing the progress line."""
        with self._wake:
            self._clear()
            sys.stderr.write(text + "\n")

    # ------------------------------------------------------------ private

    def _draw_all(self) -> None:
        with self._wake:
            while not self._over:
                now = time.monotonic()
                if self._text is None:
                    self._wake.wait()
                elif now < self._due:
                    self._wake.wait(self._due - now)
                else:
                    self._draw(self._text())
                    self._wake.wait(_STEP_SECONDS)

    def _draw(self, text: str) -> None:
        room = _columns() - 3
        sign = _SIGNS[int(time.monotonic() / _STEP_SECONDS) % len(_SIGNS)]
        self._write(f"\r\x1b[2K{sign} {one_line(text, room)}")
        self._drawn = True

    def _clear(self) -> None:
        if self._drawn:
            self._write("\r\x1b[2K")
            self._drawn = False

    def _write(self, text: str) -> None:
        try:
            unguarded(sys.stderr).write(text)
            sys.stderr.flush()
        except OSError:
            self._watched = False  # the terminal is gone; the work continues


@contextmanager
def working(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress line; yields a callback that takes the done and total counts."""
    state = [0, 0]
    with ProgressLine() as progress:
        progress.show(lambda: f"{what}: {state[0]:,} of {state[1]:,}" if state[1] else what)

        def report(done: int, total: int) -> None:
            state[:] = done, total

        yield report


class ProgressSink:
    """Event sink that shows compaction and retries as progress."""

    def __init__(self, progress: ProgressLine) -> None:
        self._progress = progress

    def take(self, event: Event) -> None:
        match event:
            case CompactionStart():
                self._progress.show(_elapsed("Compacting the context"))
            case AutoRetryStart() | SummaryRetryScheduled():
                self._progress.show(_countdown(event), at_once=True)
            case SummaryRetryStart():
                self._progress.show(_elapsed("Summarizing again"))
            case AutoRetryEnd() | CompactionEnd() | SummaryRetryFinished() | AgentSettled():
                self._progress.hide()

    def has_room(self) -> bool:
        return True

    async def room(self) -> None:
        return


def _elapsed(what: str) -> Callable[[], str]:
    start = time.monotonic()
    return lambda: f"{what} ({time.monotonic() - start:.0f} s)"


def _countdown(wait: AutoRetryStart | SummaryRetryScheduled) -> Callable[[], str]:
    end = time.monotonic() + wait.delay_ms / 1000
    tries = f"attempt {wait.attempt} of {wait.max_attempts}"
    reason = _said(wait.error_message)

    def text() -> str:
        left = end - time.monotonic()
        when = f"Trying again in {left:.0f} s" if left >= 0.5 else "Trying again"
        return f"{when} ({tries}): {reason}"

    return text


def _said(error: str) -> str:
    """Extract the message of a server error from the JSON around it."""
    match = _MESSAGE.search(error)
    if match is None:
        return error
    try:
        return f"{error[: match.start()].partition('{')[0]}{loads(match[1])}"
    except ValueError:
        return error


def _columns() -> int:
    try:
        # Some terminals report a width of 0.
        return max(20, os.get_terminal_size(sys.stderr.fileno()).columns or 80)
    except OSError:
        return 80
