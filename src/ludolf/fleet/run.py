"""Run a batch in its folder: lock it, select the items, drive the workers, show the progress."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, TextIO

from ludolf.fleet.driver import BatchView, Driver, OnResult
from ludolf.fleet.folder import BatchFolder, open_folder
from ludolf.fleet.plan import BatchPlan, SelectedTasks, select_tasks
from ludolf.fleet.schedule import PAUSES
from ludolf.fleet.table import PlainView, TableView

MakeView = Callable[[SelectedTasks], BatchView]


class BatchRun:
    """A batch whose folder is open; its lock is held until `close`."""

    def __init__(self, plan: BatchPlan, out: Path) -> None:
        """Open the folder and select the items.

        Raises:
            ConfigError: the folder is in use or belongs to another batch, or an item is invalid.
        """
        self._plan = plan
        self._folder: BatchFolder = open_folder(out, plan.fixed_options())
        try:
            self._folder.remove_partial()
            self._history = self._folder.read()
            left = {name.removesuffix(".git") for name in os.listdir(self._folder.work)}
            self.selected = select_tasks(plan, self._history, left)
        except BaseException:
            self._folder.close()
            raise

    def driver(
        self, view: BatchView, on_result: OnResult, pauses: tuple[float, ...] = PAUSES
    ) -> Driver:
        return Driver(self._plan, self._folder, view, on_result, pauses=pauses)

    async def drive(self, driver: Driver) -> int:
        """Run the items; returns the exit code.

        Raises:
            ConfigError: no worker can run items.
        """
        return await driver.run(self.selected, self._history)

    def close(self) -> None:
        self._folder.remove_partial()
        self._folder.close()


async def run_shown(run: BatchRun, errors: TextIO, on_result: OnResult, *, as_table: bool) -> int:
    """Run a batch at a command line: Ctrl-C interrupts it, and its progress is shown."""
    selected = run.selected
    done = selected.recorded_ok + selected.recorded_failed
    total = done + len(selected.tasks)
    table = TableView(errors, total, done, selected.recorded_failed) if as_table else None
    view: BatchView = table or PlainView(errors, total, done)
    driver = run.driver(view, on_result)
    signals = _Signals(driver)
    context: Any = table or nullcontext()
    async with context:
        code = await run.drive(driver)
    return signals.code or code


class _Signals:
    """Signals that end the batch, and the exit code that follows from them."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.code = 0
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, driver.interrupt)
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._terminate, number)

    def _terminate(self, number: int) -> None:
        self.code = 128 + number
        self._driver.terminate()
