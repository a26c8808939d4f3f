"""What people type as `ludolf WORD ...`: one module a word, loaded only when it is typed."""

import sys
from collections.abc import Sequence
from importlib import import_module

# Word -> module in this folder; it holds `run(words) -> int` for the words behind its own.
MODULES: dict[str, str] = {
    "auth": "auth",
    "export": "export",
    "install": "packages",
    "install-alias": "alias",
    "models": "models",
    "remove": "packages",
    "schema": "schema",
    "sessions": "sessions",
    "uninstall": "packages",
    "update": "update",
    "view": "view",
}
# Words of pi that are only refused or translated: nobody needs to be led to them.
_OF_PI = ("install", "remove", "uninstall", "update")
_ALIKE = 0.82


def warn_of_slip(word: str) -> None:
    """A misspelt subcommand is a message, which a model is asked and paid for: say so."""
    from difflib import get_close_matches

    names = [name for name in MODULES if name not in _OF_PI]
    for meant in get_close_matches(word, names, 1, _ALIKE):
        told = f'"{word}" is a message for the model. Did you mean `ludolf {meant}`?'
        sys.stderr.write(f"Warning: {told}\n")


def run(name: str, words: Sequence[str]) -> int:
    """Do what `ludolf NAME WORDS` asks for; returns the exit code.

    Raises:
        LudolfError: it could not be done; the text is for the user.
    """
    module = import_module(f"ludolf.cli.subcommands.{MODULES[name]}")
    code: int = module.run(words)
    return code
