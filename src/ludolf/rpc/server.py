"""The RPC server: one engine for one host, from the first line of input to the end of it."""

import asyncio
import contextlib
import gc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ludolf import __version__
from ludolf.config.settings.home import env
from ludolf.config.settings.options import Options
from ludolf.engine.build import build
from ludolf.engine.bundles import Bundles
from ludolf.engine.engine import WARM_UP_SECONDS, Engine
from ludolf.protocol.dialects import Dialect, ServerInfo, make_dialect
from ludolf.rpc.connection import FrameSink, HostConnection
from ludolf.rpc.desk import Desk, Pacing
from ludolf.rpc.handlers import load_handlers
from ludolf.rpc.manners import adopt
from ludolf.rpc.signals import Stop, close_early, watch_signals
from ludolf.rpc.stdio import Stdio

if TYPE_CHECKING:
    from ludolf.protocol.ui import UiRequest
    from ludolf.rpc.early_commands import EarlyCommands

SHUTDOWN_SECONDS = 5.0
_ON = ("1", "true", "yes", "on")
# Requests that wait for an answer.
_DIALOGS = ("select", "confirm", "input", "editor")


def run_rpc(
    options: Options, dialect: str, prepare: Callable[[Bundles], None] | None = None
) -> int:
    """Serve one host on stdin and stdout; returns the exit code. `prepare` is that of `build`."""
    return asyncio.run(_main(options, dialect, prepare))


async def _main(options: Options, dialect: str, prepare: Callable[[Bundles], None] | None) -> int:
    engine = build(options, prepare=prepare)
    stop = Stop()
    with Stdio(on_broken=lambda: stop(1)) as stdio:
        server = Server(engine, make_dialect(dialect), stdio)
        watch_signals(stop)
        await server.start()
        asyncio.get_running_loop().call_later(WARM_UP_SECONDS, _warm_up, engine)
        code = await stop.race(server.serve())
        if code is None:
            return 0
        await close_early(code, stdio, engine.close)
        return code


def _warm_up(engine: Engine) -> None:
    load_handlers()
    engine.warm_up()
    engine.toolset.active()  # loads the tools
    gc.freeze()  # what is loaded now stays: the collector need not look at it each time


def server_info(engine: Engine, traits: Any) -> ServerInfo:
    """Return what the greetings and frames of a dialect may contain."""

    def commands() -> tuple[Any, ...]:
        from ludolf.rpc.slash_commands import available_commands

        return available_commands(engine, traits)

    def place_of(entry_id: str) -> int:
        entries = engine.session.entries()
        return next((place for place, entry in enumerate(entries, 1) if entry.id == entry_id), 0)

    def cwd() -> str:
        return str(engine.conversation.place.cwd)

    titles = (env("RPC_EMIT_TITLE", engine.workspace.environ) or "").strip().lower() in _ON
    home = str(engine.workspace.home.user)
    return ServerInfo(__version__, commands, titles, place_of, cwd, home)


def _ignore_lines(lines: list[bytes]) -> None:
    """Take no command: as in pi, what arrives while the program ends is not answered."""


class Server:
    """One host on one pair of pipes."""

    def __init__(self, engine: Engine, dialect: Dialect, stdio: Stdio) -> None:
        self._engine = engine
        self._dialect = HostConnection(dialect)
        self._stdio = stdio
        self._pacing = Pacing()
        self._ended = asyncio.Event()
        sink = FrameSink(self._dialect, stdio)
        engine.conversation.hub.attach(sink)
        adopt(engine, dialect.traits)
        self.desk = Desk(engine, engine.own_host, self._dialect, self._pacing, sink.reply)
        self.feed: Callable[[list[bytes]], None] = self.desk.feed
        self._early: EarlyCommands | None = None
        self._starting = self._greeted = False

    async def start(self) -> None:
        """Start the engine; while scripts load, commands that only read are answered already.

        If an extension asks the user meanwhile, the host can answer.

        Raises:
            ConfigError: that of `Engine.start`.
        """
        if not self._dialect.greets and not self._engine.has_late_model:
            self._engine.on_slow_start = self._answer_early
        self._starting = True
        await self._engine.start("rpc", self.ask)
        self._starting, self._engine.on_slow_start = False, None

    def _answer_early(self) -> None:
        if self._early is None:
            from ludolf.rpc.early_commands import EarlyCommands

            self._greet()
            self._early = EarlyCommands(self.desk, self._stdio)
            self._listen(self._early.feed)

    def _greet(self) -> None:
        """Send the greeting, which a host may wait for; then events."""
        if not self._greeted:
            self._greeted = True
            greeting = self._dialect.greeting(server_info(self._engine, self._dialect.traits))
            if greeting is not None:
                self._stdio.send(greeting)
            self._engine.conversation.hub.begin()

    def _listen(self, feed: Callable[[list[bytes]], None]) -> None:
        self.feed = feed
        self._stdio.lines(lambda lines: self.feed(lines), self._end)

    def _end(self) -> None:
        self._ended.set()
        if self._starting:
            self._engine.disconnect()  # an extension may wait for an answer

    async def serve(self) -> None:
        """Serve until the input ends; then abort the run, store it and send its end."""
        self._greet()
        if self._early is None:
            self._listen(self.desk.feed)
        else:
            self.feed = self.desk.feed
            self._early.release()
        self._engine.on_shutdown = self._ended.set
        await self._ended.wait()
        self.feed = _ignore_lines
        if self._dialect.traits.ends_after_run:
            await self._let_run_end()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SHUTDOWN_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._finish()
        await self._stdio.drain(max(0.0, deadline - loop.time()))

    async def _let_run_end(self) -> None:
        """Let the run end after the end of input; dialogs and host tools are cancelled."""
        self._engine.disconnect()
        self._engine.own_host.disconnect()
        await self._pacing.tasks.ended()
        await self._engine.settled()

    async def _finish(self) -> None:
        """Abort everything that runs; pending commands still get their replies."""
        self._engine.disconnect()
        if self._pacing.turn is not None:
            await asyncio.wait((self._pacing.turn,), timeout=SHUTDOWN_SECONDS / 2)
        self._engine.own_host.disconnect()
        await self._engine.abort()
        self._engine.shell.abort()
        await self._pacing.tasks.ended()
        await self._engine.close()

    def ask(self, request: "UiRequest") -> bool:
        """Send a dialog to the host; False if its dialect has no dialogs."""
        frame = self._dialect.ui(request)
        if self._starting and frame is not None and request.method in _DIALOGS:
            self._answer_early()
        if frame is not None:
            self._stdio.send(frame)
        return frame is not None
