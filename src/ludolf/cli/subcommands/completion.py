"""`ludolf completion SHELL`: print a completion script, and the names that it asks for."""

import os
import re
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Callable, Iterable, Sequence

from ludolf.cli.terminal import say

# Other names would need quotes in a shell.
_PLAIN = re.compile(r"[\w./:@+-]+", re.ASCII)
SHELLS = ("bash", "zsh", "fish")


def run(words: Sequence[str]) -> int:
    """Run `ludolf completion WORDS`; returns the exit code."""
    parser = ArgumentParser(
        prog="ludolf completion",
        allow_abbrev=False,
        description="Print a script that completes the arguments of ludolf. To install it for "
        "bash: ludolf completion bash > ~/.local/share/bash-completion/completions/ludolf",
    )
    parser.add_argument("shell", nargs="?", choices=SHELLS, help="the shell that reads the script")
    parser.add_argument("--names", choices=tuple(_NAMES), help=SUPPRESS)
    parser.add_argument("--values", help=SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.names:
        found = dict.fromkeys(filter(_PLAIN.fullmatch, _NAMES[arguments.names]()))
        say("\n".join(found))
        return 0
    if arguments.values is not None:
        from ludolf.config.settings.reference import find_setting

        say("\n".join(find_setting(arguments.values).choices))
        return 0
    if arguments.shell is None:
        parser.error(f"name a shell: {', '.join(SHELLS)}")
    from ludolf.cli.subcommands.completion_scripts import script

    say(script(arguments.shell))
    return 0


def _models() -> Iterable[str]:
    """Return the models with credentials; local servers are not asked, since that takes time."""
    from ludolf.config.auth.keyring import Keyring
    from ludolf.config.models.registry import ModelRegistry
    from ludolf.config.settings.home import find_home

    home = find_home(None, os.environ)
    registry = ModelRegistry(home.models_file, Keyring(home.auth_file, os.environ))
    return (model.key for model in registry.available())


def _providers() -> Iterable[str]:
    from ludolf.config.auth.credentials import login_providers
    from ludolf.config.auth.keyring import Keyring
    from ludolf.config.models.registry import ModelRegistry
    from ludolf.config.settings.home import find_home

    home = find_home(None, os.environ)
    return login_providers(ModelRegistry(home.models_file, Keyring(home.auth_file, os.environ)))


def _sessions() -> Iterable[str]:
    from ludolf.cli.subcommands.sessions import session_place
    from ludolf.session.finder import session_ids

    return ("last", *session_ids(session_place(None)))


def _settings() -> Iterable[str]:
    from ludolf.config.settings.reference import settings_table

    return (setting.key for setting in settings_table())


def _mcp() -> Iterable[str]:
    from ludolf.config.mcp.files import read_mcp_entries
    from ludolf.config.settings.home import find_home
    from ludolf.config.settings.trust import trusted_settings

    home = find_home(None, os.environ)
    return read_mcp_entries(home, trusted=trusted_settings(home).trusted).entries


_NAMES: dict[str, Callable[[], Iterable[str]]] = {
    "mcp": _mcp,
    "models": _models,
    "providers": _providers,
    "sessions": _sessions,
    "settings": _settings,
}
