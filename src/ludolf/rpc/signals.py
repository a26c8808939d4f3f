"""Signals end the program cleanly, with the code that a shell expects."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ludolf.agent.scope import Tasks

if TYPE_CHECKING:
    from ludolf.rpc.stdio import Stdio

CLOSE_SECONDS = 4.0
LAST_WORDS_SECONDS = 0.1
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


class Stop:
    """Called with an exit code when the program has to end before its work is done."""

    def __init__(self) -> None:
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def __call__(self, code: int) -> None:
        if not self._code.done():
            self._code.set_result(code)

    async def race(self, work: Coroutine[Any, Any, Any]) -> int | None:
        """Do the work; returns None when it is done, or the code if it had to be left."""
        tasks = Tasks()
        task = tasks.start(work)
        await asyncio.wait((task, self._code), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        await tasks.close()
        return self._code.result() if self._code.done() else None


def watch_signals(stop: Stop) -> None:
    """Stop at a signal that ends programs, to the end of the loop.

    `loop.add_signal_handler` works in the same way, but imports `inspect`, which delays the start.
    """
    loop = asyncio.get_running_loop()
    arrived, waking = os.pipe()

    def read() -> None:
        for number in os.read(arrived, 4096):
            if number in _ENDING:
                stop(128 + number)

    def handle(number: int, _: object) -> None:
        if loop.is_closed():
            _die_of(number)

    os.set_blocking(waking, False)
    loop.add_reader(arrived, read)
    # Python writes the number of each signal there, which wakes the loop.
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    for number in _ENDING:
        signal.signal(number, handle)
        signal.siginterrupt(number, False)


async def close_early(code: int, stdio: "Stdio", close: Callable[[], Awaitable[None]]) -> None:
    """End after a signal or a closed stdout: read no more, close, and send the last frames."""
    if code == 1:
        sys.stderr.write("Error: stdout was closed by the reader\n")
    stdio.leave()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await close()
    await stdio.drain(LAST_WORDS_SECONDS)


def die_by(code: int) -> None:
    """After a clean stop by Ctrl-C, die of the signal itself, as shells and parents expect."""
    if code == 128 + signal.SIGINT:
        _die_of(signal.SIGINT)


def _die_of(number: int) -> None:
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
