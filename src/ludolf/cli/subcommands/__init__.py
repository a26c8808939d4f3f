"""Subcommands `ludolf WORD ...`: one module each, imported on use."""

import sys
from collections.abc import Sequence
from importlib import import_module

# Word -> module in this folder; its `run(words) -> int` takes the arguments after the word.
# A module of several words has a function for each.
MODULES: dict[str, tuple[str, str]] = {
    "auth": ("auth", "run"),
    "completion": ("completion", "run"),
    "doctor": ("doctor", "run"),
    "export": ("sessions", "run_export"),
    "install": ("packages", "run"),
    "install-alias": ("alias", "run"),
    "models": ("models", "run"),
    "remove": ("packages", "run"),
    "schema": ("schema", "run"),
    "sessions": ("sessions", "run"),
    "settings": ("settings", "run"),
    "trust": ("trust", "run"),
    "uninstall": ("packages", "run"),
    "update": ("models", "run_update"),
    "view": ("view", "run"),
}
# Words of pi that are only refused or translated; they are not suggested for misspelt words.
_OF_PI = ("install", "remove", "uninstall", "update")
_ALIKE = 0.82


def names() -> tuple[str, ...]:
    """Return the subcommands of Ludolf, without those that exist only for users of pi."""
    return tuple(name for name in MODULES if name not in _OF_PI)


def warn_of_slip(word: str) -> None:
    """Warn that a misspelt subcommand is sent to the model as a message."""
    from difflib import get_close_matches

    for name in get_close_matches(word, names(), 1, _ALIKE):
        text = f'"{word}" is sent to the model as a message. Did you mean `ludolf {name}`?'
        sys.stderr.write(f"Warning: {text}\n")


def run(name: str, words: Sequence[str]) -> int:
    """Run `ludolf NAME WORDS`; returns the exit code.

    Raises:
        LudolfError: the command failed; the text is for the user.
    """
    module, function = MODULES[name]
    try:
        code: int = getattr(import_module(f"ludolf.cli.subcommands.{module}"), function)(words)
    except SystemExit as end:  # of argparse, after an error or a help text
        return int(end.code or 0)
    return code
