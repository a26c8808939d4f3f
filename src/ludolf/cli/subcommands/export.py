"""`ludolf export SESSION [FILE]`: write a session as an HTML page."""

from argparse import ArgumentParser
from collections.abc import Sequence

from ludolf.cli.subcommands import sessions


def run(words: Sequence[str]) -> int:
    """Run `ludolf export WORDS`; returns the exit code.

    Raises:
        CommandError: the session does not exist, or the page cannot be written.
    """
    parser = ArgumentParser(prog="ludolf export", description="Write a session as an HTML page.")
    sessions.add_export(parser)
    parser.add_argument("--session-dir", metavar="DIR", help="folder of sessions")
    arguments = parser.parse_args(words)
    return sessions.export(arguments, sessions.session_place(arguments.session_dir))
