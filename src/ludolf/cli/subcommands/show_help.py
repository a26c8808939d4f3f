"""`ludolf help [COMMAND]`: print the help of the program or of one command."""

import sys
from collections.abc import Sequence

from ludolf.base import CommandError
from ludolf.cli import subcommands
from ludolf.cli.help import HELP


def run(words: Sequence[str]) -> int:
    """Print the help; returns the exit code.

    Raises:
        CommandError: the words are not a command, so that this may be a prompt without quotes.
    """
    if not words or words[0] in ("-h", "--help"):
        sys.stdout.write(HELP)
        return 0
    if words[0] not in subcommands.names() or len(words) > 1:
        raise CommandError(
            "`ludolf help` takes the name of one command. To send a prompt: "
            f'ludolf -p "help {" ".join(words)}"'
        )
    return subcommands.run(words[0], ("-h",))
