"""Messages that wait for the running agent: steering for the next turn, follow-ups for its end."""

from collections import deque
from typing import Literal

from ludolf.agent.events import QueueUpdate
from ludolf.ai.messages import CustomMessage, UserMessage, text_of

QueueKind = Literal["steering", "follow_up"]
Queued = UserMessage | CustomMessage
QueueMode = Literal["all", "one-at-a-time"]


class Queue:
    """Two lines of waiting messages, each delivered whole or one at a time."""

    def __init__(self, steering: QueueMode, follow_up: QueueMode) -> None:
        self._lines: dict[QueueKind, deque[Queued]] = {
            "steering": deque(),
            "follow_up": deque(),
        }
        self.modes: dict[QueueKind, QueueMode] = {"steering": steering, "follow_up": follow_up}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def add(self, kind: QueueKind, message: Queued) -> None:
        self._lines[kind].append(message)

    def due(self, kind: QueueKind) -> int:
        """How many messages the line's mode delivers now."""
        waiting = len(self._lines[kind])
        return waiting if self.modes[kind] == "all" else min(waiting, 1)

    def take(self, kind: QueueKind) -> Queued:
        return self._lines[kind].popleft()

    def clear(self) -> QueueUpdate:
        """Empty both lines of what users said, and return it."""
        held = self.update()
        for line in self._lines.values():
            kept = [item for item in line if not isinstance(item, UserMessage)]
            line.clear()
            line.extend(kept)
        return held

    def said(self) -> int:
        """How many messages of users wait; those of extensions are not told of."""
        return sum(isinstance(item, UserMessage) for line in self._lines.values() for item in line)

    def update(self) -> QueueUpdate:
        return QueueUpdate(steering=self._texts("steering"), follow_up=self._texts("follow_up"))

    def _texts(self, kind: QueueKind) -> tuple[str, ...]:
        line = self._lines[kind]
        return tuple(text_of(item.content) for item in line if isinstance(item, UserMessage))
