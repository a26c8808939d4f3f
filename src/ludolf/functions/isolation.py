"""The door to user code: whatever it does, the caller gets a result or a `Failed`, never worse.

Code of others may raise anything, call `exit`, fork, or swallow its own cancellation. Everything
that runs it goes through `call`.
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
    """Code of an extension failed; the text is what it said. The cause is the original error."""


_clock: ContextVar[tuple[asyncio.Timeout, float] | None] = ContextVar("clock", default=None)


async def call(
    function: Callable[..., Any], *args: Any, thread: bool = False, limit: float | None = None
) -> Any:
    """Call a function of an extension, sync or async, and wait for its result.

    It runs inside the caller's task, so cancelling the caller ends it. `thread` moves a plain
    function to a thread of its own; `limit` is in seconds.

    Raises:
        Failed: it raised, tried to exit, or took too long.
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
        # Nobody cancelled us: a cancelled future of its own ran through the extension's fingers.
        raise Failed("cancelled itself") from error
    except BaseException as error:
        raise Failed(describe(error)) from error
    finally:
        if os.getpid() != own_process:
            os._exit(0)  # a forked copy of us must not go on as if it were the agent
        if task.cancelling() > earlier:
            # It may have swallowed the cancellation; the caller shall still be stopped.
            raise asyncio.CancelledError


def call_now(function: Callable[..., Any], *args: Any) -> Any:
    """Call a plain function of an extension.

    Raises:
        Failed: it raised or tried to exit.
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
    """What an error says; its name where it says nothing."""
    if isinstance(error, SystemExit):
        return f"tried to exit the program (code {error.code})"
    try:
        text = str(error)
    except BaseException:  # a broken __str__ of an error class of theirs
        text = ""
    return text or type(error).__name__


@contextmanager
def clock_stopped() -> Iterator[None]:
    """While a dialog is open, the time limit of the handler that asked does not run."""
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
    """Run a plain function in a thread of its own.

    A daemon, unlike those of `asyncio.to_thread`: one that hangs must not keep the program alive.
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
            done.set_exception(Failed("StopIteration"))  # a future refuses to carry one
        else:
            done.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            result = context.run(function, *args)
        except BaseException as problem:
            error = problem
        with suppress(RuntimeError):  # the loop was closed meanwhile: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name="extension", daemon=True).start()
    return await done
