"""Connection between the extensions of one session and the engine."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ludolf.agent.scope import Tasks
from ludolf.base import LudolfError
from ludolf.config.models.registry import ModelRegistry
from ludolf.extensions.host import Host
from ludolf.extensions.runner import HookRunner

T = TypeVar("T")
LOADING = (
    "Extension runtime not initialized. Action methods cannot be called during extension loading."
)
STALE = (
    "This extension instance is stale: its session was replaced, reloaded or closed. Do not keep "
    "`api` or `ctx` across a session change. The extension is loaded again for the next session; "
    "act there in the session_start handler or in `with_session`."
)


class NotReady(LudolfError):
    """Raised when an extension uses its API before its session starts or after it ends."""


class Runtime:
    """Shared state of all extensions of one session; bound once and closed once.

    Worker threads may use it: calls are executed on the event loop. `catalog` are the models, which
    extensions may list before they are bound.
    """

    def __init__(self, runner: HookRunner) -> None:
        self.runner = runner
        self.catalog: ModelRegistry | None = None
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
        """Return the bound host.

        Raises:
            NotReady: extensions are still being loaded, or their session has ended.
        """
        if self._stale:
            raise NotReady(STALE)
        if self._host is None:
            raise NotReady(LOADING)
        return self._host

    def bind(self, host: Host) -> None:
        self._host = host

    def list_models(self, work: Callable[[ModelRegistry], T]) -> T:
        """Call a function with the models, from any thread, also before `bind`.

        Raises:
            NotReady: the session has ended, or no engine is there yet.
        """
        if self._host is None and self.catalog is not None:
            self.check_fresh()
            return work(self.catalog)
        return self.do(lambda host: work(host.registry))

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a background task that is cancelled when the session ends."""
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
        """Make every `api` and `ctx` stale and cancel background tasks."""
        self._stale = True
        # A task of an extension may be the one that ends the session; it cannot await itself.
        if asyncio.current_task() not in self._started:
            await self._tasks.close()

    def check_fresh(self) -> None:
        """Check that the session is open.

        Raises:
            NotReady: the session has ended.
        """
        if self._stale:
            raise NotReady(STALE)

    def do(self, work: Callable[[Host], T]) -> T:
        """Call a function with the host, from any thread.

        Raises:
            NotReady: as in `host`.
        """
        if threading.get_ident() == self._thread:
            return work(self.host)

        async def there() -> T:
            return work(self.host)

        return self.wait(there())

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop and wait for it in a worker thread."""
        if threading.get_ident() == self._thread:
            work.close()
            raise RuntimeError("wait() is for worker threads; in a coroutine, use await")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
