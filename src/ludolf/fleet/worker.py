"""A worker process: runs items as tasks of one event loop until its driver is gone.

`python -m ludolf.fleet.worker SOCKET LOCK` with two inherited descriptors.
"""

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import msgspec

from ludolf.agent.scope import Tasks
from ludolf.base import LudolfError, dumps
from ludolf.fleet.folder import DiskFull
from ludolf.fleet.gate_pipe import PipeGate
from ludolf.fleet.item_run import ItemRun
from ludolf.fleet.orders import FleetSetup, ItemOrder, ItemProgress
from ludolf.fleet.pipes import (
    EndTurns,
    GateOpened,
    ItemFinished,
    ItemMoved,
    ItemRecorded,
    MessagePipe,
    PrepareWorker,
    StartItem,
    StopItems,
    ToWorker,
    WorkerReady,
    WorkerWarned,
    WorkspaceRemoved,
    open_pipe_end,
)
from ludolf.fleet.preflight import prepare_session
from ludolf.fleet.workspace import remove_workspace

# Seconds for storing sessions after the driver has ended; the process exits then in any case.
LAST_SECONDS = 4.5
_MOST_WARNINGS = 50
_NEW_OBJECTS_PER_COLLECTION = 20_000


class ItemWorker:
    """Runs items; `send` carries its messages, so any transport can."""

    def __init__(self, pipe: MessagePipe) -> None:
        self._pipe = pipe
        self._gate = PipeGate(pipe)
        self._setup: FleetSetup | None = None
        self._tasks = Tasks()
        self._runs: dict[str, ItemRun] = {}
        self._warned: set[str] = set()
        self._ends_turns = False

    async def serve(self) -> None:
        """Take messages until the driver is gone or stops the worker; then store the sessions."""
        decoder = msgspec.json.Decoder(ToWorker)
        try:
            async for message in self._pipe.messages(decoder):
                if isinstance(message, StopItems):
                    break
                self._take(message)
        finally:
            _exit_after(LAST_SECONDS)
            await self._tasks.close()
            await self._pipe.drain()

    def _take(self, message: ToWorker) -> None:
        match message:
            case PrepareWorker(setup=setup):
                self._start(self._prepare(setup))
            case StartItem(order=order):
                self._start(self._run(order))
            case ItemRecorded(id=item_id, folder=folder):
                self._start(self._remove(item_id, folder))
            case EndTurns():
                self._ends_turns = True
                for run in self._runs.values():
                    run.end_after_turn()
            case GateOpened():
                self._gate.take(message)
            case StopItems():
                pass

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.start(work).add_done_callback(_exit_after_bug)

    async def _prepare(self, setup: FleetSetup) -> None:
        try:
            ready, self._setup = await prepare_session(setup, self._warn)
        except LudolfError as error:
            ready = WorkerReady(problem=str(error))
        self._pipe.send(ready)

    async def _run(self, order: ItemOrder) -> None:
        assert self._setup is not None
        run = ItemRun(self._setup, order, self._report, self._warn, self._gate)
        self._runs[order.id] = run
        if self._ends_turns:
            run.end_after_turn()
        try:
            finished = await run.run()
        except DiskFull as error:
            self._pipe.send(_disk_is_full(order, error))
            return
        finally:
            del self._runs[order.id]
        result = finished.result
        self._pipe.send(
            ItemFinished(
                id=order.id,
                status=result.status,
                cost=result.usage.cost,
                line=msgspec.Raw(dumps(result)),
                kind=finished.kind,
                text=finished.text,
                is_transient=finished.is_transient,
            )
        )
        await self._pipe.drain()

    async def _remove(self, item_id: str, folder: str) -> None:
        assert self._setup is not None
        out = Path(self._setup.out)
        await remove_workspace(out / "items" / folder, out / "work" / folder)
        self._pipe.send(WorkspaceRemoved(id=item_id))

    def _report(self, progress: ItemProgress) -> None:
        self._pipe.send(ItemMoved(progress=progress))

    def _warn(self, text: str) -> None:
        if text not in self._warned and len(self._warned) < _MOST_WARNINGS:
            self._warned.add(text)
            self._pipe.send(WorkerWarned(text=text))


def _disk_is_full(order: ItemOrder, error: DiskFull) -> ItemFinished:
    line = msgspec.Raw(b"null")
    return ItemFinished(
        id=order.id, status="failed", cost=0.0, line=line, kind="disk", text=str(error)
    )


def _exit_after_bug(task: asyncio.Task[None]) -> None:
    """End the process after an error of ours: the driver starts its items again elsewhere."""
    error = None if task.cancelled() else task.exception()
    if error is not None:
        traceback.print_exception(error)
        os._exit(1)


def _exit_after(seconds: float) -> None:
    timer = threading.Timer(seconds, os._exit, (1,))
    timer.daemon = True
    timer.start()


async def run_worker(end: int) -> None:
    """Serve the driver at the other end of a socket."""
    pipe = await open_pipe_end(socket.socket(fileno=end))
    await ItemWorker(pipe).serve()


def main(words: list[str]) -> None:
    """Run a worker process with the descriptors of its socket and of the lock of the batch."""
    gc.set_threshold(_NEW_OBJECTS_PER_COLLECTION)
    end, lock = (int(word) for word in words)
    # Commands must not inherit them: they would keep the batch locked.
    os.set_inheritable(end, False)
    os.set_inheritable(lock, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(run_worker(end))
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
