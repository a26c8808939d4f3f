"""`ludolf auth`: log in and out, show credentials, print them for other programs."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ludolf.ai.http.oauth import OAuthMethod
from ludolf.ai.http.oauth_login import Asker, log_in
from ludolf.base import CommandError, dumps, iso_time, now_ms
from ludolf.cli.subcommands.auth_check import check, print_api_key, print_bearer_token
from ludolf.config.auth.credentials import (
    checked_key,
    choose_way,
    flow_for,
    login_providers,
    nameless,
)
from ludolf.config.auth.keyring import Keyring
from ludolf.config.auth.oauth import callback_host
from ludolf.config.auth.status import CredentialStatus, auth_status
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.settings.file_permissions import exposure
from ludolf.config.settings.home import find_home
from ludolf.config.settings.settings import SettingsFiles

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

USAGE_ERROR = 2
ABOUT = "Log in and out, show the status of credentials, print them for other programs."
NOTHING = "No credentials found. Store some with `ludolf auth login PROVIDER`.\n"
NEVER_AN_ARGUMENT = (
    "A key is never an argument, because other users could read it in the process list: "
    "type it when asked, or pipe it in with --api-key-stdin.\n"
)


def run(words: Sequence[str]) -> int:
    """Run `ludolf auth WORDS`; returns the exit code.

    Raises:
        LudolfError: the command failed; the text is for the user.
    """
    parser = _parser()
    try:
        arguments, rest = parser.parse_known_args(list(words))
    except SystemExit as end:
        return int(end.code or 0)
    if rest:
        # Print only the names of options: the other arguments may contain a key.
        flags = ", ".join(word.partition("=")[0] for word in rest if word.startswith("--"))
        sys.stderr.write(f"Error: unknown {'option ' + flags if flags else 'argument'}\n")
        if arguments.run is _login:
            sys.stderr.write(NEVER_AN_ARGUMENT)
        return USAGE_ERROR
    home = find_home()
    SettingsFiles(home)  # sets the proxy, which logins use too
    registry = ModelRegistry(home.models_file, Keyring(home.auth_file))
    action: Callable[[ModelRegistry, Namespace], int] = arguments.run
    return action(registry, arguments)


def _parser() -> "ArgumentParser":
    from argparse import ArgumentParser

    parser = ArgumentParser(prog="ludolf auth", allow_abbrev=False, description=ABOUT)
    parser.set_defaults(run=_status, provider=None, json=False)
    actions = parser.add_subparsers(metavar="COMMAND", help="default: status")

    def add(name: str, help: str, action: object) -> ArgumentParser:
        command = actions.add_parser(name, help=help, description=help, allow_abbrev=False)
        command.set_defaults(run=action)
        return command

    login = add("login", "store an API key, or log in", _login)
    login.add_argument("provider", nargs="?", metavar="PROVIDER", help="default: ask for it")
    login.add_argument(
        "--method", choices=("api-key", "oauth", "device"), help="default: the provider's usual one"
    )
    login.add_argument("--api-key-stdin", action="store_true", help="read the key from stdin")
    login.add_argument("--domain", help="GitHub Enterprise domain (github-copilot only)")
    logout = add("logout", "remove stored credentials", _logout)
    which = logout.add_mutually_exclusive_group(required=True)
    which.add_argument("provider", nargs="?", metavar="PROVIDER")
    which.add_argument("--all", action="store_true", help="remove all stored credentials")
    status = add("status", "show where credentials come from, without their values", _status)
    status.add_argument("provider", nargs="?", metavar="PROVIDER")
    status.add_argument("--json", action="store_true", help="print JSON, for scripts")
    checks = add("check", "print ready, not_ready or invalid (exit code 0, 1 or 2)", check)
    checks.add_argument("--json", action="store_true", help="print JSON, for scripts")
    checks.add_argument("--credentials", action="store_true", help="print the credential too")
    checks.add_argument("--no-refresh", action="store_true", help="do not refresh tokens")
    key = add("print-api-key", "print an API key on stdout", print_api_key)
    bearer = add("print-bearer-token", "print the token of a login on stdout", print_bearer_token)
    bearer.add_argument(
        "--min-expiry", default="30m", help="minimum remaining lifetime, such as 30m or 1h"
    )
    for each in (checks, key, bearer):
        each.add_argument("--provider", help="provider of the credential")
        each.add_argument("--model", help="model whose provider is meant: PROVIDER/ID or an id")
    return parser


# ---------------------------------------------------------------- login


def _login(registry: ModelRegistry, arguments: "Namespace") -> int:
    provider: str | None = arguments.provider
    if provider is None:
        provider = _asked_provider(registry)
    names = login_providers(registry)
    if provider not in names:
        raise CommandError(f"Unknown provider. Choose one of: {', '.join(sorted(names))}")
    method = "api-key" if arguments.api_key_stdin else arguments.method
    if arguments.api_key_stdin and arguments.method not in (None, "api-key"):
        raise CommandError(f"--api-key-stdin cannot be combined with --method {arguments.method}")
    way = choose_way(registry, provider, method)
    if way == "api-key":
        key = _given_key(names[provider], from_stdin=arguments.api_key_stdin)
        registry.keyring.store(provider, checked_key(key))
    else:
        _log_in(registry, provider, way, arguments.domain)
    path = registry.keyring.path
    sys.stderr.write(f"Logged in to {names[provider]}. Stored in {path}\n")
    if provider in nameless(registry):
        from ludolf.cli.help import NAMELESS

        sys.stderr.write(NAMELESS.format(provider=provider))
    exposed = exposure(path)
    if exposed is not None:
        sys.stderr.write(f"{exposed}\n")
    return 0


def _log_in(registry: ModelRegistry, provider: str, way: OAuthMethod, domain: str | None) -> None:
    flow = flow_for(registry, provider)
    assert flow is not None
    if domain and flow.kind != "copilot":
        raise CommandError("--domain is for github-copilot only")
    asker = _Terminal()
    credential = asyncio.run(log_in(flow, way, asker, domain=domain, host=callback_host()))
    registry.keyring.store_login(provider, credential)


def _asked_provider(registry: ModelRegistry) -> str:
    if not sys.stdin.isatty():
        raise CommandError("The provider is missing. Usage: ludolf auth login PROVIDER")
    for name, title in login_providers(registry).items():
        sys.stderr.write(f"  {name}" + (f"  ({title})" if title != name else "") + "\n")
    provider = _line("Provider: ")
    if not provider:
        raise CommandError("No provider was entered")
    return provider


def _given_key(name: str, *, from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.read()
    if not sys.stdin.isatty():
        raise CommandError("stdin is not a terminal; pipe the key in with --api-key-stdin")
    from getpass import getpass

    try:
        return getpass(f"API key for {name}: ")
    except EOFError:
        sys.stderr.write("\n")
        raise CommandError("No key was entered") from None


def _line(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


class _Terminal:
    """Asks the user of a login on stderr and reads answers from stdin, terminal or not."""

    def show(self, url: str, instructions: str, *, launch: str | None = None) -> None:
        sys.stderr.write(f"Open this address:\n\n  {launch or url}\n\n{instructions}\n")
        sys.stderr.flush()

    async def paste(self, question: str, example: str) -> str | None:
        import threading

        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()

        def take(line: str) -> None:
            if not answer.done():
                answer.set_result(line)

        def read() -> None:
            line = _line(f"{question} ")
            with suppress(RuntimeError):  # the browser answered first, and the loop is closed
                loop.call_soon_threadsafe(take, line)

        # The thread may wait for a line forever; as a daemon it does not block the exit.
        threading.Thread(target=read, daemon=True).start()
        return await answer or None


# ---------------------------------------------------------------- logout


def _logout(registry: ModelRegistry, arguments: "Namespace") -> int:
    keyring = registry.keyring
    providers = keyring.entries() if arguments.all else (arguments.provider,)
    removed = keyring.forget(*providers)
    for provider in removed:
        sys.stderr.write(f"Removed the stored credentials of {provider}.\n")
    if not removed:
        sys.stderr.write("No stored credentials to remove.\n")
    for status in auth_status(registry, removed or (() if arguments.all else providers)):
        if status.origin != "none":
            sys.stderr.write(f"{status.provider} still has: {_words(status)}\n")
    return 0 if removed or arguments.all else 1


# ---------------------------------------------------------------- status


def _status(registry: ModelRegistry, arguments: "Namespace") -> int:
    provider = arguments.provider
    if provider and provider not in (*registry.keyring.stored(), *login_providers(registry)):
        raise CommandError("Unknown provider. See: ludolf models list --all")
    statuses = auth_status(registry, (provider,) if provider else ())
    keyring = registry.keyring
    warnings = (*keyring.warnings, *keyring.resolver.warnings)
    sys.stderr.writelines(f"Warning: {text}\n" for text in warnings)
    if arguments.json:
        sys.stdout.write(dumps({"providers": statuses}).decode() + "\n")
    elif statuses:
        width = max(len(status.provider) for status in statuses)
        for status in statuses:
            sys.stdout.write(f"{status.provider.ljust(width)}  {_words(status)}\n")
    else:
        sys.stderr.write(NOTHING)
    return 0 if any(status.usable for status in statuses) else 1


def _words(status: CredentialStatus) -> str:
    match status.origin, status.kind:
        case "stored", "oauth":
            return f"stored login{_until(status)}"
        case "stored", _:
            return "stored API key" + ("" if status.usable else " (its variable is not set)")
        case "environment", _:
            plural = "s" if len(status.variables) > 1 else ""
            return f"environment variable{plural} {', '.join(status.variables)}"
        case "models.json", _:
            return "API key in models.json"
        case _:
            return "nothing"


def _until(status: CredentialStatus) -> str:
    if status.expires is None:
        return ""
    if status.expires > now_ms():
        return f", until {iso_time(status.expires)}"
    return ", refreshed on next use" if status.usable else ", expired: log in again"


if TYPE_CHECKING:

    def _proof(terminal: _Terminal) -> Asker:
        return terminal
