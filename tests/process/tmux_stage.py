"""The terminal program in tmux: a server and a home of its own, keys in, the screen out."""

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.process.harness import PROGRAM, Lab
from tests.terminal_text import check_draws

# A busy machine may be slow; nothing is waited for that does not come.
SECONDS = 60.0
LOOK_SECONDS = 0.05


class TmuxTerminal:
    """One pane with a shell, in which the program is started."""

    def __init__(self, lab: Lab, folder: Path, columns: int, lines: int) -> None:
        self.lab = lab
        self.runtime = folder / "run"
        self.runtime.mkdir()
        self._socket = folder / "tmux"
        self._written = folder / "written"
        self._size = columns, lines

    def start(self, *words: str, **env: str) -> None:
        """Start a shell, and in it the program."""
        environ = {**self.lab.env, "XDG_RUNTIME_DIR": str(self.runtime), "PS1": "$ "}
        environ |= {"TERM": "tmux-256color", **env}
        columns, lines = self._size
        shell = ("env", "-i", *(f"{name}={value}" for name, value in environ.items()))
        command = shlex.join((*shell, "bash", "--norc", "--noprofile", "-i"))
        self._tmux("-f", os.devnull, "new-session", "-d", "-x", str(columns), "-y", str(lines),
                   "-c", str(self.lab.work), command)  # fmt: skip
        self._tmux("set", "-g", "status", "off")
        self._tmux("set", "-g", "history-limit", "20000")
        self._tmux("pipe-pane", f"exec cat > {self._written}")
        self.wait(lambda screen: "$" in screen)
        self.type(shlex.join((*PROGRAM, *words)))
        self.press("Enter")

    def written(self) -> bytes:
        """All bytes that programs have written."""
        return self._written.read_bytes()

    def type(self, text: str) -> None:
        self._tmux("send-keys", "-l", text)

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def paste(self, text: str) -> None:
        """Paste as terminals do, bracketed if the program has asked for it."""
        subprocess.run(
            ["tmux", "-S", str(self._socket), "load-buffer", "-"], input=text.encode(), check=True
        )
        self._tmux("paste-buffer", "-p")

    def resize(self, columns: int, lines: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def screen(self) -> str:
        """What is visible now."""
        return self._tmux("capture-pane", "-p")

    def history(self) -> str:
        """What is visible and what has scrolled away, wrapped rows joined."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-")

    def styled(self) -> str:
        return self._tmux("capture-pane", "-e", "-p")

    def pids(self, word: str) -> list[int]:
        """The processes of this terminal's program with a word in their command line."""
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                command = (folder / "cmdline").read_bytes()
                environ = (folder / "environ").read_bytes()
            except OSError:
                continue
            if word.encode() in command and os.fsencode(self.runtime) in environ:
                found.append(int(folder.name))
        return found

    def wait(self, fits: Callable[[str], bool]) -> str:
        """Wait until the screen fits; returns it."""
        return self._wait(self.screen, fits)

    def wait_for(self, text: str) -> str:
        return self.wait(lambda screen: text in screen)

    def wait_in_history(self, text: str) -> str:
        return self._wait(self.history, lambda screen: text in screen)

    def until(self, fits: Callable[[], bool]) -> None:
        self._wait(self.screen, lambda _: fits())

    def _wait(self, look: Callable[[], str], fits: Callable[[str], bool]) -> str:
        end = time.monotonic() + SECONDS
        while True:
            seen = look()
            if fits(seen):
                return seen
            assert time.monotonic() < end, f"not on the screen:\n{seen}"
            time.sleep(LOOK_SECONDS)

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-S", str(self._socket), *words], capture_output=True, text=True, check=True
        )
        return done.stdout

    def until_gone(self) -> None:
        """Wait until the servers of the terminal have ended, and end those that stay."""
        for pid in self.pids("--private"):
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + SECONDS
        while self.pids("--private") and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)

    def end(self) -> None:
        subprocess.run(
            ["tmux", "-S", str(self._socket), "kill-server"], capture_output=True, check=False
        )


@contextmanager
def tmux_terminal(lab: Lab, columns: int = 80, lines: int = 24) -> Iterator[TmuxTerminal]:
    """A terminal; its server of tmux ends with the block."""
    with tempfile.TemporaryDirectory(prefix="lt") as folder:  # short, for Unix sockets
        terminal = TmuxTerminal(lab, Path(folder), columns, lines)
        try:
            yield terminal
            check_draws(terminal.written())
        finally:
            terminal.end()
            terminal.until_gone()
