"""`ludolf auth`: log in and out, see what is there, hand a credential to other programs."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from ludolf.ai.http.oauth import Method
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
from ludolf.config.auth.status import AuthStatus, auth_status
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.settings.file_permissions import exposure
from ludolf.config.settings.home import find_home
from ludolf.config.settings.settings import SettingsFiles

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

USAGE_ERROR = 2
ABOUT = "Log in and out, see what is there, hand a credential to other programs."
NOTHING = "There are no credentials. `ludolf auth login PROVIDER` stores some.\n"
NEVER_AN_ARGUMENT = (
    "A key is never an argument, since others could see it in the list of processes: "
    "type it when asked, or give it on stdin with --api-key-stdin.\n"
)


def run(words: Sequence[str]) -> int:
    """What `ludolf auth WORDS` asks for; returns the exit code.

    Raises:
        LudolfError: it failed; the text is for the user.
    """
    parser = _parser()
    try:
        arguments, rest = parser.parse_known_args(list(words))
    except SystemExit as end:
        return int(end.code or 0)
    if rest:
        # Only names of options are repeated: the rest may be a key that somebody put there.
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
        made = actions.add_parser(name, help=help, description=help, allow_abbrev=False)
        made.set_defaults(run=action)
        return made

    login = add("login", "store a key, or log in", _login)
    login.add_argument("provider", nargs="?", metavar="PROVIDER", help="default: ask for it")
    login.add_argument(
        "--method", choices=("api-key", "oauth", "device"), help="default: the provider's usual one"
    )
    login.add_argument("--api-key-stdin", action="store_true", help="read the key from stdin")
    login.add_argument("--domain", help="the GitHub server of an enterprise (github-copilot)")
    logout = add("logout", "remove what is stored", _logout)
    which = logout.add_mutually_exclusive_group(required=True)
    which.add_argument("provider", nargs="?", metavar="PROVIDER")
    which.add_argument("--all", action="store_true", help="everything that is stored")
    status = add("status", "show where credentials come from, never themselves", _status)
    status.add_argument("provider", nargs="?", metavar="PROVIDER")
    status.add_argument("--json", action="store_true", help="as JSON, for scripts")
    checks = add("check", "say ready, not_ready or invalid (exit code 0, 1 or 2)", check)
    checks.add_argument("--json", action="store_true", help="as JSON, for scripts")
    checks.add_argument("--credentials", action="store_true", help="show the credential too")
    checks.add_argument("--no-refresh", action="store_true", help="renew nothing")
    key = add("print-api-key", "write an API key to stdout", print_api_key)
    bearer = add("print-bearer-token", "write the token of a login to stdout", print_bearer_token)
    bearer.add_argument("--min-expiry", default="30m", help="how long it must last, as 30m or 1h")
    for each in (checks, key, bearer):
        each.add_argument("--provider", help="whose credential")
        each.add_argument("--model", help="the credential of its provider: PROVIDER/ID or an id")
    return parser


# ---------------------------------------------------------------- login


def _login(registry: ModelRegistry, arguments: "Namespace") -> int:
    provider: str | None = arguments.provider
    if provider is None:
        provider = _asked_provider(registry)
    names = login_providers(registry)
    if provider not in names:
        raise CommandError(f"There is no provider of this name. Known: {', '.join(sorted(names))}")
    asked = "api-key" if arguments.api_key_stdin else arguments.method
    if arguments.api_key_stdin and arguments.method not in (None, "api-key"):
        raise CommandError(f"--api-key-stdin does not go with --method {arguments.method}")
    way = choose_way(registry, provider, asked)
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


def _log_in(registry: ModelRegistry, provider: str, way: Method, domain: str | None) -> None:
    flow = flow_for(registry, provider)
    assert flow is not None
    if domain and flow.kind != "copilot":
        raise CommandError("--domain is for github-copilot only")
    asker = _Terminal()
    credential = asyncio.run(log_in(flow, way, asker, domain=domain, host=callback_host()))
    registry.keyring.store_login(provider, credential)


def _asked_provider(registry: ModelRegistry) -> str:
    if not sys.stdin.isatty():
        raise CommandError("Name the provider: ludolf auth login PROVIDER")
    for name, title in login_providers(registry).items():
        sys.stderr.write(f"  {name}" + (f"  ({title})" if title != name else "") + "\n")
    named = _line("Provider: ")
    if not named:
        raise CommandError("No provider was named")
    return named


def _given_key(name: str, *, from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.read()
    if not sys.stdin.isatty():
        raise CommandError("stdin is no terminal: give the key there with --api-key-stdin")
    from getpass import getpass

    try:
        return getpass(f"API key for {name}: ")
    except EOFError:
        sys.stderr.write("\n")
        raise CommandError("No key was given") from None


def _line(question: str) -> str:
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


class _Terminal:
    """Asks on stderr, so that stdout stays free; reads stdin, be it a terminal or not."""

    def show(self, url: str, instructions: str, *, launch: str | None = None) -> None:
        sys.stderr.write(f"Open this address:\n\n  {launch or url}\n\n{instructions}\n")
        sys.stderr.flush()

    async def paste(self, question: str, example: str) -> str | None:
        import threading

        loop = asyncio.get_running_loop()
        said: asyncio.Future[str] = loop.create_future()

        def take(line: str) -> None:
            if not said.done():
                said.set_result(line)

        def read() -> None:
            line = _line(f"{question} ")
            with suppress(RuntimeError):  # the browser was faster, and the loop is closed
                loop.call_soon_threadsafe(take, line)

        # A thread that may wait for a line for ever must not keep the program from ending.
        threading.Thread(target=read, daemon=True).start()
        return await said or None


# ---------------------------------------------------------------- logout


def _logout(registry: ModelRegistry, arguments: "Namespace") -> int:
    keyring = registry.keyring
    wanted = keyring.entries() if arguments.all else (arguments.provider,)
    removed = keyring.forget(*wanted)
    for provider in removed:
        sys.stderr.write(f"Removed what was stored for {provider}.\n")
    if not removed:
        sys.stderr.write("Nothing was stored.\n")
    for status in auth_status(registry, removed or (() if arguments.all else wanted)):
        if status.origin != "none":
            sys.stderr.write(f"{status.provider} still has: {_words(status)}\n")
    return 0 if removed or arguments.all else 1


# ---------------------------------------------------------------- status


def _status(registry: ModelRegistry, arguments: "Namespace") -> int:
    asked = arguments.provider
    if asked and asked not in (*registry.keyring.stored(), *login_providers(registry)):
        raise CommandError("There is no provider of this name. See: ludolf models list --all")
    found = auth_status(registry, (asked,) if asked else ())
    keyring = registry.keyring
    warnings = (*keyring.warnings, *keyring.resolver.warnings)
    sys.stderr.writelines(f"Warning: {text}\n" for text in warnings)
    if arguments.json:
        sys.stdout.write(dumps({"providers": found}).decode() + "\n")
    elif found:
        width = max(len(status.provider) for status in found)
        for status in found:
            sys.stdout.write(f"{status.provider.ljust(width)}  {_words(status)}\n")
    else:
        sys.stderr.write(NOTHING)
    return 0 if any(status.usable for status in found) else 1


def _words(status: AuthStatus) -> str:
    match status.origin, status.kind:
        case "stored", "oauth":
            return f"stored login{_until(status)}"
        case "stored", _:
            return "stored API key" + ("" if status.usable else ", whose variable is not set")
        case "environment", _:
            plural = "s" if len(status.variables) > 1 else ""
            return f"environment variable{plural} {', '.join(status.variables)}"
        case "models.json", _:
            return "API key in models.json"
        case _:
            return "nothing"


def _until(status: AuthStatus) -> str:
    if status.expires is None:
        return ""
    if status.expires > now_ms():
        return f", until {iso_time(status.expires)}"
    return ", renewed at the next use" if status.usable else ", ended: log in again"


if TYPE_CHECKING:

    def _proof(terminal: _Terminal) -> Asker:
        return terminal
