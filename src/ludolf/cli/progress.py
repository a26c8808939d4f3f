"""Status line on stderr, and answers as they arrive, if these streams are terminals."""

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from ludolf.agent.events import (
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolEnd,
    ToolStart,
)
from ludolf.ai.draft import BlockDelta, BlockEnd
from ludolf.ai.messages import AssistantMessage, Text
from ludolf.base import loads
from ludolf.base.patterns import lazy_pattern
from ludolf.cli.terminal import one_line, plain, unguarded
from ludolf.engine.hub import Sink
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
# Characters of an escape sequence that are kept until its end arrives.
_LONGEST_SEQUENCE = 256
_MESSAGE = lazy_pattern(r'"message"\s*:\s*("(?:[^"\\]|\\.)*")')


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
        self.watched = enabled and is_watched()
        self._text: Callable[[], str] | None = None
        self._due = 0.0
        self._drawn = False
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None
        self._over = False
        # Whether other text stands on the line of the cursor.
        self._taken = False

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
        if not self.watched:
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

    def write(self, fd: int, text: str) -> None:
        """Write text to a terminal; the progress line stays away from a line that has begun.

        Raises:
            OSError: the terminal is gone.
        """
        data = text.encode("utf-8", "replace")
        with self._wake:
            self._clear()
            while data:
                data = data[os.write(fd, data) :]
            self._taken = not text.endswith("\n")
            self._wake.notify()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Erase the progress line, and draw none while the user answers a question."""
        with self._wake:
            before, self._taken = self._taken, True
            self._clear()
        yield
        with self._wake:
            self._taken = before
            self._wake.notify()

    # ------------------------------------------------------------ private

    def _draw_all(self) -> None:
        with self._wake:
            while not self._over:
                now = time.monotonic()
                if self._text is None or self._taken:
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
            self.watched = False  # the terminal is gone; the work continues


@contextmanager
def working(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress line; yields a callback that takes the done and total counts."""
    state = [0, 0]
    with ProgressLine() as progress:
        progress.show(lambda: f"{what}: {state[0]:,} of {state[1]:,}" if state[1] else what)

        def report(done: int, total: int) -> None:
            state[:] = done, total

        yield report


class ProgressSink(Sink):
    """Event sink that shows compaction and retries as progress.

    With a `model`, it also shows the model, the seconds and the running tool of each run.
    """

    def __init__(self, progress: ProgressLine, model: Callable[[], str] | None = None) -> None:
        self._progress = progress
        self._model = model
        self._began: float | None = None
        self._tools: dict[str, str] = {}
        self._tool = ""

    def take(self, event: Event) -> None:
        match event:
            case AgentStart():
                self._began = self._began or time.monotonic()
                self._show_run()
            case ToolStart() | ToolEnd():
                self._note_tool(event)
            case CompactionStart():
                self._progress.show(_elapsed("Compacting the context"))
            case AutoRetryStart() | SummaryRetryScheduled():
                self._note_retry(event)
            case SummaryRetryStart():
                self._progress.show(_elapsed("Summarizing again"))
            case AutoRetryEnd() | CompactionEnd() | SummaryRetryFinished():
                self._show_run()
            case AgentSettled():
                self._began = None
                self._progress.hide()

    def _note_retry(self, wait: AutoRetryStart | SummaryRetryScheduled) -> None:
        """Show the wait; without a terminal, write a line, which JSON mode has as an event."""
        if self._model is not None and not self._progress.watched:
            unreached = wait.error_message.startswith("Connection error: ")
            advice = ". Check the network or proxy." if unreached else ""
            self._progress.say(one_line(_countdown(wait)(), 1000) + advice)
        self._progress.show(_countdown(wait), at_once=True)

    def _note_tool(self, event: ToolStart | ToolEnd) -> None:
        if isinstance(event, ToolStart):
            named = (event.args.get(key) for key in ("command", "path", "pattern"))
            what = next((text for text in named if isinstance(text, str)), "")
            self._tools[event.tool_call_id] = f"{event.tool_name} {what}".strip()
        else:
            self._tools.pop(event.tool_call_id, None)
        self._tool = next(reversed(self._tools.values()), "")

    def _show_run(self) -> None:
        began, model = self._began, self._model
        if began is None or model is None:
            self._progress.hide()
            return

        def text() -> str:
            parts = (model(), f"{time.monotonic() - began:.0f} s", self._tool)
            return " · ".join(filter(None, parts))

        self._progress.show(text)


class AnswerSink(Sink):
    """Event sink that writes the text of answers to a terminal as it arrives.

    `on_broken` is called if the terminal is gone.
    """

    def __init__(self, fd: int, progress: ProgressLine, on_broken: Callable[[], None]) -> None:
        self._fd = fd
        self._progress = progress
        self._on_broken = on_broken
        self._held = ""
        self._is_open = False
        self._streamed: set[int] = set()

    def take(self, event: Event) -> None:
        match event:
            case MessageStart(message=AssistantMessage()):
                self._streamed.clear()
            case MessageUpdate(event=BlockDelta(kind="text", index=index, delta=delta)):
                self._streamed.add(index)
                self._add(delta)
            case MessageUpdate(event=BlockEnd(kind="text")):
                self._end_block()
            case MessageEnd(message=AssistantMessage() as message):
                self._end_block()
                self._write_others(message)

    def _write_others(self, message: AssistantMessage) -> None:
        """Write the text blocks that arrived without deltas."""
        for index, block in enumerate(message.content):
            if isinstance(block, Text) and block.text and index not in self._streamed:
                self._add(block.text)
                self._end_block()

    def _add(self, text: str) -> None:
        """Write text, except for an escape sequence whose end has not arrived."""
        text = self._held + text
        begin = text.rfind("\x1b")
        if begin < 0 or "\n" in text[begin:] or len(text) - begin > _LONGEST_SEQUENCE:
            begin = len(text)
        self._held = text[begin:]
        self._write(plain(text[:begin]))

    def _end_block(self) -> None:
        rest, self._held = plain(self._held), ""
        self._write(rest)
        if self._is_open:
            self._write("\n")
            self._is_open = False

    def _write(self, text: str) -> None:
        if not text:
            return
        self._is_open = True
        try:
            self._progress.write(self._fd, text)
        except OSError:
            self._on_broken()


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
