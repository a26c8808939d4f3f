"""`ludolf auth`: log in and out, show credentials, print them for other programs."""

import asyncio
import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from typing import Literal

from ludolf.ai.access import Access
from ludolf.ai.http.oauth import OAuthMethod
from ludolf.ai.http.oauth_login import log_in
from ludolf.ai.models import Model
from ludolf.base import CommandError, LudolfError, Value, iso_time, now_ms
from ludolf.base.near import did_you_mean
from ludolf.cli.subcommands import with_default
from ludolf.cli.terminal import columns, say, say_json, table
from ludolf.cli.terminal_login import TerminalAsker, log_in_by_extension
from ludolf.config.auth.credentials import (
    checked_key,
    choose_way,
    flow_for,
    gateway_of,
    login_providers,
    nameless,
)
from ludolf.config.auth.keyring import LEAST_LIFE_MS, Keyring
from ludolf.config.auth.keys import OAuth
from ludolf.config.auth.oauth import callback_host
from ludolf.config.auth.renewal import renew
from ludolf.config.auth.status import CredentialStatus, auth_status
from ludolf.config.models.registry import LOCAL, ModelRegistry
from ludolf.config.models.selection import choose_model
from ludolf.config.settings.files import exposure
from ludolf.config.settings.home import find_home
from ludolf.config.settings.settings import SettingsFiles

_CODES = {"ready": 0, "not_ready": 1, "invalid": 2}
_COMMON = (
    *("anthropic", "openai", "openai-codex", "google", "openrouter", "github-copilot"),
    *("xai", "deepseek", "mistral", "groq"),
)
_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_DURATION = re.compile(r"(\d+)(ms|s|m|h)")
_BEARER = re.compile(r"bearer +(.+)", re.IGNORECASE)

Reason = Literal[
    "provider_not_found", "credentials_not_configured", "credential_not_available", "invalid_state"
]


class AuthCheckResult(Value):
    """Result of `auth check`, with pi's field names; `credentials` only on request."""

    status: Literal["ready", "not_ready", "invalid"]
    provider: str
    auth_type: Literal["api_key", "oauth"] | None = None
    reason: Reason | None = None
    credentials: str | None = None


def check(registry: ModelRegistry, arguments: Namespace) -> int:
    """Print whether a provider is ready; returns 0, 1 or 2 for ready, not_ready, invalid."""
    name = arguments.provider or arguments.model
    if not name:
        sys.stderr.write("Error: auth check needs --provider or --model\n")
        return 2
    try:
        verdict = _verdict(registry, arguments)
    except LudolfError as error:
        sys.stderr.write(f"{error}\n")
        verdict = AuthCheckResult(status="invalid", provider=name, reason="invalid_state")
    if arguments.json:
        say_json(verdict)
    else:
        sys.stdout.write(f"{verdict.credentials or verdict.status}\n")
    return _CODES[verdict.status]


def print_api_key(registry: ModelRegistry, arguments: Namespace) -> int:
    """Print the API key of a provider.

    Raises:
        LudolfError: the provider has no key, or has a login instead.
    """
    provider, model = _target(registry, arguments)
    if _login_of(registry, provider) is not None:
        raise CommandError(f"{provider} has a login, not an API key: use print-bearer-token")
    return _write(_credential(_access(registry, provider, model)), provider)


def print_bearer_token(registry: ModelRegistry, arguments: Namespace) -> int:
    """Print the access token of a provider's login.

    Raises:
        LudolfError: the provider has no login, or its token expires before `--min-expiry`.
    """
    least = max(_milliseconds(arguments.min_expiry), LEAST_LIFE_MS)
    provider, model = _target(registry, arguments)
    if _login_of(registry, provider) is None:
        raise CommandError(f"{provider} has no login. See: ludolf auth status")
    _renew(registry, provider, least)
    if registry.keyring.ends_soon(provider, least):
        raise CommandError(f"The refreshed token of {provider} expires before --min-expiry")
    return _write(_credential(_access(registry, provider, model)), provider)


# ---------------------------------------------------------------- private


def _verdict(registry: ModelRegistry, arguments: Namespace) -> AuthCheckResult:
    provider, model = _target(registry, arguments)

    def not_ready(reason: Reason) -> AuthCheckResult:
        return AuthCheckResult(status="not_ready", provider=provider, reason=reason)

    if registry.errors:
        raise CommandError("\n".join(registry.errors))
    if provider not in login_providers(registry):
        return not_ready("provider_not_found")
    if not registry.admits_provider(provider):
        return not_ready("credentials_not_configured")
    login = _login_of(registry, provider)
    access: Access | None = None
    if not arguments.no_refresh:
        if login is not None:
            _renew(registry, provider, LEAST_LIFE_MS)
        access = _access(registry, provider, model)
        if access is None:
            return not_ready("credentials_not_configured")
    ready = AuthCheckResult(
        status="ready", provider=provider, auth_type="oauth" if login else "api_key"
    )
    if not arguments.credentials:
        return ready
    credential = login.access if login and arguments.no_refresh else None
    credential = credential or _credential(access or _access(registry, provider, model))
    if credential is None:
        return not_ready("credential_not_available")
    return ready.replace(credentials=credential)


def _target(registry: ModelRegistry, arguments: Namespace) -> tuple[str, Model | None]:
    provider = (arguments.provider or "").strip()
    if arguments.model:
        model = choose_model(registry, arguments.model, provider or None).model
        return model.provider, model
    if not provider:
        raise CommandError("Pass --provider or --model")
    return provider, None


def _login_of(registry: ModelRegistry, provider: str) -> OAuth | None:
    credential = registry.keyring.stored().get(provider)
    return credential if isinstance(credential, OAuth) else None


def _renew(registry: ModelRegistry, provider: str, least: float) -> None:
    if registry.keyring.ends_soon(provider, least):
        gateway = gateway_of(registry, provider)
        asyncio.run(renew(registry.keyring, provider, gateway, least_ms=least))


def _access(registry: ModelRegistry, provider: str, model: Model | None) -> Access | None:
    model = model or next(iter(registry.of_provider(provider)), None)
    return registry.access(model) if model else registry.keyring.access(provider)


def _credential(access: Access | None) -> str | None:
    if access is None or access.key:
        return access.key if access else None
    for name, value in access.headers.items():
        match = _BEARER.fullmatch(value)
        if name.lower() == "authorization" and match:
            return match[1]
    return None


def _milliseconds(duration: str) -> int:
    match = _DURATION.fullmatch(duration.strip().lower())
    if match is None:
        raise CommandError("--min-expiry must be a duration such as 30m or 1h")
    return int(match[1]) * _UNITS[match[2]]


def _write(credential: str | None, provider: str) -> int:
    if credential is None:
        raise CommandError(f"No credentials for {provider}. See: ludolf auth status")
    sys.stdout.write(f"{credential}\n")
    return 0


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
    arguments, rest = parser.parse_known_args(with_default(parser, words, "status"))
    if rest:
        # Print only the names of options: the other arguments may contain a key.
        flags = ", ".join(word.partition("=")[0] for word in rest if word.startswith("--"))
        sys.stderr.write(f"Error: unknown {'option ' + flags if flags else 'argument'}\n")
        if arguments.run is _login:
            sys.stderr.write(NEVER_AN_ARGUMENT)
        return USAGE_ERROR
    home = find_home(None, os.environ)
    SettingsFiles(home)  # sets the proxy, which logins use too
    registry = ModelRegistry(home.models_file, Keyring(home.auth_file, os.environ))
    action: Callable[[ModelRegistry, Namespace], int] = arguments.run
    return action(registry, arguments)


def _parser() -> ArgumentParser:
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


def _login(registry: ModelRegistry, arguments: Namespace) -> int:
    provider: str | None = arguments.provider
    if provider is None:
        provider = _asked_provider(registry)
    names = login_providers(registry)
    if provider not in names:
        name = asyncio.run(log_in_by_extension(provider, arguments.method))
        sys.stderr.write(f"Logged in to {name}. Stored in {registry.keyring.path}\n")
        return 0
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
    if way == "api-key":
        sys.stderr.write(
            f"The key of {names[provider]} was stored in {path}. It was not checked.\n"
        )
    else:
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
    environ, host = os.environ, callback_host(os.environ)
    credential = asyncio.run(log_in(flow, way, TerminalAsker(), environ, domain=domain, host=host))
    registry.keyring.store_login(provider, credential)


def _asked_provider(registry: ModelRegistry) -> str:
    if not sys.stdin.isatty():
        raise CommandError("The provider is missing. Usage: ludolf auth login PROVIDER")
    names = _offered(registry)
    sys.stderr.write(f"Common providers:\n{_in_columns(names[: len(_COMMON)])}")
    sys.stderr.write(f"Others:\n{_in_columns(sorted(names[len(_COMMON) :]))}")
    provider = _line("Provider: ")
    if not provider:
        raise CommandError("No provider was entered")
    return provider


def _offered(registry: ModelRegistry) -> list[str]:
    """Return the providers to log in to, common ones first; local servers need no key."""
    names = dict.fromkeys((*_COMMON, *login_providers(registry)))
    return [name for name in names if name not in LOCAL]


def _in_columns(names: Sequence[str]) -> str:
    """Lay out names in columns, read downwards, for the width of a terminal."""
    wide = max(map(len, names)) + 2
    across = max(1, (columns(80) - 2) // wide)
    down = -(-len(names) // across)
    lines = ("".join(name.ljust(wide) for name in names[row::down]) for row in range(down))
    return "".join(f"  {line.rstrip()}\n" for line in lines)


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


# ---------------------------------------------------------------- logout


def _logout(registry: ModelRegistry, arguments: Namespace) -> int:
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


def _status(registry: ModelRegistry, arguments: Namespace) -> int:
    provider = arguments.provider
    if provider and provider not in (*registry.keyring.stored(), *login_providers(registry)):
        near = did_you_mean(provider, login_providers(registry))
        raise CommandError(f"Unknown provider.{near} See: ludolf models list --all")
    statuses = auth_status(registry, (provider,) if provider else ())
    keyring = registry.keyring
    warnings = (*keyring.warnings, *keyring.resolver.warnings)
    sys.stderr.writelines(f"Warning: {text}\n" for text in warnings)
    if arguments.json:
        say_json({"providers": statuses})
    elif statuses:
        say(table([(status.provider, _words(status)) for status in statuses]))
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
