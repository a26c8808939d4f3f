"""Keep a stream of messages open that servers and proxies close from time to time."""

import asyncio
from collections.abc import Awaitable, Callable

# A stream that lasted as long was in order; so many shorter ones after each other are not.
_LONG_SECONDS, _MAX_SHORT = 30.0, 5


async def keep_open(read_stream: Callable[[], Awaitable[bool]]) -> None:
    """Read a stream again when it has ended, until `read_stream` returns False.

    Gives up after five streams that were short.
    """
    loop, short = asyncio.get_running_loop(), 0
    while short < _MAX_SHORT:
        began = loop.time()
        if not await read_stream():
            return
        short = 0 if loop.time() - began > _LONG_SECONDS else short + 1
        await asyncio.sleep(2.0**short)
