"""What waits: every change is told, nothing is lost, nothing comes twice."""

from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]
Lines = tuple[list[str], list[str]]
# What was said to a conversation is not said to the next.
LEAVING = ("new_session", "switch_session", "fork", "clone")


class QueueLaws:
    """Follows the queue from update to update, and each message to where it went."""

    def __init__(self) -> None:
        self.lines: Lines = ([], [])
        self.taken: list[str] = []
        self._prompts: list[str] = []
        self._gone: list[str] = []

    def __len__(self) -> int:
        return len(self.lines[0]) + len(self.lines[1])

    def update(self, record: Record, *, delivering: bool) -> None:
        """One message more at an end, one less at a front while delivering, or none left."""
        now: Lines = (record["steering"], record["followUp"])
        before, self.lines = self.lines, now
        added = [_added(old, new) for old, new in zip(before, now, strict=True)]
        if [] in added and any(len(more or ()) == 1 for more in added):
            return
        if delivering and (first := _taken(before, now)) is not None:
            self.taken.append(first)
            return
        assert now == ([], []), f"the queue changed from {before} to {now}"
        self._gone = [*before[0], *before[1]]

    def prompted(self, text: str) -> None:
        """A run begins with this prompt."""
        self._prompts.append(text)

    def delivered(self, text: str) -> None:
        if self._prompts:
            prompt = self._prompts.pop(0)
            # Templates and skills stand for other words.
            assert prompt == text or prompt.startswith("/"), f"the run began with: {text}"
            return
        assert self.taken, f"delivered without having been taken from the queue: {text}"
        assert self.taken.pop(0) == text, f"delivered out of order: {text}"

    def replied(self, record: Record) -> None:
        """What was cleared is what the reply gives back."""
        if record["command"] == "clear_queue" and record["success"]:
            gone, self._gone = [*self._gone, *self.taken], []
            back = [*record["data"]["steering"], *record["data"]["followUp"]]
            assert sorted(back) == sorted(gone), f"cleared {gone}, gave back {back}"
            self.taken = []
        if record["command"] in LEAVING and record["success"]:
            self._gone = []
        assert not self._gone, f"the queue was emptied without a word: {self._gone}"


def _added(old: Sequence[str], new: Sequence[str]) -> list[str] | None:
    """What was put at the end; None if that is not what happened."""
    return list(new[len(old) :]) if list(new[: len(old)]) == list(old) else None


def _taken(before: Lines, now: Lines) -> str | None:
    """The front of the line that lost it while the other stayed; None if that did not happen."""
    for here, there in ((0, 1), (1, 0)):
        if before[here] and before[here][1:] == now[here] and before[there] == now[there]:
            return before[here][0]
    return None
