"""The driver of a batch: gives items to workers, records their results, starts lost items again."""

import asyncio
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base import ConfigError, dumps
from ludolf.fleet.folder import BatchFolder, BatchHistory, DiskFull, cost_of_sessions
from ludolf.fleet.gate import RateGate
from ludolf.fleet.orders import ItemOrder, ItemProgress
from ludolf.fleet.pipes import (
    EndTurns,
    ItemFinished,
    ItemMoved,
    ItemRecorded,
    PipeBroken,
    PrepareWorker,
    StartItem,
    StopItems,
    ToDriver,
    WorkerReady,
    WorkerWarned,
    WorkspaceRemoved,
)
from ludolf.fleet.plan import BatchPlan, SelectedTasks
from ludolf.fleet.results import (
    ALL_OK,
    BUDGET_USED,
    INTERRUPTED,
    SOME_FAILED,
    STOPPED_EARLY,
    STOPS_BATCH,
    ItemError,
    ItemResult,
    ItemUsage,
)
from ludolf.fleet.schedule import PAUSES, BatchCost, EarlyStop, Schedule, WaitingItem
from ludolf.fleet.tasks import Task, render_prompt
from ludolf.fleet.telemetry import BatchReport
from ludolf.fleet.worker_hosts import LOG_NAME, FleetWorker, worker_host

SYNC_SECONDS = 0.2
# Workers that end before they are ready, after which the batch stops.
MOST_FAILED_STARTS = 3
# Workers store their sessions within 5 s.
CLOSE_SECONDS = 6.0
MOST_HANDLES = 65_536
_MOST_WARNINGS = 20


class BatchView(Protocol):
    """Shows a batch to the user."""

    def started(self, task_id: str) -> None: ...
    def moved(self, progress: ItemProgress) -> None: ...
    def finished(self, task_id: str, status: str, text: str) -> None: ...
    def again(self, task_id: str, text: str) -> None: ...
    def say(self, text: str) -> None: ...


class RunningItem(msgspec.Struct):
    """An item in a worker; `progressed`: it has had an answer there."""

    item: WaitingItem
    worker: FleetWorker
    progressed: bool = False


# Called with each result as a line of JSON, once it is on disk.
OnResult = Callable[[bytes], None]


class Driver:
    """Runs the selected items of a batch. `pauses` are the seconds before retries."""

    def __init__(
        self,
        plan: BatchPlan,
        folder: BatchFolder,
        view: BatchView,
        on_result: OnResult,
        *,
        pauses: tuple[float, ...] = PAUSES,
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._view = view
        self._on_result = on_result
        self._pauses = pauses
        self._host = worker_host(plan.on, folder, RateGate())
        self._report = BatchReport(plan.setup.telemetry, view.say)
        self._tasks = Tasks()
        self._changed = asyncio.Event()
        self._workers: list[FleetWorker] = []
        self._running: dict[str, RunningItem] = {}
        # Folder names of recorded items whose workspaces are to be removed, by id.
        self._to_remove: dict[str, str] = {}
        self._unsynced: list[tuple[str, str, bytes]] = []
        self._failed_starts = 0
        self._interrupts = 0
        self._stop: tuple[int, str] | None = None
        self._problem: str | None = None
        self._warnings: set[str] = set()
        self._counts = {"ok": 0, "failed": 0, "limit": 0, "budget": 0}
        self._is_budget_used = False
        self._is_closing = False
        self._error: BaseException | None = None

    # ------------------------------------------------------------ life

    async def run(self, selected: SelectedTasks, history: BatchHistory) -> int:
        """Run the items and return the exit code.

        Raises:
            ConfigError: no worker can run items.
        """
        raise_handle_limit()
        self._begin(selected, history)
        await self._report.begin(self._folder.path.name)
        try:
            if len(self._schedule) or self._to_remove:
                for _ in range(self._plan.worker_count):
                    await self._start_worker()
                await self._loop()
        except DiskFull as error:
            self._stop = (STOPPED_EARLY, str(error))
        finally:
            await self._close()
        if self._problem is not None:
            raise ConfigError(self._problem)
        return self._exit_code(selected)

    def interrupt(self) -> None:
        """Start no new items; called again: abort the running ones; once more: kill the workers."""
        self._interrupts += 1
        if self._interrupts == 1:
            count = len(self._running)
            self._view.say(
                f"Interrupted: waiting for {count} running items. Ctrl-C again aborts them; their "
                "sessions are kept."
            )
        elif self._interrupts > 2:
            for worker in self._workers:
                worker.kill()
        self._changed.set()

    def terminate(self) -> None:
        """Abort the running items and keep their sessions."""
        self._interrupts = max(self._interrupts, 1)
        self.interrupt()

    def _begin(self, selected: SelectedTasks, history: BatchHistory) -> None:
        plan = self._plan
        self._spending = BatchCost(plan.budget, history.cost, history.finished)
        for task in selected.tasks:
            if task.id in history.open:
                cost = cost_of_sessions(self._folder.items / task.folder_name)
                self._spending.note(task.id, cost)
        waiting = [WaitingItem(task, history.attempts(task.id)) for task in selected.tasks]
        self._schedule = Schedule(waiting, plan.retries, self._pauses)
        self._redone = selected.redone
        self._early = EarlyStop(had_success=any(each & 1 for each in history.recorded.values()))
        self._to_remove = {task: name for name, task in selected.recorded_folders.items()}

    async def _loop(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._is_over():
            self._changed.clear()
            if self._error is not None:
                raise self._error
            self._assign(loop.time())
            if self._is_over():
                return
            at = self._schedule.next_at()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(at if self._accepts else None):
                    await self._changed.wait()

    @property
    def _accepts(self) -> bool:
        """Whether further items may start."""
        return not (self._interrupts or self._stop or self._problem or self._is_budget_used)

    def _is_over(self) -> bool:
        if self._stop is not None or self._problem is not None or self._interrupts > 1:
            return True
        if self._running or self._unsynced or self._to_remove:
            return False
        return not self._accepts or not len(self._schedule)

    async def _close(self) -> None:
        self._is_closing = True
        for worker in self._workers:
            worker.send(StopItems())
        for worker in self._workers:
            await worker.ended(CLOSE_SECONDS)
        # Results that the workers sent before they ended are still in the pipes.
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._tasks.ended()
        await self._tasks.close()
        for worker in self._workers:
            await worker.close()
        await self._host.close()
        with suppress(DiskFull):
            self._sync()
        await self._report.end(self._counts)

    def _exit_code(self, selected: SelectedTasks) -> int:
        if self._interrupts:
            return INTERRUPTED
        if self._stop is not None:
            self._view.say(f"Stopped: {self._stop[1]}")
            return self._stop[0]
        if self._is_budget_used or self._counts["budget"]:
            self._view.say(f"The budget is used up: ${self._spending.total:.2f} were spent.")
            return BUDGET_USED
        failed = self._counts["failed"] + self._counts["limit"] + selected.recorded_failed
        return SOME_FAILED if failed else ALL_OK

    # ------------------------------------------------------------ workers

    async def _start_worker(self) -> None:
        worker = await self._host.start_worker()
        self._workers.append(worker)
        worker.send(PrepareWorker(setup=self._plan.setup))
        listener = self._tasks.start(self._listen(worker))
        listener.add_done_callback(self._listened)

    def _listened(self, listener: asyncio.Task[None]) -> None:
        """Pass an error of a task on to the loop, which ends with it."""
        if not listener.cancelled():
            self._error = self._error or listener.exception()
        self._changed.set()

    async def _listen(self, worker: FleetWorker) -> None:
        try:
            try:
                async for message in worker.messages():
                    self._take(worker, message)
            except PipeBroken as error:
                self._view.say(str(error))
            if not self._is_closing:
                await self._lost(worker)
        except DiskFull as error:
            self._stop = (STOPPED_EARLY, str(error))
            self._changed.set()

    async def _lost(self, worker: FleetWorker) -> None:
        """A worker has ended: its items continue in another one."""
        self._workers.remove(worker)
        worker.kill()
        await worker.ended(CLOSE_SECONDS)
        await worker.close()
        if not worker.is_ready:
            self._failed_starts += 1
        now = asyncio.get_running_loop().time()
        for task_id in tuple(worker.running):
            running = self._running.pop(task_id)
            self._view.again(task_id, "its worker was lost")
            if not self._schedule.lost(running.item, now, progressed=running.progressed):
                self._give_up(running.item)
        if self._failed_starts >= MOST_FAILED_STARTS:
            log = self._folder.path / LOG_NAME
            self._problem = f"Workers end before they can run an item. See {log}."
        elif not self._is_closing:
            await self._replace_worker()
        self._changed.set()

    async def _replace_worker(self) -> None:
        try:
            await self._start_worker()
        except ConfigError as error:
            self._problem = str(error)

    def _give_up(self, item: WaitingItem) -> None:
        """Record an item whose workers were lost again and again."""
        text = "The worker of the item was lost in each attempt."
        cost = cost_of_sessions(self._folder.items / item.task.folder_name)
        result = ItemResult(
            id=item.task.id,
            status="failed",
            attempts=item.attempts,
            how="new",
            answer="",
            usage=ItemUsage(cost=cost),
            turns=0,
            seconds=0.0,
            error=ItemError(kind="lost", text=text),
            item=item.task.item,
        )
        self._record(item.task, "failed", cost, dumps(result))
        self._view.finished(item.task.id, "failed", text)
        self._note_failure("lost", text)

    def _take(self, worker: FleetWorker, message: ToDriver) -> None:
        match message:
            case WorkerReady():
                self._take_ready(worker, message)
            case ItemMoved(progress=progress):
                self._take_progress(progress)
            case ItemFinished():
                self._take_finished(worker, message)
            case WorkspaceRemoved(id=task_id):
                self._to_remove.pop(task_id, None)
                self._changed.set()
            case WorkerWarned(text=text):
                if text not in self._warnings and len(self._warnings) < _MOST_WARNINGS:
                    self._warnings.add(text)
                    self._view.say(text)

    def _take_ready(self, worker: FleetWorker, ready: WorkerReady) -> None:
        if ready.problem is not None:
            self._problem = ready.problem
        else:
            worker.is_ready = True
            self._failed_starts = 0
            for task_id, name in self._to_remove.items():
                worker.send(ItemRecorded(id=task_id, folder=name))
            if self._is_budget_used:
                worker.send(EndTurns())
        self._changed.set()

    # ------------------------------------------------------------ items

    def _assign(self, now: float) -> None:
        """Start as many items as options and budget allow."""
        while self._accepts and len(self._running) < self._plan.jobs:
            item, worker = self._schedule.peek(now), self._free_worker()
            if item is None or worker is None:
                return
            if not self._spending.fits(item.task.id, self._running):
                self._is_budget_used = not self._running
                return
            self._start(self._schedule.take(), worker)

    def _free_worker(self) -> FleetWorker | None:
        most = -(-self._plan.jobs // self._plan.worker_count)
        ready = [each for each in self._workers if each.is_ready and len(each.running) < most]
        return min(ready, key=lambda each: len(each.running), default=None)

    def _start(self, item: WaitingItem, worker: FleetWorker) -> None:
        task = item.task
        if task.id in self._redone:
            self._redone.discard(task.id)
            set_aside(self._folder.items / task.folder_name, item.attempts)
        item.attempts += 1
        self._folder.note_start(task, item.attempts, worker.pid)
        worker.send(
            StartItem(
                order=ItemOrder(
                    id=task.id,
                    folder=task.folder_name,
                    item=task.item,
                    prompt=render_prompt(task, self._plan.prompt),
                    attempt=item.attempts,
                    traceparent=self._report.traceparent,
                )
            )
        )
        worker.running.add(task.id)
        self._running[task.id] = RunningItem(item, worker)
        self._view.started(task.id)

    def _take_progress(self, progress: ItemProgress) -> None:
        running = self._running.get(progress.id)
        if running is None:
            return
        running.progressed = True
        self._spending.note(progress.id, progress.cost)
        self._view.moved(progress)
        if self._spending.is_used_up and not self._is_budget_used:
            self._is_budget_used = True
            for worker in self._workers:
                worker.send(EndTurns())

    def _take_finished(self, worker: FleetWorker, message: ItemFinished) -> None:
        running = self._running.pop(message.id)
        worker.running.discard(message.id)
        self._changed.set()
        task, kind = running.item.task, message.kind
        self._spending.note(task.id, message.cost)
        now = asyncio.get_running_loop().time()
        if message.is_transient and self._schedule.retry(running.item, now):
            self._view.again(task.id, message.text)
            return
        if kind is not None and self._note_failure(kind, message.text) and kind in STOPS_BATCH:
            return
        if message.status == "ok":
            self._early.succeeded()
        self._record(task, message.status, message.cost, bytes(message.line))
        self._view.finished(task.id, message.status, message.text)

    def _note_failure(self, kind: str, text: str) -> bool:
        """Stop the batch if further items would fail too; returns whether it stops."""
        reason = self._early.failed(kind, text)
        if reason is not None and self._stop is None:
            self._stop = (STOPPED_EARLY, reason)
        return reason is not None

    # ------------------------------------------------------------ results

    def _record(self, task: Task, status: str, cost: float, line: bytes) -> None:
        self._folder.results.append(line)
        self._spending.record(task.id, cost)
        self._counts[status] += 1
        self._report.count_item(status)
        if not self._unsynced:
            self._tasks.start(self._sync_soon()).add_done_callback(self._listened)
        self._unsynced.append((task.id, task.folder_name, line))

    async def _sync_soon(self) -> None:
        if len(self._schedule) or self._running:
            await asyncio.sleep(SYNC_SECONDS)
        try:
            self._sync()
        except DiskFull as error:
            self._stop = (STOPPED_EARLY, str(error))
        self._changed.set()

    def _sync(self) -> None:
        """Sync the results, pass them on, and have their workspaces removed."""
        self._folder.results.sync()
        recorded, self._unsynced = self._unsynced, []
        for task_id, name, line in recorded:
            self._on_result(line)
            self._to_remove[task_id] = name
            ready = [worker for worker in self._workers if worker.is_ready]
            if ready:
                worker = min(ready, key=lambda each: len(each.running))
                worker.send(ItemRecorded(id=task_id, folder=name))


def set_aside(folder: Path, attempt: int) -> None:
    """Move the files of a recorded attempt into a folder of their own: the item is redone."""
    if not folder.is_dir():
        return
    old = folder / f"attempt-{attempt}"
    old.mkdir(mode=0o700, exist_ok=True)
    for path in folder.iterdir():
        if path.is_file():
            path.rename(old / path.name)


def raise_handle_limit() -> None:
    """Allow as many open files as the system permits: an agent has about three."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_HANDLES if hard == resource.RLIM_INFINITY else min(hard, MOST_HANDLES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
