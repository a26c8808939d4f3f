"""Queue of messages for the running agent: steering for the next turn, follow-ups for its end."""

from collections import deque
from typing import Literal

from ludolf.agent.events import QueueUpdate
from ludolf.ai.messages import CustomMessage, UserMessage, text_of

QueueKind = Literal["steering", "follow_up"]
QueuedMessage = UserMessage | CustomMessage
QueueMode = Literal["all", "one-at-a-time"]


class Queue:
    """Two queues of messages, each delivered completely or one message at a time."""

    def __init__(self, steering: QueueMode, follow_up: QueueMode) -> None:
        self._lines: dict[QueueKind, deque[QueuedMessage]] = {
            "steering": deque(),
            "follow_up": deque(),
        }
        self.modes: dict[QueueKind, QueueMode] = {"steering": steering, "follow_up": follow_up}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def add(self, kind: QueueKind, message: QueuedMessage) -> None:
        self._lines[kind].append(message)

    def due(self, kind: QueueKind) -> int:
        """Return the number of messages that the queue's mode delivers now."""
        count = len(self._lines[kind])
        return count if self.modes[kind] == "all" else min(count, 1)

    def take(self, kind: QueueKind) -> QueuedMessage:
        return self._lines[kind].popleft()

    def clear(self) -> QueueUpdate:
        """Remove the users' messages from both queues and return them."""
        removed = self.update()
        for line in self._lines.values():
            others = [item for item in line if not isinstance(item, UserMessage)]
            line.clear()
            line.extend(others)
        return removed

    def said(self) -> int:
        """Return the number of queued user messages, without those of extensions."""
        return sum(isinstance(item, UserMessage) for line in self._lines.values() for item in line)

    def update(self) -> QueueUpdate:
        return QueueUpdate(steering=self._texts("steering"), follow_up=self._texts("follow_up"))

    def _texts(self, kind: QueueKind) -> tuple[str, ...]:
        line = self._lines[kind]
        return tuple(text_of(item.content) for item in line if isinstance(item, UserMessage))
