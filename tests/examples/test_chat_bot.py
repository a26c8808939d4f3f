"""The bot keeps chats apart, answers many at once, can be stopped, and remembers."""

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.examples.ground import EXAMPLES, Ground
from tests.process.harness import WAIT_SECONDS, messages, read_entries, text_of

BOT = EXAMPLES / "chat_bot" / "bot.py"
# Says something, and then never comes to an end.
THINKING = (
    {"content": [{"text": "Let me look."}, {"tool": "ls", "args": {}}], "match": "think"},
    {"content": [], "hang": True, "match": "think"},
)


class Users:
    """All users of a bot: what they say to it, and what it says, line by line."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        assert process.stdout is not None
        # The thread reads a descriptor of its own, since the process's is closed by another one.
        stdout = os.dup(process.stdout.fileno())
        threading.Thread(target=self._listen, args=(stdout,), daemon=True).start()

    def _listen(self, stdout: int) -> None:
        with open(stdout, "rb") as lines:
            for line in lines:
                self._heard.put(line.decode().rstrip("\n"))

    def say(self, *lines: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self.process.stdin.flush()

    def hear(self, count: int = 1) -> list[str]:
        """The next lines, of whatever chat, sorted."""
        return sorted(self._heard.get(timeout=WAIT_SECONDS) for _ in range(count))

    def end(self) -> int:
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(WAIT_SECONDS)


@contextmanager
def _bot(ground: Ground) -> Iterator[Users]:
    with ground.started(sys.executable, str(BOT), "--state", str(ground.root / "chats")) as process:
        yield Users(process)


def _conversations(ground: Ground) -> list[list[str]]:
    """The texts of every stored conversation."""
    paths = sorted((ground.root / "chats").rglob("*.jsonl"))
    return [[text_of(one) for one in messages(read_entries(path))] for path in paths]


def test_chats_are_answered_side_by_side_and_kept_apart(ground: Ground) -> None:
    ground.script(
        {"text": "For Ada.", "match": "from ada"}, {"text": "For Bob.", "match": "from bob"}
    )
    with _bot(ground) as users:
        users.say("ada: from ada", "bob: from bob")
        assert users.hear(2) == ["ada> For Ada.", "bob> For Bob."]
        assert users.end() == 0
    assert sorted(_conversations(ground)) == [["from ada", "For Ada."], ["from bob", "For Bob."]]


def test_one_chat_is_stopped_while_another_is_answered(ground: Ground) -> None:
    ground.script(*THINKING, {"text": "Hello.", "match": "hello"})
    with _bot(ground) as users:
        users.say("ada: think")
        assert users.hear() == ["ada> Let me look."]
        users.say("bob: hello")
        assert users.hear() == ["bob> Hello."]
        users.say("ada: /stop")
        assert users.hear() == ["ada> Stopped."]
        assert users.end() == 0


def test_what_is_said_meanwhile_is_heard_by_the_same_answer(ground: Ground) -> None:
    look = {"tool": "read", "args": {"path": "note"}}
    ground.script(
        {"content": [{"text": "Reading."}, look]},
        # Time enough for a user who has seen the first words.
        {"content": [look], "delayMs": 2000},
        {"text": "Both.", "match": "hurry"},
    )
    (ground.work / "note").write_text("x")
    with _bot(ground) as users:
        users.say("ada: read it")
        assert users.hear() == ["ada> Reading."]
        users.say("ada: hurry")
        assert users.hear() == ["ada> Both."]
        assert users.end() == 0
    (texts,) = _conversations(ground)
    # It is heard behind whatever ran when it came.
    assert texts.index("hurry") in (3, 5)
    texts.remove("hurry")
    assert texts == ["read it", "Reading.", "x", "", "x", "Both."]


def test_a_chat_goes_on_after_a_restart(ground: Ground) -> None:
    ground.script({"text": "One."})
    for number in range(2):
        with _bot(ground) as users:
            users.say(f"ada: question {number}")
            assert users.hear() == ["ada> One."]
            assert users.end() == 0
    assert _conversations(ground) == [["question 0", "One.", "question 1", "One."]]


def test_a_new_conversation_forgets_the_old_one(ground: Ground) -> None:
    ground.script({"text": "One."}, {"text": "Two."})
    with _bot(ground) as users:
        users.say("ada: first")
        assert users.hear() == ["ada> One."]
        users.say("ada: /new")
        assert users.hear() == ["ada> New conversation."]
        users.say("ada: second")
        users.hear()
        assert users.end() == 0
    assert sorted(len(texts) for texts in _conversations(ground)) == [2, 2]


def test_a_bot_that_is_told_to_end_stores_what_was_said(ground: Ground) -> None:
    ground.script(*THINKING)
    with _bot(ground) as users:
        users.say("ada: think")
        users.hear()
        users.process.send_signal(signal.SIGTERM)
        assert users.process.wait(WAIT_SECONDS) == 0
    ((question, answer, *_),) = _conversations(ground)
    assert (question, answer) == ("think", "Let me look.")


def test_a_failure_is_told_to_the_one_who_asked(ground: Ground) -> None:
    ground.script({"error": {"text": "No such key", "status": 401}}, {"text": "Hello."})
    with _bot(ground) as users:
        users.say("ada: hello")
        (line,) = users.hear()
        assert line.startswith("ada> Error: ")
        assert "No such key" in line
        users.say("ada: hello")
        assert users.hear() == ["ada> Hello."]


def test_the_name_of_a_chat_never_becomes_a_path(ground: Ground) -> None:
    ground.script({"text": "Hello."})
    with _bot(ground) as users:
        users.say("../../escaped: hello")
        assert users.hear() == ["../../escaped> Hello."]
        assert users.end() == 0
    assert not list(ground.root.rglob("*escaped*"))
    assert len(_conversations(ground)) == 1
