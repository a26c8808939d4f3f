"""Message queue that emits `queue_update` events, batched when the queue is long."""

import asyncio

from ludolf.agent.queue import Queue, QueuedMessage, QueueKind, QueueMode
from ludolf.ai.messages import CustomMessage, UserMessage
from ludolf.engine.hub import Hub

# Every update repeats the whole queue. Above this many messages changes are sent together, and
# the longer the queue the longer the pause between updates, so that the bytes written grow with
# the number of messages and not with its square.
FEW = 32
BURST_SECONDS = 0.05
BURST_MESSAGES = 1000


class MessageQueue(Queue):
    """Messages that wait for the running agent.

    `after_turn` holds messages for the end of the running turn, `next_prompt` messages that go
    with the next prompt. Neither is part of the queue that hosts see.
    """

    def __init__(self, hub: Hub, steering: QueueMode, follow_up: QueueMode) -> None:
        super().__init__(steering, follow_up)
        self._hub = hub
        # Messages are numbered in each line from 1: the last number added, the last one taken,
        # and the numbers that the last `clear` removed.
        self.added: dict[QueueKind, int] = {"steering": 0, "follow_up": 0}
        self.left: dict[QueueKind, int] = {"steering": 0, "follow_up": 0}
        self.cleared: dict[QueueKind, range] = {"steering": range(0), "follow_up": range(0)}
        self.interrupts = False
        self.after_turn: list[CustomMessage] = []
        self.next_prompt: list[CustomMessage] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, kind: QueueKind, message: QueuedMessage) -> None:
        super().add(kind, message)
        self.added[kind] += 1
        self._changed(message)

    def take(self, kind: QueueKind) -> QueuedMessage:
        message = super().take(kind)
        self.left[kind] += 1
        self._changed(message)
        return message

    def clear_texts(self) -> dict[str, tuple[str, ...]]:
        """Empty the queue; returns the texts that it held."""
        held = self.clear()
        for kind, added in self.added.items():
            self.cleared[kind] = range(self.left[kind] + 1, added + 1)
            self.left[kind] = added
        self._send()
        return {"steering": held.steering, "followUp": held.follow_up}

    def _changed(self, message: QueuedMessage) -> None:
        if not isinstance(message, UserMessage):
            return
        if len(self) <= FEW:
            self._send()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            wait = BURST_SECONDS * max(1.0, len(self) / BURST_MESSAGES)
            self._timer = loop.call_later(wait, self._send)

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._hub.post(self.update())
