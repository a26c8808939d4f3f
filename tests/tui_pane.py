"""A program in a pane of tmux that draws what a test orders, and the test's side of it.

The test sends one JSON order a line over a Unix socket. The program draws, asks the terminal for
its attributes and waits for the answer: then the terminal has read all that came before.
"""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import termios
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ludolf.tui.keys import KeyParser, TerminalReply
from ludolf.tui.pace import DrawPace
from ludolf.tui.screen import LiveScreen
from ludolf.tui.terminal import RawTerminal

SOURCE = Path(__file__).parents[1] / "src"


class Pane:
    """A pane of a tmux server of its own.

    Args:
        folder: A private folder, whose path is short enough for a socket.
        columns, lines: The size of the pane.
        first: A shell command that runs in the pane before the program.
        settle_seconds: How long the program waits after a change of its size.
    """

    def __init__(
        self,
        folder: Path,
        columns: int,
        lines: int,
        first: str = "true",
        settle_seconds: float = 0.0,
    ) -> None:
        self._folder = folder
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(folder / "orders"))
        self._door.listen()
        self._door.settimeout(60)
        script = f"{first}; exec {sys.executable} -P {__file__} {folder} {settle_seconds}"
        self.tmux("new-session", "-d", "-x", str(columns), "-y", str(lines), script)
        self._link, _ = self._door.accept()
        self._link.settimeout(60)
        self._lines = self._link.makefile("r")
        self._said: list[dict[str, Any]] = []

    def tmux(self, *words: str) -> str:
        """Run a command of the server, without files of the user."""
        done = subprocess.run(
            ["tmux", "-S", str(self._folder / "tmux"), "-f", "/dev/null", *words],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self._folder),
                "PYTHONPATH": str(SOURCE),
                "LANG": "C.UTF-8",
                "TERM": "xterm-256color",
            },
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def order(self, **what: object) -> None:
        """Have something drawn, and wait until it is on the screen."""
        self._link.sendall(json.dumps(what).encode() + b"\n")
        self.hear("done")

    def set_size(self, columns: int, lines: int) -> None:
        """Change the size."""
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def resize(self, columns: int, lines: int) -> None:
        """Change the size, and wait until the program has drawn for it."""
        self.set_size(columns, lines)
        while self.hear("size")["size"] != [columns, lines]:
            pass

    def hear(self, kind: str) -> dict[str, Any]:
        """Return the next message of a kind."""
        for index, said in enumerate(self._said):
            if kind in said:
                return self._said.pop(index)
        while True:
            line = self._lines.readline()
            assert line, "the program in the pane has ended"
            said = json.loads(line)
            if kind in said:
                return dict(said)
            self._said.append(said)

    def rows(self) -> list[str]:
        """Return scrollback and screen, wrapped lines joined, without empty rows at the end."""
        rows = [
            row.rstrip() for row in self.tmux("capture-pane", "-p", "-J", "-S", "-").split("\n")
        ]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lines.close()
        self._link.close()
        self._door.close()
        self.tmux("kill-server")


def _job_control(folder: str, settle_seconds: float) -> None:
    """Run the program as a shell does: when it stops, note the terminal's state and continue it."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        asyncio.run(_program(folder, settle_seconds))
        os._exit(0)
    while os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1]):
        os.tcsetpgrp(0, os.getpid())
        Path(folder, "state").write_text(json.dumps(is_sane(0)))
        os.tcsetpgrp(0, child)
        os.killpg(child, signal.SIGCONT)
    signal.pause()


def is_sane(descriptor: int) -> bool:
    """Return whether a terminal is in the state that shells expect."""
    state = termios.tcgetattr(descriptor)
    local = termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN
    return state[3] & local == local and bool(state[0] & termios.ICRNL)


class _Program:
    """Obeys orders until the test goes away."""

    def __init__(self, terminal: RawTerminal, link: socket.socket, settle_seconds: float) -> None:
        self._terminal = terminal
        self._link = link
        self._screen = LiveScreen(terminal.write, terminal.size)
        self._parser = KeyParser()
        self._size = terminal.size()
        self._loop = asyncio.get_running_loop()
        self._pace = DrawPace(self._draw, self._loop, settle_seconds=settle_seconds)

    async def run(self) -> None:
        self._loop.add_signal_handler(signal.SIGWINCH, self._pace.resized)
        reader, _ = await asyncio.open_unix_connection(sock=self._link, limit=1 << 24)
        async for line in reader:
            what = json.loads(line)
            _obey(self._screen, self._terminal, what)
            self._pace.now()
            self._say({"done": True})
        self._pace.close()
        self._screen.close()

    def _draw(self) -> None:
        self._screen.draw()
        if self._terminal.size() != self._size:
            self._size = self._terminal.size()
            self._say({"size": self._size})

    def _say(self, message: dict[str, object]) -> None:
        """Send a message when the terminal has read all that was written."""
        self._terminal.write(b"\x1b[5n")
        while TerminalReply("csi", "0n") not in self._parser.feed(self._terminal.read()):
            pass
        os.write(self._link.fileno(), json.dumps(message).encode() + b"\n")


async def _program(folder: str, settle_seconds: float) -> None:
    link = socket.socket(socket.AF_UNIX)
    link.connect(f"{folder}/orders")
    with RawTerminal(os.environ) as terminal:
        await _Program(terminal, link, settle_seconds).run()


def _obey(screen: LiveScreen, terminal: RawTerminal, what: dict[str, Any]) -> None:
    if "print" in what:
        screen.print(what["print"])
    if "show" in what:
        screen.show(what["show"], tuple(what["cursor"]))
    if what.get("page"):
        with screen.alternate() as page:
            page.draw(what["page"])
    if what.get("suspend"):
        screen.suspend()
        terminal.suspend()
        screen.resume()
    if what.get("end"):
        screen.close()


if __name__ == "__main__":
    _job_control(sys.argv[1], float(sys.argv[2]))
