"""Words of pi's command line for packages, updates and logins, which must not prompt the model."""

import sys
from collections.abc import Sequence

from ludolf.base import CommandError
from ludolf.cli.terminal import say

REFUSED = (
    "Ludolf does not install packages. For a Python extension, put the file into "
    "~/.pi/agent/extensions, pass it with -e, or install a Python package with the entry point "
    '"ludolf.extensions". Put skills and prompt templates into ~/.pi/agent/skills and '
    "~/.pi/agent/prompts."
)
NO_CONFIG = (
    "Ludolf has no menu for the resources of packages. Edit ~/.pi/agent/settings.json, or move "
    "extensions, skills and prompt templates into and out of their folders in ~/.pi/agent."
)
NO_UPDATE = (
    "Ludolf does not update itself. Use the program that installed it: `uv tool upgrade ludolf`, "
    "`pipx upgrade ludolf` or `pip install --upgrade`. `ludolf models refresh` fetches new models."
)
NONE_INSTALLED = "No packages installed."
_HELP = ("-h", "--help")


def run(words: Sequence[str]) -> int:
    """Refuse to install and remove packages.

    Raises:
        CommandError: the text names the alternatives.
    """
    return _refuse(words, REFUSED)


def run_list(words: Sequence[str]) -> int:
    """Run `ludolf list`: report that no packages of pi are installed.

    Raises:
        CommandError: there are further words, so that this may be a prompt without quotes.
    """
    if [word for word in words if not word.startswith("-")]:
        raise CommandError(
            "`ludolf list` lists the packages of pi and takes no words. To send a prompt: "
            f'ludolf -p "list {" ".join(words)}"'
        )
    say(f"Usage: ludolf list\n{REFUSED}" if set(_HELP) & set(words) else NONE_INSTALLED)
    return 0


def run_config(words: Sequence[str]) -> int:
    """Refuse pi's menu of resources.

    Raises:
        CommandError: the text names the alternatives.
    """
    return _refuse(words, NO_CONFIG)


def run_update(words: Sequence[str]) -> int:
    """Run `ludolf update --models`; refuse the other updates as pi does where it cannot update.

    Raises:
        LudolfError: the models cannot be fetched, or something else is to be updated.
    """
    if "--models" in words:
        from ludolf.cli.subcommands.models import run_update as refresh

        return refresh(words)
    if "--extensions" in words:
        say(NONE_INSTALLED)
        return 0
    names = [word for word in words if not word.startswith("-")]
    return _refuse(words, NO_UPDATE if set(names) <= {"self", "pi"} else REFUSED)


def run_login(words: Sequence[str]) -> int:
    """Run `ludolf auth login`.

    Raises:
        LudolfError: the login failed.
    """
    return _auth("login", words)


def run_logout(words: Sequence[str]) -> int:
    """Run `ludolf auth logout`.

    Raises:
        LudolfError: the credentials cannot be removed.
    """
    return _auth("logout", words)


def _auth(command: str, words: Sequence[str]) -> int:
    from ludolf.cli.subcommands.auth import run as run_auth

    sys.stderr.write(f"Running `ludolf auth {command}`.\n")
    return run_auth([command, *words])


def _refuse(words: Sequence[str], text: str) -> int:
    if not set(_HELP) & set(words):
        raise CommandError(text)
    say(text)
    return 0
