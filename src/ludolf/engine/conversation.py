"""The session of an engine with its queue, its events and its usage."""

import asyncio
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import structs

from ludolf.agent.events import MessageEnd
from ludolf.agent.io import Queue, QueuedMessage, QueueKind, QueueMode
from ludolf.ai.messages import AssistantMessage, CustomMessage, UserMessage
from ludolf.base import iso_time
from ludolf.config.settings.files import exposure
from ludolf.engine.feature import Features
from ludolf.engine.hub import Hub
from ludolf.engine.workspace import Workspace
from ludolf.protocol.events import Event, LimitReached
from ludolf.protocol.results import Limits
from ludolf.session.entries import CustomMessageBody, MessageBody
from ludolf.session.finder import SessionFolder
from ludolf.session.tree import Session

if TYPE_CHECKING:
    from ludolf.agent.questions import AnswerClock

# Every update repeats the whole queue. Above this many messages, the changes of a burst are sent
# together: when the queue has not changed for a moment, or after a time that grows with its
# length. So the bytes written grow with the number of messages and not with its square.
FEW = 32
BURST_PAUSE = 0.05
BURST_SECONDS = 0.5
BURST_MESSAGES = 1000

SummaryPurpose = Literal["compaction", "branch", "handoff"]


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
        # Times of the first change that was not sent yet, and of the last one.
        self._first_change = self._last_change = 0.0

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
            return
        loop = asyncio.get_running_loop()
        self._last_change = loop.time()
        if self._timer is None:
            self._first_change = self._last_change
            self._timer = loop.call_later(BURST_PAUSE, self._end_burst)

    def _end_burst(self) -> None:
        """Send the changes, unless more of them have come and may come."""
        loop = asyncio.get_running_loop()
        longest = BURST_SECONDS * max(1.0, len(self) / BURST_MESSAGES)
        due = min(self._last_change + BURST_PAUSE, self._first_change + longest)
        if due > loop.time():
            self._timer = loop.call_at(due, self._end_burst)
        else:
            self._send()

    def _send(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._hub.post(self.update())


class Meter:
    """Counts what one prompt has used."""

    def __init__(self) -> None:
        self.limits = Limits()
        self.reached: LimitReached | None = None
        self.start()

    def start(self) -> None:
        """A new prompt begins."""
        self.turns, self.tokens, self.cost = 0, 0, 0.0
        self.reached = None

    def count(self, message: AssistantMessage) -> None:
        self.turns += 1
        self.tokens += message.usage.context
        self.cost += message.usage.cost.total

    def check(self) -> LimitReached | None:
        """The first limit that is used up, kept until the next prompt."""
        used: tuple[tuple[Literal["turns", "tokens", "cost"], float, float | None], ...] = (
            ("turns", self.turns, self.limits.max_turns),
            ("tokens", self.tokens, self.limits.max_tokens),
            ("cost", self.cost, self.limits.max_cost),
        )
        for name, value, most in used:
            if most is not None and value >= most:
                self.reached = LimitReached(limit=name, used=value, maximum=most)
                break
        return self.reached


class Conversation:
    """The session is the only part that is replaced. `place` is where its files are kept.

    `answer_clock` measures the time that the user has for answers; subagents share it.
    `summarising` has the purposes of summaries that are being written: `get_state` reports any of
    them as compacting.
    """

    def __init__(
        self,
        workspace: Workspace,
        place: SessionFolder,
        features: Features,
        meter: Meter,
        modes: tuple[QueueMode, QueueMode],
    ) -> None:
        self._workspace = workspace
        self._session: Session | None = None
        self.place = place
        self.meter = meter
        self.summarising: set[SummaryPurpose] = set()
        self.hub = Hub(self._record, workspace.warn, features)
        self.queue = MessageQueue(self.hub, *modes)

    @cached_property
    def answer_clock(self) -> "AnswerClock":
        from ludolf.agent.questions import AnswerClock

        return AnswerClock()

    @property
    def session(self) -> Session:
        assert self._session is not None, "no session has been opened yet"
        return self._session

    def replace(self, session: Session) -> None:
        session.sync = self._workspace.settings.sync
        self._session = session

    def move_to(self, cwd: str) -> None:
        """Work in the folder of the session from now on."""
        if cwd != str(self._workspace.cwd):
            self._workspace.move_to(cwd)
            self.place = structs.replace(self.place, cwd=cwd)

    def report_exposure(self, path: Path) -> None:
        """Report a private file that other users can read; its mode is not changed."""
        text = exposure(path)
        if text is not None:
            self.hub.report(text)

    def _record(self, *events: Event) -> None:
        """Write the messages of a run into the session."""
        if len(events) > 1:
            with self.session.together():
                for event in events:
                    self._record(event)
            return
        (event,) = events
        if isinstance(event, MessageEnd):
            message = event.message
            body = _custom(message) if isinstance(message, CustomMessage) else None
            stamp = iso_time(message.timestamp) if body else None
            self.session.append(body or MessageBody(message=message), timestamp=stamp)


def _custom(message: CustomMessage) -> CustomMessageBody:
    return CustomMessageBody(
        custom_type=message.custom_type,
        content=message.content,
        display=message.display,
        details=message.details,
    )
