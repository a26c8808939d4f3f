"""Run ACP mode: the pipes, signals and the exit code."""

import asyncio
import sys
from pathlib import Path

from ludolf.acp.server import AcpServer
from ludolf.config.settings.options import Options
from ludolf.rpc.signals import Stop, close_early, watch_signals
from ludolf.rpc.stdio import Stdio

WAITS = (
    "ludolf serves the Agent Client Protocol: it waits for JSON-RPC messages of an editor on "
    "stdin, one on each line. Add `ludolf acp` to the agents of your editor. Ctrl-D ends it.\n"
)


def run_acp(options: Options) -> int:
    """Serve one client on stdin and stdout; returns the exit code."""
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(WAITS)
        sys.stderr.flush()
    try:
        options.cwd = Path.cwd()
    except OSError:  # it was removed; sessions name their own folders
        options.cwd = Path("/")
    return asyncio.run(_main(options))


async def _main(options: Options) -> int:
    stop = Stop()
    with Stdio(on_broken=lambda: stop(1)) as stdio:
        server = AcpServer(options, stdio)
        watch_signals(stop)
        code = await stop.race(server.serve())
        if code is not None:
            await close_early(code, stdio, server.close)
        _end_processes()
        return code or 0


def _end_processes() -> None:
    """End the processes that commands of all sessions left running."""
    if "ludolf.engine.run.shell" in sys.modules:
        from ludolf.engine.build import warn_on_stderr
        from ludolf.engine.run.shell import end_left_behind

        end_left_behind(warn_on_stderr)
