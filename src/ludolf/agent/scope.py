"""One way to stop: work runs inside a scope, and aborting the scope cancels it.

This is the only file that starts a bare task.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from ludolf.base import LudolfError

T = TypeVar("T")


class Aborted(LudolfError):
    """The work was stopped by `Scope.abort`; the caller itself is not cancelled."""


class Scope:
    """A unit of work that can be stopped as a whole. Once aborted, nothing more starts in it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._aborted = False

    @property
    def aborted(self) -> bool:
        return self._aborted

    def abort(self) -> None:
        self._aborted = True
        for task in self._tasks:
            task.cancel()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work as a child task and wait for it.

        Raises:
            Aborted: the scope was aborted before or while the work ran.
        """
        if self._aborted:
            work.close()
            raise Aborted
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            # Shutdown cancels the caller; the child must not outlive it.
            task.cancel()
            await asyncio.wait((task,))
            raise
        finally:
            self._tasks.discard(task)
        if task.cancelled():
            raise Aborted
        return task.result()


class Tasks:
    """Tasks with an owner: whoever holds this ends them all by closing it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def ended(self) -> None:
        """Wait until all tasks that run now have ended by themselves."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def close(self) -> None:
        """Cancel what still runs and wait until it has ended."""
        while self._tasks:
            tasks = tuple(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
