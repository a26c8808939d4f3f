"""`ludolf export SESSION [FILE]`: a session as an HTML page."""

from argparse import ArgumentParser
from collections.abc import Sequence

from ludolf.cli.subcommands import sessions


def run(words: Sequence[str]) -> int:
    """Raises:
    CommandError: there is no such session, or the page cannot be written.
    """
    parser = ArgumentParser(prog="ludolf export", description="Write a session as an HTML page.")
    sessions.add_export(parser)
    parser.add_argument("--session-dir", metavar="DIR", help="where sessions are kept")
    arguments = parser.parse_args(words)
    return sessions.export(arguments, sessions.session_place(arguments.session_dir))
