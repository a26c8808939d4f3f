"""A model that says and does anything, by chance: answers, calls, and every kind of failure."""

import random
import threading

from tests.process.model_server import Asked, ModelServer
from tests.process.script import (
    GARBAGE,
    Block,
    Cut,
    Failure,
    Reply,
    Reset,
    Tokens,
    answer,
    bash,
    call,
    raw_call,
    say,
    think,
)

LONG = "All work and no play makes a long answer. " * 400
COMMANDS = (
    "echo hi",
    "exit 3",
    "sleep 0.02; echo late",
    "sleep 3 & echo left behind",
    "setsid sleep 4 & echo left behind",
    "seq 1 3000",
    "printf '\\377\\033[31mred\\000'",
    "kill -9 $$",
    "sleep 20",
)


class ChanceServer(ModelServer):
    """Each request gets what the dice say; `counts` tells how often which kind came."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._chance = random.Random(seed)
        self._dice = threading.Lock()
        self._calls = 0
        self.asked = 0

    def take(self, asked: Asked) -> Reply:
        with self._dice:
            self.asked += 1
            return self._reply()

    def _reply(self) -> Reply:
        kind = self._chance.random()
        if kind < 0.42:
            return self._words()
        if kind < 0.70:
            return self._work()
        return self._failure()

    def _words(self) -> Reply:
        chance = self._chance
        blocks = [say(chance.choice(("Fine.", "Yes.", LONG, "", "Ünïcödé 漢字 🙂")))]
        if chance.random() < 0.3:
            blocks.insert(0, think("Hm. "))
        # Now and then the context is said to be nearly full, and has to be compacted.
        tokens = Tokens(input=195_000) if chance.random() < 0.04 else Tokens()
        stop = "length" if chance.random() < 0.03 else None
        return answer(*blocks, size=chance.choice((3, 8, 200)), tokens=tokens, stop=stop)

    def _work(self) -> Reply:
        blocks = [self._call() for _ in range(self._chance.choice((1, 1, 1, 2, 4)))]
        return answer(say("Looking."), *blocks, size=50)

    def _call(self) -> Block:
        chance = self._chance
        self._calls += 1
        name = f"call_{self._calls}"
        path = f"file-{chance.randrange(5)}.txt"
        choices = (
            lambda: bash(chance.choice(COMMANDS), name, timeout=1),
            lambda: bash(chance.choice(COMMANDS[:3]), name),
            lambda: call("write", {"path": path, "content": "one\ntwo\n"}, name),
            lambda: call("read", {"path": path}, name),
            lambda: call(
                "edit", {"path": path, "edits": [{"oldText": "two", "newText": "three"}]}, name
            ),
            lambda: call("no_such_tool", {"a": 1}, name),
            lambda: call("bash", {"cmd": "echo hi"}, name),
            lambda: raw_call("bash", '{"command":"touch never', call_id=name),
        )
        return chance.choice(choices)()

    def _failure(self) -> Reply:
        chance = self._chance
        fault = chance.choice((Cut(), Reset(), GARBAGE))
        failures: tuple[Reply, ...] = (
            Failure(status=529),
            Failure(status=500),
            Failure(status=429, headers={"retry-after-ms": "2"}),
            Failure(status=429, headers={"retry-after": "3600"}),
            Failure(status=400),
            Failure(status=401),
            Failure(status=200, body=b"<html>Sign in</html>", kind="text/html"),
            Failure(status=307, headers={"location": "http://127.0.0.1:9/"}),
            answer(say("Half ", fault, "an answer")),
            answer(say("Half "), bash("touch never"), fault),
        )
        return chance.choice(failures)
