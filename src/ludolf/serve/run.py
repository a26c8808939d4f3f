"""Run the server: its doors, signals and the exit code."""

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ludolf.agent.scope import Tasks
from ludolf.base import dumps
from ludolf.engine.build import warn_on_stderr
from ludolf.engine.run.shell import end_left_behind
from ludolf.rpc.signals import Stop, watch_signals
from ludolf.rpc.stdio import Stdio
from ludolf.serve.guard import load_guard
from ludolf.serve.lines import UnixDoor, serve_stdio
from ludolf.serve.loop_watch import LoopWatch
from ludolf.serve.options import ServeOptions
from ludolf.serve.server import SessionServer

if TYPE_CHECKING:
    from ludolf.serve.web import WebDoor

LAST_WORDS_SECONDS = 0.5
Announce = Callable[[Mapping[str, Any]], bytes]


def first_line(serving: Mapping[str, Any]) -> bytes:
    """Return the line that says where the server listens."""
    return dumps({"type": "serving", "pid": os.getpid(), **serving}) + b"\n"


def run_serve(options: ServeOptions, announce: Announce = first_line) -> int:
    """Serve until a signal, a client or the end of input ends it; returns the exit code.

    `announce` gets the addresses and returns what is written to stdout.

    Raises:
        ConfigError: a door cannot be opened.
    """
    return asyncio.run(_main(options, announce))


async def _main(options: ServeOptions, announce: Announce) -> int:
    stop = Stop()
    with Stdio(on_broken=lambda: None if not options.stdio else stop(1)) as stdio:
        server = SessionServer(options, load_guard(options) if options.http else None)
        doors = _Doors(server, options)
        watch = LoopWatch(partial(_report_block, asyncio.get_running_loop(), server))
        try:
            serving = await doors.open()
            watch_signals(stop)
            watch.start()
            stdio.send(announce(serving))
            stdio.flush()
            code = await stop.race(_work(server, stdio, options))
            await server.close(options.drain_seconds)
            await stdio.drain(LAST_WORDS_SECONDS)
        finally:
            watch.stop()
            await doors.close()
            await server.tasks.close()
            end_left_behind(warn_on_stderr)
        return code or 0


async def _serve_both(server: SessionServer, stdio: Stdio) -> None:
    """Serve until a client asks for the end, or the client on stdin is done."""
    tasks = Tasks()
    serving = tasks.start(server.serve())
    talking = tasks.start(serve_stdio(server, stdio))
    try:
        await asyncio.wait((serving, talking), return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            await asyncio.wait((talking,), timeout=LAST_WORDS_SECONDS)
    finally:
        await tasks.close()


def _work(server: SessionServer, stdio: Stdio, options: ServeOptions) -> Coroutine[Any, Any, None]:
    if options.private is not None:
        from ludolf.serve.private import serve_terminal

        return serve_terminal(server, options.private)
    return _serve_both(server, stdio) if options.stdio else server.serve()


def _report_block(loop: asyncio.AbstractEventLoop, server: SessionServer, text: str) -> None:
    """Report at once on stderr, and to all clients when the loop runs again."""
    warn_on_stderr(f"Warning: {text}")
    loop.call_soon_threadsafe(server.warn, text)


class _Doors:
    """The ways into the server that its options ask for."""

    def __init__(self, server: SessionServer, options: ServeOptions) -> None:
        self._server = server
        self._options = options
        self._unix: UnixDoor | None = None
        self._web: WebDoor | None = None

    async def open(self) -> dict[str, Any]:
        """Open them; returns what the first line of the program says about them."""
        serving: dict[str, Any] = {}
        if self._options.socket is not None:
            is_shared = self._options.private is None
            self._unix = UnixDoor(self._server, self._options.socket, keeps_lock=is_shared)
            await self._unix.open()
            serving["socket"] = str(self._unix.path)
        if self._options.http is not None:
            from ludolf.serve.web import WebDoor

            self._web = WebDoor(self._server, self._options)
            serving["url"] = await self._web.open()
        return serving

    async def close(self) -> None:
        if self._unix is not None:
            await self._unix.close()
        if self._web is not None:
            await self._web.close()
