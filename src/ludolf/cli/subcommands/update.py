"""`ludolf update --models`: pi's words for `ludolf models refresh`."""

from collections.abc import Sequence


def run(words: Sequence[str]) -> int:
    """What `ludolf update WORDS` asks for; returns the exit code.

    Raises:
        LudolfError: it failed; the text is for the user.
    """
    from argparse import ArgumentParser

    from ludolf.cli.subcommands import models

    parser = ArgumentParser(
        prog="ludolf update",
        allow_abbrev=False,
        description="pi's words for `ludolf models refresh`.",
    )
    parser.add_argument(
        "--models", action="store_true", required=True, help="ask providers for their models"
    )
    parser.add_argument("--offline", action="store_true", help="ask nobody (as PI_OFFLINE=1)")
    try:
        arguments = parser.parse_args(list(words))
    except SystemExit as end:
        return int(end.code or 0)
    return models.run(["refresh", *(["--offline"] if arguments.offline else [])])
