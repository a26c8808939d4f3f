"""Decide which item starts next: retries, the budget, and the reasons to stop early."""

import heapq
from collections import deque
from collections.abc import Iterable

import msgspec

from ludolf.fleet.results import STOPS_BATCH
from ludolf.fleet.tasks import Task

PAUSES = (5.0, 25.0)
# Workers that an item may lose although it progressed in each of them.
MOST_LOSSES = 10
EQUAL_FAILURES = 5


class BatchCost:
    """The cost of a batch in dollars: recorded results, and items that are not recorded yet."""

    def __init__(self, budget: float | None, recorded: float, count: int) -> None:
        self._budget = budget
        self._recorded = recorded
        self._count = count
        self._open: dict[str, float] = {}

    @property
    def total(self) -> float:
        return self._recorded + sum(self._open.values())

    @property
    def is_used_up(self) -> bool:
        return self._budget is not None and self.total >= self._budget

    def note(self, task_id: str, cost: float) -> None:
        """An unfinished item has cost this much so far."""
        self._open[task_id] = cost

    def record(self, task_id: str, cost: float) -> None:
        self._open.pop(task_id, None)
        self._recorded += cost
        self._count += 1

    def fits(self, task_id: str, running: Iterable[str]) -> bool:
        """Return whether the budget suffices for this item and the running ones."""
        if self._budget is None:
            return True
        if self.is_used_up:
            return False
        mean = self._recorded / self._count if self._count else 0.0
        more = (max(0.0, mean - self._open.get(each, 0.0)) for each in (*running, task_id))
        return self.total + sum(more) <= self._budget


class WaitingItem(msgspec.Struct):
    """An item that has not been started in this run, or starts again."""

    task: Task
    attempts: int
    failures: int = 0
    losses: int = 0


class Schedule:
    """The items that wait: in order, and those to retry at a time."""

    def __init__(
        self, items: Iterable[WaitingItem], retries: int, pauses: tuple[float, ...]
    ) -> None:
        self._ready = deque(items)
        self._later: list[tuple[float, int, WaitingItem]] = []
        self._number = 0
        self._retries = retries
        self._pauses = pauses

    def __len__(self) -> int:
        return len(self._ready) + len(self._later)

    def next_at(self) -> float | None:
        """Return when the next retry is due."""
        return self._later[0][0] if self._later else None

    def peek(self, now: float) -> WaitingItem | None:
        """Return the item to start now."""
        while self._later and self._later[0][0] <= now:
            self._ready.appendleft(heapq.heappop(self._later)[2])
        return self._ready[0] if self._ready else None

    def take(self) -> WaitingItem:
        return self._ready.popleft()

    def retry(self, item: WaitingItem, now: float) -> bool:
        """Start a failed item again after a pause; False if its retries are used up."""
        if item.failures >= self._retries:
            return False
        pause = self._pauses[min(item.failures, len(self._pauses) - 1)]
        item.failures += 1
        self._number += 1
        heapq.heappush(self._later, (now + pause, self._number, item))
        return True

    def lost(self, item: WaitingItem, now: float, *, progressed: bool) -> bool:
        """Start an item of a lost worker again: at once if it progressed there."""
        item.losses += 1
        if not progressed or item.losses > MOST_LOSSES:
            return self.retry(item, now)
        self._ready.appendleft(item)
        return True


class EarlyStop:
    """Watches for failures that all further items would have too."""

    def __init__(self, *, had_success: bool) -> None:
        self._had_success = had_success
        self._last: tuple[str, str] | None = None
        self._equal = 0

    def succeeded(self) -> None:
        self._had_success = True

    def failed(self, kind: str, text: str) -> str | None:
        """Return why the batch must stop; None if it continues."""
        if kind in STOPS_BATCH:
            return text
        self._equal = self._equal + 1 if self._last == (kind, text) else 1
        self._last = (kind, text)
        if self._had_success or self._equal < EQUAL_FAILURES:
            return None
        return f"{EQUAL_FAILURES} items failed in the same way before the first success: {text}"
