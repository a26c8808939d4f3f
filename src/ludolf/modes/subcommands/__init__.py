"""What people type as `ludolf WORD ...`: one module a word, loaded only when it is typed."""

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


def run(name: str, words: Sequence[str]) -> int:
    """Do what `ludolf NAME WORDS` asks for; returns the exit code.

    Raises:
        LudolfError: it could not be done; the text is for the user.
    """
    module = import_module(f"ludolf.modes.subcommands.{MODULES[name]}")
    code: int = module.run(words)
    return code
