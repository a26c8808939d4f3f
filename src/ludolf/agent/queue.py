"""Messages that wait for the running agent: steering for the next turn, follow-ups for its end."""

from collections import deque
from typing import Literal

from ludolf.agent.events import QueueUpdate
from ludolf.ai.messages import UserMessage, text_of

QueueKind = Literal["steering", "follow_up"]
QueueMode = Literal["all", "one-at-a-time"]


class Queue:
    """Two lines of waiting messages, each delivered whole or one at a time."""

    def __init__(self, steering: QueueMode, follow_up: QueueMode) -> None:
        self._lines: dict[QueueKind, deque[UserMessage]] = {
            "steering": deque(),
            "follow_up": deque(),
        }
        self.modes: dict[QueueKind, QueueMode] = {"steering": steering, "follow_up": follow_up}

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def add(self, kind: QueueKind, message: UserMessage) -> None:
        self._lines[kind].append(message)

    def due(self, kind: QueueKind) -> int:
        """How many messages the line's mode delivers now."""
        waiting = len(self._lines[kind])
        return waiting if self.modes[kind] == "all" else min(waiting, 1)

    def take(self, kind: QueueKind) -> UserMessage:
        return self._lines[kind].popleft()

    def clear(self) -> QueueUpdate:
        """Empty both lines and return what they held."""
        held = self.update()
        for line in self._lines.values():
            line.clear()
        return held

    def update(self) -> QueueUpdate:
        return QueueUpdate(
            steering=tuple(text_of(item.content) for item in self._lines["steering"]),
            follow_up=tuple(text_of(item.content) for item in self._lines["follow_up"]),
        )
