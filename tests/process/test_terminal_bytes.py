"""All bytes of the terminal program on a pseudo-terminal, from its start to its end."""

import base64
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
import zlib
from collections.abc import Callable

from tests.process.harness import PROGRAM, Lab
from tests.process.script import answer, call
from tests.terminal_text import check_draws
from tests.tui_pane import is_sane

SECONDS = 30.0
COLUMNS, LINES = 80, 24


def _png(width: int, height: int) -> bytes:
    def chunk(kind: bytes, body: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + body))
        return struct.pack(">I", len(body)) + kind + body + check

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\0" + bytes(width) for _ in range(height)))
    parts = (chunk(b"IHDR", head), chunk(b"IDAT", rows), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


class _Terminal:
    """A program with a pseudo-terminal; keeps all that it writes."""

    def __init__(self, lab: Lab, words: list[str], **env: str) -> None:
        self.leader, self.follower = pty.openpty()
        fcntl.ioctl(self.follower, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.written = b""
        self.process = subprocess.Popen(
            [*PROGRAM, *words],
            stdin=self.follower,
            stdout=self.follower,
            stderr=self.follower,
            env={**lab.env, **env},
            cwd=lab.work,
            start_new_session=True,
        )

    def until(self, done: Callable[[bytes], bool]) -> None:
        end = time.monotonic() + SECONDS
        while not done(self.written):
            assert time.monotonic() < end, self.written[-2000:]
            if select.select([self.leader], [], [], 0.1)[0]:
                self.written += os.read(self.leader, 1 << 16)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(SECONDS)
        os.close(self.leader)
        os.close(self.follower)


def test_a_session_with_an_image_leaves_no_mode_behind_and_draws_by_the_rules(lab: Lab) -> None:
    picture = _png(40, 30)
    (lab.work / "a.png").write_bytes(picture)
    (lab.agent / "settings.json").write_text('{"terminal": {"notify": "osc9"}}')
    lab.server.add(answer(call("read", {"path": "a.png"})), answer("A dark picture."))
    terminal = _Terminal(lab, ["look"], TERM="xterm-kitty")
    try:
        terminal.until(lambda written: b"\x1b]9;Ludolf: The run has ended.\x07" in written)
        os.write(terminal.leader, b"\x04")
        terminal.until(lambda _: terminal.process.poll() is not None)
        terminal.until(lambda written: b"\x1b[<u" in written)
        assert is_sane(terminal.follower)
    finally:
        terminal.close()
    written = terminal.written
    assert terminal.process.returncode == 0
    assert check_draws(written) > 3
    assert b"\x1b_G" in written
    assert base64.b64encode(picture)[:60] in written
    for on, off in ((b"\x1b[?2004h", b"\x1b[?2004l"), (b"\x1b[>5u", b"\x1b[<u")):
        assert 0 <= written.rfind(on) < written.rfind(off)
    assert written.rfind(b"\x1b[?25l") < written.rfind(b"\x1b[?25h")
    assert b"\x1b[?1049h" not in written
