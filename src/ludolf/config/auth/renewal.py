"""Refresh stored tokens before they expire, under the lock that pi uses."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from ludolf.ai.errors import ProviderError
from ludolf.ai.http.oauth import Flow, LoginError
from ludolf.ai.http.oauth import renew as ask_for_tokens
from ludolf.ai.http.transport import Transport
from ludolf.ai.secrets import redact
from ludolf.base import ConfigError, now_ms
from ludolf.config.auth.keyring import LEAST_LIFE_MS, Keyring
from ludolf.config.auth.oauth import flow_of
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.settings.files import read_object, write_object
from ludolf.config.settings.lock import auth_lock

T = TypeVar("T")
LIMIT_SECONDS = 15.0
# Returns the changed fields of a stored credential; None changes nothing.
_Fresh = Callable[[dict[str, Any]], Awaitable[dict[str, Any] | None]]


async def renew(
    keyring: Keyring, provider: str, gateway: str | None, *, least_ms: float = LEAST_LIFE_MS
) -> None:
    """Refresh the stored token if it expires within `least_ms`, and save it.

    `gateway` is the address of a Radius gateway. Does nothing if another process renewed the token
    or logged out before the lock was acquired.

    Raises:
        ProviderError: the token could not be renewed; the old one is still stored.
    """
    try:
        flow = flow_of(provider, gateway, keyring.environ)
        if flow is None:
            raise LoginError("logins of this provider cannot be renewed")
        await _renew_stored(
            keyring, provider, least_ms, lambda stored: _fresh(flow, stored, keyring.environ)
        )
    except (LoginError, ProviderError, ConfigError, OSError) as error:
        raise ProviderError(failure(provider, error), kind="auth") from None


async def renew_by_extension(registry: ModelRegistry, provider: str) -> None:
    """Refresh a stored token that has expired by the code of an extension, and save it.

    Then note in the registry what requests send with it.

    Raises:
        ProviderError: as above.
    """
    login, keyring = registry.logins.get(provider), registry.keyring
    if login is None:
        return

    async def fresh(stored: dict[str, Any]) -> dict[str, Any]:
        return await _limited(login.renew(stored))

    try:
        await _renew_stored(keyring, provider, 0, fresh)
        credential = registry.logins.stored(provider)
        stored = read_object(keyring.path).get(provider)
        if credential is not None and isinstance(stored, dict):
            registry.logins.grant(provider, credential, await _limited(login.access(stored)))
    except (LoginError, ConfigError, OSError) as error:
        text = redact(str(error), [value for _, value in keyring.credentials()], keyring.environ)
        raise ProviderError(failure(provider, LoginError(text)), kind="auth") from None


async def _renew_stored(keyring: Keyring, provider: str, least_ms: float, fresh: _Fresh) -> None:
    async with auth_lock(keyring.path) as lock:
        stored = read_object(keyring.path).get(provider)
        if not isinstance(stored, dict) or not _ends_soon(stored, least_ms):
            return
        changed = await fresh(stored)
        if changed is None:
            return
        # No `await` from here on: a cancelled task must not lose the new token.
        lock.check()
        everything = read_object(keyring.path)
        everything[provider] = {**stored, **changed}
        write_object(keyring.path, everything)


def failure(provider: str, error: Exception) -> str:
    """Return the error for a login that could not be renewed."""
    return (
        f'Authentication failed for "{provider}": the login could not be renewed '
        f'({error}). Run "ludolf auth login {provider}" to log in again.'
    )


async def _fresh(
    flow: Flow, stored: dict[str, Any], environ: Mapping[str, str]
) -> dict[str, Any] | None:
    http = Transport(environ)
    try:
        return await _limited(ask_for_tokens(http, flow, stored))
    except (LoginError, ProviderError) as error:
        secrets = [str(stored.get(name) or "") for name in ("access", "refresh")]
        raise LoginError(redact(str(error), secrets, environ)) from None
    finally:
        await http.close()


async def _limited(work: Awaitable[T]) -> T:
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            return await work
    except TimeoutError:
        raise LoginError(f"no answer within {LIMIT_SECONDS:.0f} s") from None


def _ends_soon(stored: dict[str, Any], least_ms: float) -> bool:
    expires = stored.get("expires")
    if stored.get("type") != "oauth" or not isinstance(expires, int | float):
        return False
    return expires <= now_ms() + least_ms
