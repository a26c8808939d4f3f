"""The link between one generation of extensions and the engine, and when it may be used."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ludolf.agent.scope import Tasks
from ludolf.base import LudolfError
from ludolf.extensions.host import Host
from ludolf.extensions.runner import Runner

T = TypeVar("T")
LOADING = (
    "Extension runtime not initialized. Action methods cannot be called during extension loading."
)
STALE = (
    "This extension instance is stale: its session was replaced, reloaded or closed. Do not keep "
    "`api` or `ctx` across a session change: the extension is loaded anew for the next session, "
    "and what belongs there is done in its session_start handler or in `with_session`."
)


class NotReady(LudolfError):
    """An extension used its API before it was bound to a session, or after that session's end."""


class Runtime:
    """Shared by all extensions of one session. It is bound once, and retired once.

    Code in worker threads may use it: what it asks for is done on the event loop.
    """

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self.open_dialogs = 0
        self._tasks = Tasks()
        self._started: set[asyncio.Task[Any]] = set()
        self._host: Host | None = None
        self._stale = False
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    @property
    def bound(self) -> bool:
        return self._host is not None and not self._stale

    @property
    def host(self) -> Host:
        """Raises:
        NotReady: extensions are still being loaded, or their session is over.
        """
        if self._stale:
            raise NotReady(STALE)
        if self._host is None:
            raise NotReady(LOADING)
        return self._host

    def bind(self, host: Host) -> None:
        self._host = host

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Have something done beside everything else, until the session ends."""
        task = self._tasks.start(work)
        self._started.add(task)
        task.add_done_callback(self._started.discard)

    def report(self, path: str, event: str, text: str) -> None:
        """Report an error, from any thread."""
        if threading.get_ident() == self._thread:
            self.runner.report(path, event, text)
        else:
            self._loop.call_soon_threadsafe(self.runner.report, path, event, text)

    async def close(self) -> None:
        """Everything that was handed out becomes stale, and what was started ends."""
        self._stale = True
        # Work of an extension may itself be what ends the session; it cannot wait for its own end.
        if asyncio.current_task() not in self._started:
            await self._tasks.close()

    def check_fresh(self) -> None:
        """Raises:
        NotReady: the session is over.
        """
        if self._stale:
            raise NotReady(STALE)

    def do(self, work: Callable[[Host], T]) -> T:
        """Use the host, from any thread.

        Raises:
            NotReady: as for `host`.
        """
        if threading.get_ident() == self._thread:
            return work(self.host)

        async def there() -> T:
            return work(self.host)

        return self.wait(there())

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Have the event loop do something for a worker thread, and wait for it there."""
        if threading.get_ident() == self._thread:
            work.close()
            raise RuntimeError("wait() is for worker threads; in a coroutine, use await")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
