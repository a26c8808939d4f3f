"""The terminal itself: raw mode, its size, what it can do, and its state after the program."""

import atexit
import os
import re
import select
import signal
import termios
from collections.abc import Mapping
from types import FrameType, TracebackType
from typing import Any, Self

from ludolf.tui.keys import TerminalReply

FALLBACK_SIZE = (80, 24)
# Bracketed paste; kitty keys: disambiguated, with the keys of a Latin layout; modifyOtherKeys.
_PASTE_ON, _PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
_KEYS_ON, _KEYS_OFF = "\x1b[>5u\x1b[>4;2m", "\x1b[>4;0m\x1b[<u"
# Name and version, background, kitty keys; every terminal answers the last one, its attributes.
_QUESTIONS = "\x1b[>0q\x1b]11;?\x1b\\\x1b[?u\x1b[c"
_ALTERNATE_ON, _ALTERNATE_OFF = b"\x1b[?1049h", b"\x1b[?1049l"
_SANE = "\x1b[0m\x1b[?2026l\x1b[?25h"
# They print what they do not know, or take it for something else.
_SIMPLE = re.compile(r"dumb|linux|cons25|vt\d+|emacs.*|unknown|")
_FATAL = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_RGB = re.compile(r"11;rgba?:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")


class TerminalTraits:
    """What the terminal has said about itself so far; nothing waits for it.

    Attributes:
        name: Its name and version, such as `kitty(0.40.1)` or `tmux 3.5a`, or empty.
        background: Red, green and blue of the background, from 0 to 255, or None.
        kitty_keys: Whether it has the kitty keyboard protocol.
        answered: Whether all its answers have come.
    """

    def __init__(self) -> None:
        self.name = ""
        self.background: tuple[int, int, int] | None = None
        self.kitty_keys = False
        self.answered = False

    @property
    def reflows(self) -> bool:
        """Whether it wraps rows again when its width changes."""
        return not self.name.startswith("XTerm")

    @property
    def is_light(self) -> bool | None:
        """Whether its background is light, or None if it is not known."""
        if self.background is None:
            return None
        red, green, blue = self.background
        return 299 * red + 587 * green + 114 * blue > 127_500

    def learn(self, reply: TerminalReply) -> bool:
        """Take an answer, and return whether it is one of those that were asked for."""
        body = reply.body
        if reply.kind == "dcs" and body.startswith(">|"):
            self.name = body[2:82]
        elif reply.kind == "osc" and (match := _RGB.fullmatch(body)):
            red, green, blue = (_channel(part) for part in match.groups())
            self.background = (red, green, blue)
        elif reply.kind == "csi" and re.fullmatch(r"\?[0-9]+u", body):
            self.kitty_keys = True
        elif reply.kind == "csi" and re.fullmatch(r"\?[0-9;]*c", body):
            self.answered = True
        else:
            return False
        return True


def _channel(digits: str) -> int:
    return int(digits, 16) * 255 // ((1 << 4 * len(digits)) - 1)


class RawTerminal:
    """The terminal of the process, in raw mode while the object is entered.

    It is left in its former state at the end of the block, at the end of the process, and by
    SIGTERM, SIGHUP and SIGQUIT if nothing else handles them.

    Args:
        environ: `TERM` decides what is asked of the terminal.
        keyboard: The descriptor that keys are read from.
        display: The descriptor that is written to.
    """

    def __init__(self, environ: Mapping[str, str], keyboard: int = 0, display: int = 1) -> None:
        self.capabilities = TerminalTraits()
        self._is_simple = bool(_SIMPLE.fullmatch(environ.get("TERM", "")))
        self._keyboard = keyboard
        self._display = display
        self._before: list[Any] | None = None
        self._is_alternate = False
        self._handlers: dict[int, Any] = {}

    def size(self) -> tuple[int, int]:
        """Return columns and lines; a common size if the terminal does not know it."""
        return self.known_size() or FALLBACK_SIZE

    def known_size(self) -> tuple[int, int] | None:
        """Return columns and lines, or None if the terminal does not know them."""
        try:
            columns, lines = os.get_terminal_size(self._display)
        except OSError:
            return None
        return (columns, lines) if columns > 0 and lines > 0 else None

    def __enter__(self) -> Self:
        self._enter(questions=True)
        atexit.register(self.restore)
        for number in _FATAL:
            if signal.getsignal(number) == signal.SIG_DFL:
                self._handlers[number] = signal.signal(number, self._die)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.restore()
        atexit.unregister(self.restore)
        for number, handler in self._handlers.items():
            if signal.getsignal(number) == self._die:
                signal.signal(number, handler)
        self._handlers.clear()

    def write(self, data: bytes) -> None:
        """Write all bytes; a terminal that is gone takes them without effect."""
        if b"\x1b[?1049" in data:
            self._is_alternate = data.rfind(_ALTERNATE_ON) > data.rfind(_ALTERNATE_OFF)
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._display, view) :]
            except BlockingIOError:
                select.select([], [self._display], [])
            except OSError:
                return

    def read(self) -> bytes:
        """Return the bytes that have come, at least one; none if the terminal is gone."""
        try:
            return os.read(self._keyboard, 65536)
        except BlockingIOError:
            select.select([self._keyboard], [], [])
            return self.read()
        except OSError:
            return b""

    def restore(self) -> None:
        """Leave raw mode, show the cursor, end paste and keyboard modes. Twice is harmless."""
        if self._before is None:
            return
        before, self._before = self._before, None
        if self._is_alternate:
            self.write(_ALTERNATE_OFF)
        self.write((_SANE + ("" if self._is_simple else _PASTE_OFF + _KEYS_OFF)).encode())
        try:
            if not (self._is_simple or self.capabilities.answered):
                termios.tcflush(self._keyboard, termios.TCIFLUSH)  # a shell would read answers
            termios.tcsetattr(self._keyboard, termios.TCSANOW, before)
        except termios.error:
            return

    def suspend(self) -> None:
        """Stop the process as Ctrl+Z does in a shell, and return when it continues."""
        self.restore()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        self._enter(questions=False)

    def continued(self) -> None:
        """Enter raw mode again after SIGCONT: a shell may have changed the terminal."""
        before, self._before = self._before, None
        if before is not None:
            if not self._is_simple:
                self.write(_KEYS_OFF.encode())
            self._enter(questions=False)
            self._before = before

    def _enter(self, *, questions: bool) -> None:
        self._before = termios.tcgetattr(self._keyboard)
        termios.tcsetattr(self._keyboard, termios.TCSADRAIN, _raw(self._keyboard))
        if not self._is_simple:
            modes = _PASTE_ON + _KEYS_ON + (_QUESTIONS if questions else "")
            self.write(modes.encode())

    def _die(self, number: int, frame: FrameType | None) -> None:
        self.write(b"\r\n\x1b[J")
        self.restore()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _raw(descriptor: int) -> list[Any]:
    """Return the state in which each key is delivered at once, without echo and signals."""
    state = termios.tcgetattr(descriptor)
    state[0] &= ~(
        termios.BRKINT | termios.ICRNL | termios.INLCR | termios.IGNCR | termios.ISTRIP
        | termios.IXON
    )  # fmt: skip
    state[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
    state[6][termios.VMIN] = 1
    state[6][termios.VTIME] = 0
    return state
