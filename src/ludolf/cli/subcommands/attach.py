"""`ludolf attach [SESSION]`: list the sessions of this user's servers, or use one of them."""

import asyncio
import os
import sys
from argparse import ArgumentParser
from collections.abc import Sequence

from ludolf.base import CommandError
from ludolf.base.addresses import Address, parse_address
from ludolf.base.byte_pipes import open_pipe
from ludolf.cli.connect import Opening, move_lines, token_of
from ludolf.cli.terminal import columns, one_line, plain, say, table, width
from ludolf.client import ClientError, RemoteClient, ServerUnreachable, SessionSummary
from ludolf.config.settings.server_places import find_sockets

# A session, and the server that has it.
_Found = tuple[Address, SessionSummary]
_SIGINT = 130


def run(words: Sequence[str]) -> int:
    """Run `ludolf attach WORDS`; returns the exit code.

    Raises:
        CommandError: no server runs, or it does not have the session.
    """
    arguments = _parser().parse_args(words)
    named = arguments.connect or os.environ.get("LUDOLF_CONNECT")
    if named:
        addresses = [parse_address(named)]
    else:
        addresses = [Address("unix", str(path)) for path in find_sockets(os.environ)]
    # Without a name only loaded sessions: stored ones are listed by `ludolf sessions`.
    found = asyncio.run(_sessions(addresses, all=arguments.session is not None))
    if arguments.session is None:
        return _show(found)
    address, session = _chosen(found, arguments.session)
    if sys.stdin and sys.stdin.isatty() and sys.stdout.isatty():
        from ludolf.cli.at_terminal import attach_at_terminal

        return attach_at_terminal(str(address), session, view=arguments.view)
    code = asyncio.run(_follow(address, session, "view" if arguments.view else "control"))
    # Ctrl-C is the normal way to detach, so it is not a failure.
    return 0 if code == _SIGINT else code


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="ludolf attach",
        allow_abbrev=False,
        description="Use a session of `ludolf serve` or of another terminal. If stdin or stdout "
        "is not a terminal, its frames are printed as JSON lines, and JSON lines on stdin are "
        "sent as commands; Ctrl-C and the end of stdin detach. The session continues. Without "
        "SESSION, list the loaded sessions.",
    )
    parser.add_argument("session", nargs="?", help="id of a session, or the beginning of one")
    parser.add_argument("--view", action="store_true", help="only watch: change nothing")
    parser.add_argument(
        "--connect",
        metavar="ADDRESS",
        help="server at unix:PATH, ws://HOST:PORT or wss://HOST:PORT; default: all servers of "
        "this user on this machine",
    )
    return parser


async def _sessions(addresses: Sequence[Address], *, all: bool) -> list[_Found]:
    found: list[_Found] = []
    missing: ClientError | None = None
    reached = False
    for address in addresses:
        try:
            async with RemoteClient(address, name="attach") as client:
                found += [(address, each) for each in await client.list(all=all)]
        except ServerUnreachable as error:  # perhaps of a server that was killed
            missing = error
        else:
            reached = True
    if not reached:
        raise missing or CommandError("No server runs. Start one with `ludolf serve`.")
    return found


def _show(found: Sequence[_Found]) -> int:
    if not found:
        sys.stderr.write("No session is loaded.\n")
        return 0
    rows = [["id", "state", "clients", "folder"]]
    for _, each in found:
        rows.append([each.session, each.state, str(each.clients), _ending(each.cwd, 50)])
    room = columns() - sum(max(map(width, column)) + 2 for column in zip(*rows, strict=True))
    names = ["name", *(one_line(each.name or "", max(10, room)) for _, each in found)]
    say(table([[*row, name] for row, name in zip(rows, names, strict=True)]))
    return 0


def _ending(folder: str, limit: int) -> str:
    """The end of a path, which says most."""
    text = " ".join(plain(folder).split())
    return text if len(text) <= limit else f"…{text[-limit + 1 :]}"


def _chosen(found: Sequence[_Found], wanted: str) -> tuple[Address, str]:
    """Raises:
    CommandError: no session has this id, or several begin so.
    """
    fits = {
        each.session: (address, each.session)
        for address, each in reversed(found)
        if each.session.startswith(wanted)
    }
    if wanted in fits:
        return fits[wanted]
    if len(fits) == 1:
        return next(iter(fits.values()))
    if fits:
        raise CommandError(f'{len(fits)} sessions begin with "{wanted}". Give more of the id.')
    raise CommandError(f'No session begins with "{wanted}". `ludolf attach` lists them.')


async def _follow(address: Address, session: str, role: str) -> int:
    pipe = await open_pipe(address)
    try:
        opening = Opening(pipe, address)
        await opening.ask("hello", {"name": "attach", **token_of(address)})
        reply = await opening.ask("attach", {"session": session, "role": role})
        return await move_lines(pipe, reply + b"\n" + opening.rest)
    finally:
        await pipe.close()
