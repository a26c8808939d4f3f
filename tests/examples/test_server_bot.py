"""The bot on a server: chats at once, a server that is killed, a bot that is restarted."""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.ground import EXAMPLES, Ground
from tests.examples.server_stage import Client, served

BOT = EXAMPLES / "server_bot" / "bot.py"
THINKING = {"text": "Let me think.", "hang": True, "match": "think"}


@pytest.fixture
def socket() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="l", dir="/tmp") as folder:
        yield str(Path(folder, "serve.sock"))


def _write(bot: "subprocess.Popen[bytes]", line: str) -> None:
    assert bot.stdin is not None
    bot.stdin.write(f"{line}\n".encode())
    bot.stdin.flush()


def _read(bot: "subprocess.Popen[bytes]", lines: int = 1) -> set[str]:
    assert bot.stdout is not None
    return {bot.stdout.readline().decode().rstrip() for _ in range(lines)}


def _wait_for_text(socket: str, session: str) -> None:
    """Return when the model has begun to answer."""
    client = Client(socket)
    client.send(json.dumps({"type": "attach", "session": session, "role": "view"}))
    frame = client.read()
    while "message" not in frame.get("data", {}).get("underway", {}):
        frame = client.read()
        if frame["type"] == "message_update":
            break
    client.cut()


def test_chats_continue_after_a_kill_of_the_server_and_a_restart_of_the_bot(
    ground: Ground, socket: str
) -> None:
    start = (sys.executable, str(BOT), f"unix:{socket}")
    hello = ({"text": f"Hello {name}.", "match": name} for name in ("Ann", "Bob"))
    ground.script(*hello, THINKING)
    with served(ground, "--socket", socket) as server, ground.started(*start) as bot:
        _write(bot, "ann: I am Ann")
        assert _read(bot) == {"ann> Hello Ann."}
        _write(bot, "bob: I am Bob")
        assert _read(bot) == {"bob> Hello Bob."}
        known = json.loads((ground.work / "chats.json").read_text())
        _write(bot, "ann: think")
        _wait_for_text(socket, known["ann"])
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        thought = {"text": "I have thought.", "match": "Continue"}
        ground.script(thought, {"text": "Still here.", "match": "there"})
        with served(ground, "--socket", socket):
            assert _read(bot) == {"ann> I have thought."}
            assert bot.stdin is not None
            bot.stdin.close()
            assert bot.wait() == 0
            done = ground.run(*start, stdin=b"bob: are you there?\n")
            assert done.stdout.decode() == "bob> Still here.\n"
    assert json.loads((ground.work / "chats.json").read_text()) == known
    sessions = list(ground.home.rglob("*.jsonl"))
    assert len(sessions) == 2


def test_many_chats_are_answered_at_once(ground: Ground, socket: str) -> None:
    (ground.work / "a.txt").write_text("hi")
    words = "".join(f"chat{number}: read a.txt\n" for number in range(20)).encode()
    with served(ground, "--socket", socket):
        done = ground.run(sys.executable, str(BOT), f"unix:{socket}", stdin=words)
        assert (done.code, done.stderr) == (0, "")
    answered = [line for line in done.stdout.decode().splitlines() if "Here is a.txt" in line]
    assert len(answered) == 20
