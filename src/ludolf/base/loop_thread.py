"""Event loop in a background thread, for synchronous callers."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
_END: Any = object()


class LoopThread:
    """Event loop that runs in a thread from construction until `stop`.

    Ctrl-C during `wait` cancels the work.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_serve, args=(self._loop,), daemon=True)
        self._thread.start()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine in the loop and return its result."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except KeyboardInterrupt:
            future.cancel()
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


async def _next(source: AsyncGenerator[T, None]) -> T:
    return await anext(source, _END)


async def _closed(source: AsyncGenerator[Any, None]) -> None:
    await source.aclose()
