"""Ask the user of print mode at the terminal before a tool call runs."""

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from ludolf.base import ConfigError, dumps
from ludolf.base.visible import escape_hidden
from ludolf.cli.progress import ProgressLine, is_watched
from ludolf.cli.terminal import plain
from ludolf.protocol.commands import UiAnswer
from ludolf.protocol.ui import UiRequest

TERMINAL = "/dev/tty"
NO_TERMINAL = (
    "--approval {mode} needs a terminal where it can ask, or a host (--mode rpc), and there is "
    "neither. Use --approval rules with approval.rules in the settings, --tools read,grep,find,ls, "
    "or --sandbox read-only (see docs/safety.md)."
)
_QUESTION = "Allow it? [y]es, [n]o, [a]lways in this session: "
_MOST_LINES = 30
# The title of a dialog shows a command of this length whole.
_LONG = 300


def can_ask() -> bool:
    """Return whether stderr is a terminal and the user can answer there."""
    if not is_watched():
        return False
    try:
        with open(TERMINAL, "rb", buffering=0):
            return True
    except OSError:
        return False


def check_approval(mode: str | None) -> None:
    """Refuse to start with a mode that has to ask, if the user cannot answer.

    Raises:
        ConfigError: there is no terminal.
    """
    if mode in ("on-command", "on-write", "always") and not can_ask():
        raise ConfigError(NO_TERMINAL.format(mode=mode))


class TerminalApproval:
    """Shows approval dialogs on stderr; a thread reads the answers from the terminal."""

    def __init__(self, progress: ProgressLine, answer: Callable[[UiAnswer], None]) -> None:
        self._progress = progress
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        # A question whose time is over still waits for its line.
        self._terminal = threading.Lock()

    def ask(self, request: UiRequest) -> bool:
        """Show a dialog; returns False if it is not about a tool call."""
        if request.method != "select" or not request.options or request.tool_name is None:
            return request.method == "cancel"
        # The thread may wait for a line forever; as a daemon it does not block the exit.
        threading.Thread(target=self._converse, args=(request,), daemon=True).start()
        return True

    def _converse(self, request: UiRequest) -> None:
        yes, always, no = request.options or ("", "", "")
        with self._terminal, self._progress.held():
            letter = _read_letter("\n".join(_details(request)))
        value = {"y": yes, "a": always}.get(letter, no)
        with suppress(RuntimeError):  # the program is ending, and the loop is closed
            self._loop.call_soon_threadsafe(self._answer, UiAnswer(id=request.id, value=value))


def _read_letter(text: str) -> str:
    """Ask until the user answers; the end of the input is a no."""
    sys.stderr.write(f"{text}\n")
    try:
        with open(TERMINAL, encoding="utf-8", errors="replace") as terminal:
            while True:
                sys.stderr.write(_QUESTION)
                sys.stderr.flush()
                line = terminal.readline()
                letter = line.strip()[:1].lower()
                if not line or letter in ("y", "n", "a"):
                    return letter
    except OSError:
        return ""


def _details(request: UiRequest) -> Iterator[str]:
    """Yield the lines that show what the tool call would do."""
    args: dict[str, Any] = request.args if isinstance(request.args, dict) else {}
    yield plain(request.title or "")
    command = args.get("command")
    if isinstance(command, str) and ("\n" in command or len(command) > _LONG):
        yield from _block(command, "  ")
    if isinstance(args.get("content"), str):
        yield from _block(args["content"], "  + ")
    edits = args.get("edits")
    for edit in edits if isinstance(edits, list) else [args]:
        if isinstance(edit, dict):
            yield from _block(str(edit.get("oldText", "")), "  - ")
            yield from _block(str(edit.get("newText", "")), "  + ")
    if not {"command", "path"} & set(args):
        yield from _block(dumps(args).decode("utf-8", "replace"), "  ")


def _block(text: str, margin: str) -> Iterator[str]:
    lines = text.expandtabs(4).splitlines()
    yield from (margin + escape_hidden(line) for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        yield f"{margin}… {len(lines) - _MOST_LINES} more lines"
