"""`ludolf view [SESSION]`: serve a session to the browser and update it while it grows."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ludolf.cli.progress import working
from ludolf.cli.subcommands.sessions import SESSION_NAMES, locate, session_place
from ludolf.cli.terminal import one_line, plain, say
from ludolf.engine.build import warn_on_stderr
from ludolf.page.live.server import LiveServer
from ludolf.page.live.watch import Watch

_SIGINT = 130
_LEAD = """\
<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}"><title>Ludolf</title>
<a href="{url}">The session</a>
"""


def run(words: Sequence[str]) -> int:
    """Serve the session until Ctrl-C; returns the exit code.

    Raises:
        CommandError: the session does not exist, or the port is in use.
    """
    import asyncio
    from argparse import ArgumentParser

    parser = ArgumentParser(
        prog="ludolf view",
        allow_abbrev=False,
        description="Show a session in the browser and update the page while the session grows.",
    )
    parser.add_argument("session", nargs="?", default="last", help=f"{SESSION_NAMES} (the default)")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="default: any free port")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument("--session-dir", metavar="DIR", help="folder of sessions")
    arguments = parser.parse_args(words)
    path = locate(session_place(arguments.session_dir), arguments.session)
    watch = Watch(path, warn_on_stderr)
    with working("Loading the session"):
        watch.load()
    code = asyncio.run(_serve(watch, arguments.port, opens=arguments.open))
    # Ctrl-C is the normal way to end this command, so it is not a failure.
    return 0 if code == _SIGINT else code


async def _serve(watch: Watch, port: int, *, opens: bool) -> int:
    from asyncio import Event

    from ludolf.rpc.signals import Stop, watch_signals

    stop = Stop()
    watch_signals(stop)
    server = LiveServer(watch)
    await server.start(port)
    try:
        watch.start()
        say(f"{one_line(plain(watch.name), 80)}\n{server.url}")
        sys.stdout.flush()
        with _opened(server.url if opens else ""):
            return await stop.race(Event().wait()) or 0
    finally:
        await server.close()


@contextmanager
def _opened(url: str) -> Iterator[None]:
    """Open the page through a private file, because other users can read a browser's arguments."""
    if not url:
        yield
        return
    import tempfile
    import webbrowser

    descriptor, name = tempfile.mkstemp(prefix="ludolf-view-", suffix=".html")
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(_LEAD.format(url=url))
        if not webbrowser.open(Path(name).as_uri()):
            warn_on_stderr("No browser could be started. Open the address above.")
        yield
    finally:
        os.unlink(name)
