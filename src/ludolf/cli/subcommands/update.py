"""`ludolf update --models`: pi's name of `ludolf models refresh`."""

from collections.abc import Sequence


def run(words: Sequence[str]) -> int:
    """Run `ludolf update WORDS`; returns the exit code.

    Raises:
        LudolfError: the command failed; the text is for the user.
    """
    from argparse import ArgumentParser

    from ludolf.cli.subcommands import models

    parser = ArgumentParser(
        prog="ludolf update",
        allow_abbrev=False,
        description="Same as `ludolf models refresh`, under pi's name.",
    )
    parser.add_argument(
        "--models", action="store_true", required=True, help="fetch lists of models from providers"
    )
    parser.add_argument("--offline", action="store_true", help="send nothing (as PI_OFFLINE=1)")
    arguments = parser.parse_args(words)
    return models.run(["refresh", *(["--offline"] if arguments.offline else [])])
