"""Start RPC mode: own the pipes, serve, end with the right code."""

import asyncio
import contextlib
import sys

from ludolf.config.settings.options import Options
from ludolf.engine.build import build
from ludolf.engine.engine import Engine
from ludolf.protocol.dialects import make_dialect
from ludolf.rpc.server import Server
from ludolf.rpc.signals import Stop, watch_signals
from ludolf.rpc.stdio import Stdio

WARM_UP_SECONDS = 0.2
CLOSE_SECONDS = 4.0
LAST_WORDS_SECONDS = 0.1


def run_rpc(options: Options, dialect: str) -> int:
    """Serve one host on stdin and stdout; returns the exit code."""
    return asyncio.run(_main(options, dialect))


async def _main(options: Options, dialect: str) -> int:
    engine = build(options)
    stop = Stop()
    with Stdio(on_broken=lambda: stop(1)) as stdio:
        server = Server(engine, make_dialect(dialect), stdio)
        watch_signals(stop)
        await engine.start("rpc", server.ask)
        asyncio.get_running_loop().call_later(WARM_UP_SECONDS, _warm_up, engine)
        code = await stop.race(server.serve())
        if code is None:
            return 0
        if code == 1:
            sys.stderr.write("Error: stdout was closed by the reader\n")
        stdio.leave()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await engine.close()
        await stdio.drain(LAST_WORDS_SECONDS)
        return code


def _warm_up(engine: Engine) -> None:
    # Importing HTTP takes longer than a host should wait for its first reply, so a thread does it
    # after the first replies.
    engine.models.transport.warm_up()
    if engine.models.by_default:
        engine.tasks.start(engine.models.resolve())
