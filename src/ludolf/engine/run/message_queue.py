"""Messages that wait, and the telling of it: at once while few, in bursts when there are many."""

import asyncio

from ludolf.agent.queue import Queue, Queued, QueueKind, QueueMode
from ludolf.ai.messages import UserMessage
from ludolf.engine.hub import Hub

# Every update repeats the whole queue. Beyond this many messages changes are told together, and
# the longer the queue the longer they wait for each other, so that what is written grows with the
# messages and not with their square.
FEW = 32
BURST_SECONDS = 0.05
BURST_MESSAGES = 1000


class Waiting:
    """The queue of an engine. Every change is told, a burst of changes to a long queue once."""

    def __init__(self, hub: Hub, steering: QueueMode, follow_up: QueueMode) -> None:
        self._hub = hub
        self._queue = Queue(steering, follow_up)
        # Messages are numbered in each line from 1: so many came, so many have left it,
        # and these were thrown away by the last clearing.
        self.added: dict[QueueKind, int] = {"steering": 0, "follow_up": 0}
        self.left: dict[QueueKind, int] = {"steering": 0, "follow_up": 0}
        self.cleared: dict[QueueKind, range] = {"steering": range(0), "follow_up": range(0)}
        self.interrupts = False
        self._later: asyncio.TimerHandle | None = None

    @property
    def modes(self) -> dict[QueueKind, QueueMode]:
        return self._queue.modes

    def __len__(self) -> int:
        return len(self._queue)

    def due(self, kind: QueueKind) -> int:
        return self._queue.due(kind)

    def said(self) -> int:
        return self._queue.said()

    def add(self, kind: QueueKind, message: Queued) -> None:
        self._queue.add(kind, message)
        self.added[kind] += 1
        self._tell(message)

    def take(self, kind: QueueKind) -> Queued:
        message = self._queue.take(kind)
        self.left[kind] += 1
        self._tell(message)
        return message

    def clear(self) -> dict[str, tuple[str, ...]]:
        """Empty the queue; returns the texts that it held."""
        held = self._queue.clear()
        for kind, added in self.added.items():
            self.cleared[kind] = range(self.left[kind] + 1, added + 1)
            self.left[kind] = added
        self._tell_now()
        return {"steering": held.steering, "followUp": held.follow_up}

    def _tell(self, changed: Queued) -> None:
        if not isinstance(changed, UserMessage):
            return
        if len(self._queue) <= FEW:
            self._tell_now()
        elif self._later is None:
            loop = asyncio.get_running_loop()
            wait = BURST_SECONDS * max(1.0, len(self._queue) / BURST_MESSAGES)
            self._later = loop.call_later(wait, self._tell_now)

    def _tell_now(self) -> None:
        if self._later is not None:
            self._later.cancel()
            self._later = None
        self._hub.post(self._queue.update())
