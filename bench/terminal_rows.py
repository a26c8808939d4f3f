"""Feed frames of answers to the terminal's conversation and draw them, without a terminal."""

import gc
import json
import os
import sys
import time
from collections.abc import Iterable
from typing import Any

from bench import speech
from ludolf.tui.conversation import Conversation
from ludolf.tui.drawing import Drawing
from ludolf.tui.screen import LiveScreen
from ludolf.tui.theme import built_in_theme

_SIZE = (100, 30)
_PAGE = os.sysconf("SC_PAGE_SIZE")
# Deltas of one answer, and rows that are printed before memory is compared.
_ANSWER = 2000
_WARM_ROWS = 2000


class DrawnConversation:
    """A conversation whose rows are drawn after each frame; only their number is kept."""

    def __init__(self) -> None:
        theme = built_in_theme("true")
        self._conversation = Conversation(Drawing(theme, _SIZE[0] - 1))
        self._screen = LiveScreen(len, lambda: _SIZE)
        self.printed = 0

    def feed(self, texts: Iterable[str]) -> None:
        """Take deltas of an answer."""
        for text in texts:
            self.take("message_update", assistantMessageEvent=_delta("text_delta", delta=text))

    def begin(self) -> None:
        self.take("message_start", message={"role": "assistant", "content": [], "timestamp": 0})
        self.take("message_update", assistantMessageEvent=_delta("text_start"))

    def end(self, number: int) -> None:
        """End the answer; each has its own number."""
        self.take("message_update", assistantMessageEvent=_delta("text_end", content=""))
        message = {"role": "assistant", "content": [], "timestamp": number}
        self.take("message_end", message=message)

    def take(self, kind: str, **fields: Any) -> None:
        self._conversation.take({"type": kind, **fields})
        rows = self._conversation.take_rows()
        self.printed += len(rows)
        self._screen.print(rows)
        self._screen.show(self._conversation.live_rows(self._screen.most_rows - 4))
        self._screen.draw()


def _delta(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "contentIndex": 0, **fields}


def growth_of_deltas(count: int, part: int) -> float:
    """Return the CPU of the last deltas of an answer relative to that of the first.

    Half of it is Markdown, half is one paragraph without an end.
    """
    return max(
        _growth(list(speech.markdown(count)), part),
        _growth([speech.word(number).strip() + " " for number in range(count)], part),
    )


def _growth(texts: list[str], part: int) -> float:
    conversation = DrawnConversation()
    conversation.begin()
    conversation.feed(texts[:100])  # warm
    costs = []
    for start in range(100, len(texts) - part + 1, part):
        cpu = time.process_time()
        conversation.feed(texts[start : start + part])
        costs.append(time.process_time() - cpu)
    return costs[-1] / costs[0]


def memory_of_rows(rows: int) -> float:
    """Return the MiB that the process grows by while it prints this many rows."""
    conversation = DrawnConversation()
    _print_until(conversation, _WARM_ROWS)
    gc.collect()
    before = _rss()
    _print_until(conversation, _WARM_ROWS + rows)
    gc.collect()
    return (_rss() - before) / (1 << 20)


def _print_until(conversation: DrawnConversation, rows: int) -> None:
    while conversation.printed < rows:
        conversation.begin()
        conversation.feed(speech.markdown(_ANSWER))
        conversation.end(conversation.printed)


def _rss() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * _PAGE


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"terminal.rows": memory_of_rows(int(sys.argv[1]))}))
