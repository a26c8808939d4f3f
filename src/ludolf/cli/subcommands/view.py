"""`ludolf view [SESSION]`: serve a session to the browser and update it while it grows."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ludolf.base import CommandError
from ludolf.cli.browser import opened_in_browser
from ludolf.cli.progress import working
from ludolf.cli.subcommands.sessions import SESSION_NAMES, locate, session_place
from ludolf.cli.terminal import one_line, plain, say
from ludolf.engine.build import warn_on_stderr
from ludolf.page.live.server import LiveServer, Routes, SessionRoutes
from ludolf.page.live.watch import Watch
from ludolf.session.finder import SessionFolder, list_sessions

# A title, and a function that begins to follow files inside the event loop.
Served = tuple[str, Callable[[], Routes]]
_SIGINT = 130


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
    parser.add_argument("session", nargs="?", help=f"{SESSION_NAMES} (the default)")
    parser.add_argument("--all", action="store_true", help="show a list of all sessions")
    parser.add_argument("--port", type=int, default=0, metavar="N", help="default: any free port")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    parser.add_argument("--session-dir", metavar="DIR", help="folder of sessions")
    arguments = parser.parse_args(words)
    place = session_place(arguments.session_dir)
    if arguments.all and arguments.session is not None:
        raise CommandError(f"--all shows every session. Leave out {arguments.session}, or --all.")
    served = _all(place) if arguments.all else _one(locate(place, arguments.session or "last"))
    code = asyncio.run(_serve(served, arguments.port, opens=arguments.open))
    # Ctrl-C is the normal way to end this command, so it is not a failure.
    return 0 if code == _SIGINT else code


def _one(path: Path) -> Served:
    watch = Watch(path, warn_on_stderr)
    with working("Loading the session"):
        watch.load()

    def begin() -> Routes:
        watch.start()
        return SessionRoutes(watch)

    return watch.name, begin


def _all(place: SessionFolder) -> Served:
    from ludolf.page.live.index import SessionIndex

    return "All sessions", lambda: SessionIndex(
        lambda: list_sessions(place, everywhere=True), warn_on_stderr
    )


async def _serve(served: Served, port: int, *, opens: bool) -> int:
    from asyncio import Event

    from ludolf.rpc.signals import Stop, watch_signals

    stop = Stop()
    watch_signals(stop)
    name, begin = served
    server = LiveServer(begin())
    try:
        await server.start(port)
        how = "" if opens else "Open this address in a browser (--open does it). "
        say(f"{one_line(plain(name), 80)}\n{server.url}\n{how}Ctrl-C ends the view.")
        sys.stdout.flush()
        with opened_in_browser(server.url if opens else ""):
            return await stop.race(Event().wait()) or 0
    finally:
        await server.close()
