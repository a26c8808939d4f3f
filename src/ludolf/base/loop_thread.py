"""Event loop in a background thread, for synchronous callers."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any, TypeVar

T = TypeVar("T")
_END: Any = object()


class LoopThread:
    """Event loop that runs in a thread from construction until `stop`.

    Ctrl-C during `wait` cancels the work and waits for its end; a second one does not wait.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine in the loop and return its result."""
        result: Future[T] = Future()
        tasks: list[asyncio.Task[Any]] = []

        async def running() -> T:
            task = asyncio.current_task()
            assert task is not None
            tasks.append(task)
            task.add_done_callback(lambda ended: _settle(result, ended))
            return await work

        def end() -> None:
            if tasks:
                tasks[0].cancel()
            else:  # Ctrl-C came before the start
                work.close()
                result.cancel()
                result.set_running_or_notify_cancel()

        try:
            asyncio.run_coroutine_threadsafe(running(), self._loop)
            return result.result()
        except KeyboardInterrupt:
            # The second step comes after the first one of a task that has just been scheduled.
            self._loop.call_soon_threadsafe(lambda: self._loop.call_soon(end))
            wait_for([result])
            raise

    def pull(self, source: AsyncGenerator[T, None]) -> Iterator[T]:
        """Yield the generator's items; close the generator when the iteration ends."""
        try:
            while (item := self.wait(_next(source))) is not _END:
                yield item
        finally:
            self.wait(_closed(source))

    def stop(self) -> None:
        """Stop the loop and join the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _settle(result: Future[T], task: asyncio.Task[T]) -> None:
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    if error is None:
        result.set_result(task.result())
    else:
        result.set_exception(error)


async def _next(source: AsyncGenerator[T, None]) -> T:
    return await anext(source, _END)


async def _closed(source: AsyncGenerator[Any, None]) -> None:
    if not getattr(
        source, "ag_running", False
    ):  # it runs if a second Ctrl-C did not wait for its end
        await source.aclose()
