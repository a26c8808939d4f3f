"""Progress on stderr: seen at a real terminal, and nowhere else."""

import fcntl
import os
import pty
import re
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Sequence
from typing import Self

import pytest

from ludolf.base import dumps, loads
from tests.export_page import header, message
from tests.process.harness import PROGRAM, SOURCE, WAIT_SECONDS, Lab
from tests.process.script import Failure, Gate, Tokens, answer, bash, call, say

BUSY = Failure(status=529, body=b'{"error":{"type":"x","message":"too \\u001b[31mbusy\\u001b[0m"}}')
CLEARED = "\r\x1b[2K"
WORKING = """
import sys
from ludolf.cli.progress import working
with working("Writing \\x1b[1mthe page") as told:
    told(3, 1200)
    sys.stdin.readline()
"""


class Terminal:
    """A program whose stderr is a terminal; stdout too if asked.

    With `controls`, it is also stdin and the controlling terminal.
    """

    def __init__(
        self,
        lab: Lab,
        program: Sequence[str],
        *,
        whole: bool = False,
        controls: bool = False,
        **env: str,
    ) -> None:
        self._master, slave = pty.openpty()
        self._seen = bytearray()
        self.process = subprocess.Popen(
            program,
            cwd=lab.work,
            env={**lab.env, "PYTHONPATH": str(SOURCE), "TERM": "xterm", **env},
            stdin=slave if controls else subprocess.PIPE,
            stdout=slave if whole else subprocess.PIPE,
            stderr=slave,
            start_new_session=controls,
            preexec_fn=_take_terminal if controls else None,
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()
        self._reader.join(WAIT_SECONDS)
        os.close(self._master)

    @property
    def seen(self) -> str:
        return bytes(self._seen).decode()

    def wait_for(self, words: str) -> None:
        deadline = time.monotonic() + 2 * WAIT_SECONDS
        while words not in self.seen:
            assert time.monotonic() < deadline, self.seen
            time.sleep(0.01)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def end(self, stdin: bytes = b"") -> tuple[int, str]:
        """Let it come to its end; gives the code and stdout."""
        out, _ = self.process.communicate(stdin, 2 * WAIT_SECONDS)
        self._reader.join(WAIT_SECONDS)
        return self.process.returncode, (out or b"").decode()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 4096)
            except OSError:  # the last one who had it open is gone
                return
            self._seen += data


def _take_terminal() -> None:
    fcntl.ioctl(2, termios.TIOCSCTTY, 0)


def shown(seen: str) -> str:
    """What stays on the screen: without the lines that were erased."""
    return re.sub(r"[^\n]*\r\x1b\[2K", "", seen.replace("\r\n", "\n"))


def _ask(lab: Lab, *words: str, whole: bool = False, **env: str) -> Terminal:
    terminal = Terminal(lab, [*PROGRAM, *words], whole=whole, controls=False, **env)
    assert terminal.process.stdin is not None
    terminal.process.stdin.close()
    terminal.process.stdin = None
    return terminal


# ---------------------------------------------------------------- answers at a terminal


def test_an_answer_is_shown_as_it_arrives(lab: Lab) -> None:
    gate = Gate()
    lab.server.add(answer(say("The harbour ", gate, "is closed.\nTruly."), size=100))
    with _ask(lab, "-p", "Go", whole=True) as terminal:
        terminal.wait_for("The harbour ")
        assert "closed" not in terminal.seen
        gate.open()
        assert terminal.end()[0] == 0
        seen = terminal.seen
    assert shown(seen) == "The harbour is closed.\nTruly.\n"


def test_the_text_before_a_tool_and_the_answer_are_shown_once_each(lab: Lab) -> None:
    lab.server.add(answer("Looking.", bash("echo hi")), answer(say("It says"), say("hi.")))
    with _ask(lab, "-p", "Go", whole=True) as terminal:
        assert terminal.end()[0] == 0
        assert shown(terminal.seen) == "Looking.\nIt says\nhi.\n"


def test_escape_sequences_of_a_model_do_not_reach_the_terminal(lab: Lab) -> None:
    lab.server.add(answer("a\x1b]0;title\x07b \x1b[31mred\x1b[0m", size=3))
    with _ask(lab, "-p", "Go", whole=True, TERM="dumb") as terminal:
        assert terminal.end()[0] == 0
        assert terminal.seen == "ab red\r\n"


@pytest.mark.parametrize("whole", [True, False])
def test_the_status_line_names_the_model_the_seconds_and_the_tool(lab: Lab, whole: bool) -> None:
    gate = Gate()
    lab.server.add(answer("Looking.\n", bash("read line < fifo")), answer(gate, "Done."))
    os.mkfifo(lab.work / "fifo")
    with _ask(lab, "-p", "Go", whole=whole) as terminal:
        terminal.wait_for(" s · bash read line < fifo")
        (lab.work / "fifo").write_text("hi\n")
        assert gate.reached.wait(WAIT_SECONDS)
        assert re.search(r"claude/large · \d+ s", terminal.seen)
        gate.open()
        code, out = terminal.end()
        seen = terminal.seen
    assert code == 0
    assert "claude/large" not in shown(seen)
    assert shown(seen) + out == ("Looking.\n\nDone.\n" if whole else "Done.\n")


@pytest.mark.exec
def test_text_mode_at_a_terminal_does_a_task_and_ends(lab: Lab) -> None:
    lab.server.add(answer("Fixed."))
    with Terminal(
        lab, [*PROGRAM, "--mode", "text", "fix it"], whole=True, controls=True
    ) as terminal:
        assert terminal.end()[0] == 0
        assert shown(terminal.seen) == "Fixed.\n"


# ---------------------------------------------------------------- approval at a terminal


@pytest.mark.parametrize(("keys", "made"), [("y\n", True), ("n\n", False), ("\nwhat\na\n", True)])
def test_the_user_is_asked_before_a_tool_runs(lab: Lab, keys: str, made: bool) -> None:
    write = call("write", {"path": "new.txt", "content": "one\ntwo\n"})
    lab.server.add(answer(write), answer("Done."))
    words = [*PROGRAM, "--approval", "on-write", "-p", "Go"]
    with Terminal(lab, words, whole=True, controls=True) as terminal:
        terminal.wait_for("Allow it? [y]es, [n]o")
        terminal.type(keys)
        assert terminal.end()[0] == 0
        seen = shown(terminal.seen)
    assert "Allow write: new.txt\n  + one\n  + two\n" in seen
    assert (lab.work / "new.txt").exists() is made


def test_always_allows_the_same_call_without_a_second_question(lab: Lab) -> None:
    lab.server.add(answer(bash("touch made")), answer(bash("touch made")), answer("Done."))
    words = [*PROGRAM, "--approval", "always", "-p", "Go"]
    with Terminal(lab, words, whole=True, controls=True) as terminal:
        terminal.wait_for("Allow it?")
        terminal.type("a\n")
        assert terminal.end()[0] == 0
        assert terminal.seen.count("Allow it?") == 1


@pytest.mark.parametrize("mode", ["on-command", "on-write", "always"])
def test_without_a_terminal_approval_is_refused_at_the_start(lab: Lab, mode: str) -> None:
    done = lab.run("--approval", mode, "-p", "Go")
    assert (done.code, done.stdout) == (1, b"")
    assert f"--approval {mode} needs a terminal where it can ask" in done.stderr
    assert lab.server.requests == []


# ---------------------------------------------------------------- progress


def test_a_retry_counts_down_and_leaves_no_trace(lab: Lab) -> None:
    lab.settings(retry={"baseDelayMs": 2400})
    lab.server.add(BUSY, answer("At last."))
    with _ask(lab, "-p", "Go") as terminal:
        code, out = terminal.end()
        seen = terminal.seen
    assert (code, out) == (0, "At last.\n")
    assert re.search(r"Trying again in [12] s \(attempt 1 of 3\): 529 too busy\r", seen)
    assert "\x1b[31m" not in seen
    assert "\n" not in seen
    assert seen.endswith(CLEARED)


def test_where_nobody_watches_nothing_is_shown(lab: Lab) -> None:
    lab.settings(retry={"baseDelayMs": 600})
    lab.server.add(BUSY, answer("At last."))
    done = lab.run("-p", "Go", TERM="xterm")
    assert (done.code, done.stdout) == (0, b"At last.\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("Trying again in 1 s (attempt 1 of 3): ")


def test_each_retry_of_a_connection_names_the_network_without_a_terminal(lab: Lab) -> None:
    models = loads((lab.agent / "models.json").read_bytes())
    models["providers"]["claude"]["baseUrl"] = "http://host.invalid"
    (lab.agent / "models.json").write_bytes(dumps(models))
    lab.settings(retry={"baseDelayMs": 1, "maxRetries": 2})
    done = lab.run("-p", "Go")
    lines = [line for line in done.stderr.splitlines() if line.startswith("Trying again")]
    assert len(lines) == 2
    assert all(line.endswith(". Check the network or proxy.") for line in lines)


def test_a_terminal_that_cannot_clear_a_line_gets_whole_lines(lab: Lab) -> None:
    lab.settings(retry={"baseDelayMs": 600})
    lab.server.add(BUSY, answer("At last."))
    with _ask(lab, "-p", "Go", TERM="dumb") as terminal:
        assert terminal.end() == (0, "At last.\n")
        assert terminal.seen.startswith("Trying again in 1 s (attempt 1 of 3): ")
        assert terminal.seen.count("\n") == 1


def test_events_on_the_same_terminal_are_not_disturbed(lab: Lab) -> None:
    lab.settings(retry={"baseDelayMs": 600})
    lab.server.add(BUSY, answer("At last."))
    with _ask(lab, "--mode", "json", "Go", whole=True) as terminal:
        assert terminal.end()[0] == 0
        lines = terminal.seen.split("\r\n")
    assert all(line.startswith("{") for line in lines if line)
    assert '"auto_retry_start"' in terminal.seen


def test_events_in_a_pipe_leave_the_terminal_to_progress(lab: Lab) -> None:
    lab.settings(retry={"baseDelayMs": 2400})
    lab.server.add(BUSY, answer("At last."))
    with _ask(lab, "--mode", "json", "Go") as terminal:
        code, out = terminal.end()
        assert "Trying again" in terminal.seen
    assert code == 0
    assert "Trying again" not in out


def test_a_compaction_is_shown_while_it_lasts(lab: Lab) -> None:
    gate = Gate()
    lab.settings(compaction={"keepRecentTokens": 10})
    lab.server.add(answer("One. " * 100), answer("Two.", tokens=Tokens(input=199_500)))
    lab.server.add(answer(gate, "What was first."))
    with _ask(lab, "-p", "Begin " * 100, "Go on " * 100) as terminal:
        terminal.wait_for("Compacting the context (")
        gate.open()
        code, out = terminal.end()
        seen = terminal.seen
    assert (code, out) == (0, "Two.\n")
    assert seen.endswith(CLEARED)


def test_a_failure_stands_alone_on_its_line(lab: Lab) -> None:
    lab.settings(retry={"baseDelayMs": 600, "maxRetries": 1})
    lab.server.add(BUSY, BUSY)
    with _ask(lab, "-p", "Go") as terminal:
        code, out = terminal.end()
        seen = terminal.seen
    assert (code, out) == (1, "")
    shown = seen.rpartition(CLEARED)[2]
    assert "busy" in shown
    assert "Trying" not in shown


def test_work_that_takes_long_tells_how_far_it_is(lab: Lab) -> None:
    with Terminal(lab, [sys.executable, "-c", WORKING]) as terminal:
        terminal.wait_for("Writing the page: 3 of 1,200")
        assert terminal.end(b"\n")[0] == 0
        assert terminal.seen.endswith(CLEARED)


def test_work_that_is_done_at_once_shows_nothing(lab: Lab) -> None:
    quick = WORKING.replace("sys.stdin.readline()", "")
    with Terminal(lab, [sys.executable, "-c", quick]) as terminal:
        assert terminal.end()[0] == 0
        assert terminal.seen == ""


def test_a_list_of_sessions_of_all_folders_fits_in_80_columns(lab: Lab) -> None:
    for number in range(3):
        folder = lab.agent / "sessions" / f"--{number}--"
        folder.mkdir(parents=True)
        head = header() | {
            "id": f"01a1e052-7777-7{number}00-8000-0123456789ab",
            "cwd": "/srv/" + "x" * 70,
        }
        line = message("u0", None, "user", content="y" * 200)
        (folder / "s.jsonl").write_bytes(b"".join(dumps(item) + b"\n" for item in (head, line)))
    program = [*PROGRAM, "sessions", "list", "--all"]
    with Terminal(lab, program, whole=True, COLUMNS="80") as terminal:
        assert terminal.end()[0] == 0
        lines = terminal.seen.splitlines()
    assert [len(line) <= 80 for line in lines] == [True] * 4
    assert lines[0].split() == ["id", "last", "used", "messages", "folder", "name"]


@pytest.mark.parametrize("words", [("export",), ("--export",)])
def test_an_export_at_a_terminal_says_where_the_page_is(lab: Lab, words: tuple[str, ...]) -> None:
    text = "**x** " * 50
    first = message("u0", None, "user", content=text)
    lines = [message(f"u{n}", f"u{n - 1}", "user", content=text) for n in range(1, 1_000)]
    path = lab.work / "long.jsonl"
    path.write_bytes(b"".join(dumps(line) + b"\n" for line in (header(), first, *lines)))
    with _ask(lab, *words, str(path), "page.html") as terminal:
        assert terminal.end() == (0, "Exported to: page.html\n")
        assert terminal.seen == "" or terminal.seen.endswith(CLEARED)
    assert (lab.work / "page.html").is_file()
