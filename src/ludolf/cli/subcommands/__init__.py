"""Subcommands `ludolf WORD ...`: one module each, imported on use."""

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from argparse import ArgumentParser

# Word -> module in this folder; its `run(words) -> int` takes the arguments after the word.
# A module of several words has a function for each.
MODULES: dict[str, tuple[str, str]] = {
    "acp": ("acp", "run"),
    "attach": ("attach", "run"),
    "auth": ("auth", "run"),
    "batch": ("batch", "run"),
    "completion": ("completion", "run"),
    "config": ("packages", "run_config"),
    "doctor": ("doctor", "run"),
    "export": ("sessions", "run_export"),
    "help": ("show_help", "run"),
    "install": ("packages", "run_install"),
    "install-alias": ("alias", "run"),
    "list": ("packages", "run_list"),
    "login": ("packages", "run_login"),
    "logout": ("packages", "run_logout"),
    "mcp": ("mcp", "run"),
    "models": ("models", "run"),
    "remove": ("packages", "run_remove"),
    "schema": ("schema", "run"),
    "serve": ("serve", "run"),
    "sessions": ("sessions", "run"),
    "settings": ("settings", "run"),
    "telemetry": ("telemetry", "run"),
    "trust": ("trust", "run"),
    "uninstall": ("packages", "run_remove"),
    "update": ("packages", "run_update"),
    "view": ("view", "run"),
    "web": ("web", "run"),
}
# Words of pi that are only translated.
_TRANSLATED = ("login", "logout")
# Prompts often begin with one of these or with a similar word.
_COMMON_WORDS = ("config", "install", "list", "remove", "uninstall", "update")
_ALIKE = 0.82


def names() -> tuple[str, ...]:
    """Return the subcommands of Ludolf, without `help` and those for users of pi only."""
    return tuple(name for name in MODULES if name not in (*_TRANSLATED, "help"))


def refuses_slip(word: str, *, alone: bool) -> bool:
    """Report a misspelt subcommand; return whether it must not be sent to the model.

    One word alone is hardly a prompt. Further words may make it one, so there is only a warning.
    """
    from ludolf.base.near import nearest

    suggested = tuple(name for name in names() if name not in _COMMON_WORDS)
    name = nearest(word, suggested, _ALIKE)
    if name is None:
        return False
    meant = f"Did you mean `ludolf {name}`?"
    if alone:
        text = f'Unknown command "{word}". {meant} To send it as a prompt: ludolf -p {word}'
        sys.stderr.write(f"Error: {text}\n")
    else:
        sys.stderr.write(f'Warning: "{word}" is sent to the model as a message. {meant}\n')
    return alone


def with_default(parser: "ArgumentParser", words: Sequence[str], default: str) -> list[str]:
    """Insert the default command if `words` begin with an option or argument of it."""
    options = parser._option_string_actions
    commands: dict[str, ArgumentParser] = {}
    for action in parser._actions:
        if isinstance(action.choices, dict):
            commands.update(action.choices)
    at = 0
    while at < len(words) and words[at].partition("=")[0] in options:
        flag, equals, _ = words[at].partition("=")
        at += 2 if options[flag].nargs is None and not equals else 1
    if at >= len(words) or words[at] in commands or _is_slip(words[at], tuple(commands)):
        return list(words)
    if not words[at].startswith("-") and not commands[default]._get_positional_actions():
        return list(words)
    return [*words[:at], default, *words[at:]]


def _is_slip(word: str, names: Sequence[str]) -> bool:
    from difflib import get_close_matches

    return bool(get_close_matches(word, names, 1, _ALIKE))


def run(name: str, words: Sequence[str]) -> int:
    """Run `ludolf NAME WORDS`; returns the exit code.

    Raises:
        LudolfError: the command failed; the text is for the user.
    """
    module, function = MODULES[name]
    act = getattr(import_module(f"ludolf.cli.subcommands.{module}"), function)
    # From here on Ctrl-C raises: locks are released, and the terminal gets its settings back.
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code: int = act(words)
    except SystemExit as end:  # of argparse, after an error or a help text
        return int(end.code or 0)
    return code
