"""`ludolf export SESSION [FILE]`: a session as an HTML page."""

from collections.abc import Sequence

from ludolf.modes.subcommands import sessions


def run(words: Sequence[str]) -> int:
    """Raises:
    CommandError: there is no such session, or the page cannot be written.
    """
    return sessions.run(("export", *words))
