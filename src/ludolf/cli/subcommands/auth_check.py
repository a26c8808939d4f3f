"""`ludolf auth check`, `print-api-key` and `print-bearer-token`."""

import asyncio
import re
import sys
from typing import TYPE_CHECKING, Literal

from ludolf.ai.access import Access
from ludolf.ai.models import Model
from ludolf.base import CommandError, LudolfError, Value, dumps
from ludolf.config.auth.credentials import gateway_of, login_providers
from ludolf.config.auth.keyring import LEAST_LIFE_MS
from ludolf.config.auth.keys import OAuth
from ludolf.config.auth.renewal import renew
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.models.selection import choose_model

if TYPE_CHECKING:
    from argparse import Namespace

_CODES = {"ready": 0, "not_ready": 1, "invalid": 2}
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


class _Target(Value):
    provider: str
    model: Model | None = None


def check(registry: ModelRegistry, arguments: "Namespace") -> int:
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
        sys.stdout.write(dumps(verdict).decode() + "\n")
    else:
        sys.stdout.write(f"{verdict.credentials or verdict.status}\n")
    return _CODES[verdict.status]


def print_api_key(registry: ModelRegistry, arguments: "Namespace") -> int:
    """Print the API key of a provider.

    Raises:
        LudolfError: the provider has no key, or has a login instead.
    """
    target = _target(registry, arguments)
    if _login_of(registry, target.provider) is not None:
        text = f"{target.provider} has a login, not an API key: use print-bearer-token"
        raise CommandError(text)
    return _write(_credential(_access(registry, target)), target.provider)


def print_bearer_token(registry: ModelRegistry, arguments: "Namespace") -> int:
    """Print the access token of a provider's login.

    Raises:
        LudolfError: the provider has no login, or its token expires before `--min-expiry`.
    """
    least = max(_milliseconds(arguments.min_expiry), LEAST_LIFE_MS)
    target = _target(registry, arguments)
    provider = target.provider
    if _login_of(registry, provider) is None:
        raise CommandError(f"{provider} has no login. See: ludolf auth status")
    _renew(registry, provider, least)
    if registry.keyring.ends_soon(provider, least):
        raise CommandError(f"The refreshed token of {provider} expires before --min-expiry")
    return _write(_credential(_access(registry, target)), provider)


# ---------------------------------------------------------------- private


def _verdict(registry: ModelRegistry, arguments: "Namespace") -> AuthCheckResult:
    target = _target(registry, arguments)
    provider = target.provider
    if registry.errors:
        raise CommandError("\n".join(registry.errors))
    if provider not in login_providers(registry):
        return AuthCheckResult(status="not_ready", provider=provider, reason="provider_not_found")
    not_there = AuthCheckResult(
        status="not_ready", provider=provider, reason="credentials_not_configured"
    )
    if not registry.admits_provider(provider):
        return not_there
    login = _login_of(registry, provider)
    access: Access | None = None
    if not arguments.no_refresh:
        if login is not None:
            _renew(registry, provider, LEAST_LIFE_MS)
        access = _access(registry, target)
        if access is None:
            return not_there
    ready = AuthCheckResult(
        status="ready", provider=provider, auth_type="oauth" if login else "api_key"
    )
    if not arguments.credentials:
        return ready
    credential = login.access if login and arguments.no_refresh else None
    credential = credential or _credential(access or _access(registry, target))
    if credential is None:
        return AuthCheckResult(
            status="not_ready", provider=provider, reason="credential_not_available"
        )
    return ready.replace(credentials=credential)


def _target(registry: ModelRegistry, arguments: "Namespace") -> _Target:
    provider = (arguments.provider or "").strip()
    if arguments.model:
        model = choose_model(registry, arguments.model, provider or None).model
        return _Target(provider=model.provider, model=model)
    if not provider:
        raise CommandError("Pass --provider or --model")
    return _Target(provider=provider)


def _login_of(registry: ModelRegistry, provider: str) -> OAuth | None:
    credential = registry.keyring.stored().get(provider)
    return credential if isinstance(credential, OAuth) else None


def _renew(registry: ModelRegistry, provider: str, least: float) -> None:
    if registry.keyring.ends_soon(provider, least):
        gateway = gateway_of(registry, provider)
        asyncio.run(renew(registry.keyring, provider, gateway, least_ms=least))


def _access(registry: ModelRegistry, target: _Target) -> Access | None:
    model = target.model or next(iter(registry.of_provider(target.provider)), None)
    return registry.access(model) if model else registry.keyring.access(target.provider)


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
