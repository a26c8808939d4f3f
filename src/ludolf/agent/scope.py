"""Nested cancellation scopes: aborting a scope cancels the work inside it.

This is the only module that starts a bare task.
"""

import asyncio
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Literal, TypeVar, cast

from ludolf.base import LudolfError

T = TypeVar("T")


class Aborted(LudolfError):
    """The work was stopped by `Scope.abort`; the caller itself is not cancelled."""


class Scope:
    """A unit of work that is cancelled as a whole, together with the scopes opened inside it.

    After an abort, no further work starts in it.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._open: set[Scope] = set()
        self._parent: Scope | None = None
        self._holds = 0
        self._aborted = asyncio.Event()
        self._closed = asyncio.Event()

    @property
    def aborted(self) -> bool:
        return self._aborted.is_set()

    @property
    def is_open(self) -> bool:
        """Return whether scopes are open inside this one."""
        return bool(self._open)

    async def until_aborted(self) -> Literal[True]:
        """Return when the scope is aborted."""
        return await self._aborted.wait()

    def abort(self) -> None:
        self._aborted.set()
        for task in self._tasks:
            task.cancel()
        self.abort_open()

    # ------------------------------------------------------------ nesting

    def child(self) -> "Scope":
        """Open a scope inside this one; its owner must close it."""
        scope = Scope()
        scope._parent = self
        self._open.add(scope)
        if self.aborted or self._holds:
            scope.abort()
        return scope

    def close(self) -> None:
        """End the scope and wake code that waits for its end."""
        self._closed.set()
        if self._parent is not None:
            self._parent._open.discard(self)

    @contextmanager
    def open(self) -> Iterator["Scope"]:
        """Open a scope inside this one for the duration of the block."""
        scope = self.child()
        try:
            yield scope
        finally:
            scope.close()

    def abort_open(self) -> "tuple[Scope, ...]":
        """Abort every scope that is open inside this one and return them; new ones may open."""
        scopes = tuple(self._open)
        for scope in scopes:
            scope.abort()
        return scopes

    @contextmanager
    def held(self) -> Iterator[None]:
        """Abort scopes that open inside this one during the block."""
        self._holds += 1
        try:
            yield
        finally:
            self._holds -= 1

    async def closed(self) -> None:
        """Return when the scope has been closed."""
        await self._closed.wait()

    # ------------------------------------------------------------ work

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work as a child task and wait for it.

        Raises:
            Aborted: the scope was aborted before or during the work.
        """
        if self.aborted:
            work.close()
            raise Aborted
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            # At shutdown the caller is cancelled; the child must not outlive it.
            task.cancel()
            await asyncio.wait((task,))
            raise
        finally:
            self._tasks.discard(task)
        if task.cancelled():
            raise Aborted
        return task.result()


class Tasks:
    """Group of tasks; closing it cancels them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def ended(self) -> None:
        """Wait until all tasks that are running now have ended."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def close(self) -> None:
        """Cancel the running tasks and wait until they have ended."""
        while self._tasks:
            tasks = tuple(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


class StartedCoroutine(Generic[T]):
    """A coroutine that was run up to its first suspension.

    Work that does not wait finishes immediately, so that commands in one read take effect in order.
    The first step has no current task: code before the first suspension must not need one.
    """

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._work = work
        self._waits_for: Any = None
        self.done = False
        self._result: T | None = None
        try:
            self._waits_for = work.send(None)
        except StopIteration as end:
            self.done, self._result = True, end.value

    @property
    def result(self) -> T:
        """Return the value of a finished coroutine."""
        assert self.done
        return cast(T, self._result)

    def __await__(self) -> Generator[Any, Any, T]:
        """Continue from the first suspension, inside a task."""
        work, waits_for = self._work, self._waits_for
        while not self.done:
            try:
                value = yield waits_for
            except BaseException as error:
                step: Any = work.throw
                value = error
            else:
                step = work.send
            try:
                waits_for = step(value)
            except StopIteration as end:
                self.done, self._result = True, end.value
        return self.result
