"""Call user code safely: the caller receives a result or a `Failed` exception.

User code may raise anything, call `exit`, fork, or swallow a cancellation, so it is only called
through `call` and `call_now`.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from typing import Any

from ludolf.base import LudolfError


class Failed(LudolfError):
    """Raised when user code failed. The text and the cause are those of the original error."""


_clock: ContextVar[tuple[asyncio.Timeout, float] | None] = ContextVar("clock", default=None)


async def call(
    function: Callable[..., Any], *args: Any, thread: bool = False, limit: float | None = None
) -> Any:
    """Call a sync or async function of a user and wait for its result.

    It runs inside the caller's task, so cancelling the caller cancels it. `thread` runs a plain
    function in a separate thread; `limit` is a timeout in seconds.

    Raises:
        Failed: the function raised, tried to exit, or exceeded the timeout.
    """
    task = asyncio.current_task()
    assert task is not None
    earlier, own_process = task.cancelling(), os.getpid()
    try:
        return await _timed(function, args, thread, limit)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except asyncio.CancelledError as error:
        if task.cancelling() > earlier:
            raise
        # This task was not cancelled: the function awaited a cancelled future of its own.
        raise Failed("cancelled itself") from error
    except BaseException as error:
        raise Failed(describe(error)) from error
    finally:
        if os.getpid() != own_process:
            os._exit(0)  # a forked copy must not continue as the agent
        if task.cancelling() > earlier:
            # The function may have swallowed the cancellation; the caller must still be cancelled.
            raise asyncio.CancelledError


def call_now(function: Callable[..., Any], *args: Any) -> Any:
    """Call a plain function of a user.

    Raises:
        Failed: the function raised or tried to exit.
    """
    own_process = os.getpid()
    try:
        return function(*args)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise Failed(describe(error)) from error
    finally:
        if os.getpid() != own_process:
            os._exit(0)


def describe(error: BaseException) -> str:
    """Return the text of an error, or its class name if the text is empty."""
    if isinstance(error, SystemExit):
        return f"tried to exit the program (code {error.code})"
    try:
        text = str(error)
    except BaseException:  # the error class may have a broken __str__
        text = ""
    return text or type(error).__name__


@contextmanager
def clock_stopped() -> Iterator[None]:
    """Pause the timeout of the current handler, for example while a dialog is open."""
    running = _clock.get()
    if running is None:
        yield
        return
    timeout, limit = running
    loop = asyncio.get_running_loop()
    timeout.reschedule(None)
    try:
        yield
    finally:
        if not timeout.expired():
            timeout.reschedule(loop.time() + limit)


async def _timed(
    function: Callable[..., Any], args: tuple[Any, ...], thread: bool, limit: float | None
) -> Any:
    if limit is None:
        return await _run(function, args, thread)
    timeout = asyncio.timeout(limit)
    token = _clock.set((timeout, limit))
    try:
        async with timeout:
            return await _run(function, args, thread)
    except TimeoutError as error:
        if timeout.expired():
            raise Failed(f"took longer than {round(limit * 1000)} ms") from error
        raise
    finally:
        _clock.reset(token)


async def _run(function: Callable[..., Any], args: tuple[Any, ...], thread: bool) -> Any:
    result = await in_thread(function, *args) if thread else function(*args)
    return await result if isinstance(result, Awaitable) else result


async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
    """Run a plain function in a separate daemon thread.

    Unlike the threads of `asyncio.to_thread`, a hanging one does not block the exit.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is None:
            done.set_result(result)
        elif isinstance(error, StopIteration):
            done.set_exception(Failed("StopIteration"))  # futures do not accept StopIteration
        else:
            done.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function, *args)
        except BaseException as problem:
            error = problem
        with suppress(RuntimeError):  # the loop was closed meanwhile, so no task waits
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name="extension", daemon=True).start()
    return await done
