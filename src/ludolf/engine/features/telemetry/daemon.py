"""Run work of OpenTelemetry in daemon threads: it may block, and must not keep a program alive."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def post_to_loop(
    loop: asyncio.AbstractEventLoop, work: Callable[..., object], *args: object
) -> None:
    """Call something in a loop, unless the loop has ended."""
    try:
        loop.call_soon_threadsafe(work, *args)
    except RuntimeError:
        return


async def run_in_daemon(work: Callable[[], T], seconds: float | None = None) -> T | None:
    """Return the result of work in a thread; None if it takes longer than this."""
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def finish(value: T) -> None:
        if not result.done():
            result.set_result(value)

    threading.Thread(target=lambda: post_to_loop(loop, finish, work()), daemon=True).start()
    try:
        return await asyncio.wait_for(result, seconds)
    except TimeoutError:
        return None
