"""`ludolf install` and `remove`: refuse these commands of pi instead of prompting the model."""

from collections.abc import Sequence

from ludolf.base import CommandError

REFUSED = (
    "Ludolf does not install packages. For a Python extension, put the file into "
    "~/.pi/agent/extensions, pass it with -e, or install a Python package with the entry point "
    '"ludolf.extensions". Put skills and prompt templates into ~/.pi/agent/skills and '
    "~/.pi/agent/prompts."
)


def run(words: Sequence[str]) -> int:
    """Refuse the command.

    Raises:
        CommandError: always; the text names the alternatives.
    """
    raise CommandError(REFUSED)
