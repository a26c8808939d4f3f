"""`ludolf install` and `remove`: words of pi that must not reach a model as a prompt."""

from collections.abc import Sequence

from ludolf.base import CommandError

REFUSED = (
    "Ludolf installs no packages. Extensions in Python: put the file into ~/.pi/agent/extensions, "
    'name it with -e, or pip-install a package that has the entry point "ludolf.extensions". '
    "Skills and prompt templates: put them into ~/.pi/agent/skills and ~/.pi/agent/prompts."
)


def run(words: Sequence[str]) -> int:
    """Raises:
    CommandError: always; the text says what to do instead.
    """
    raise CommandError(REFUSED)
