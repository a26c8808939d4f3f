"""`ludolf acp`: the same as `ludolf --mode acp`."""

from argparse import ArgumentParser
from collections.abc import Sequence


def run(words: Sequence[str]) -> int:
    """Run `ludolf acp WORDS`; returns the exit code."""
    from ludolf.cli.main import run as run_program

    parser = ArgumentParser(
        prog="ludolf acp",
        allow_abbrev=False,
        description="Serve an editor over the Agent Client Protocol, on stdin and stdout. All "
        "options of ludolf for models, tools, safety and resources can be given.",
    )
    parser.add_argument(
        "--login", action="store_true", help="store an API key or log in, then exit"
    )
    arguments, rest = parser.parse_known_args(words)
    login = ("--login",) if arguments.login else ()
    return run_program(("--mode", "acp", *rest, *login))
