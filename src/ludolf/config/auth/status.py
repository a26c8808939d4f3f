"""Sources of the credentials of each provider, without the credentials."""

from collections.abc import Sequence
from typing import Literal

from ludolf.ai.models import BUILT_IN_PROVIDER
from ludolf.base import Value
from ludolf.config.auth.keyring import Keyring
from ludolf.config.auth.keys import KEY_VARIABLES, ApiKey, OAuth
from ludolf.config.models.registry import LOCAL, ModelRegistry

CredentialOrigin = Literal[
    "command line", "stored", "models.json", "environment", "extension", "none"
]
_ORIGINS: dict[str | None, CredentialOrigin] = {
    "runtime": "command line",
    "stored": "stored",
    "configured": "models.json",
    "environment": "environment",
    None: "none",
}


class CredentialStatus(Value):
    """The source of a provider's credentials; contains no secret.

    `variables` are names; `expires` is the end of a login in Unix milliseconds.
    `usable`: a request could be sent now, or after the login is renewed.
    """

    provider: str
    origin: CredentialOrigin
    usable: bool
    kind: Literal["api_key", "oauth", "identity"] | None = None
    variables: tuple[str, ...] = ()
    expires: int | None = None


def auth_status(
    registry: ModelRegistry, providers: Sequence[str] = ()
) -> tuple[CredentialStatus, ...]:
    """Return the status of these providers, or of all that have credentials."""
    if providers:
        return tuple(_status(registry, name) for name in providers)
    names = dict.fromkeys((*registry.keyring.stored(), *KEY_VARIABLES, *registry.providers()))
    statuses = (_status(registry, name) for name in names if name != BUILT_IN_PROVIDER)
    return tuple(one for one in statuses if one.origin != "none")


def _status(registry: ModelRegistry, provider: str) -> CredentialStatus:
    keyring = registry.keyring
    origin = _ORIGINS[registry.origin(provider)]
    # Local servers need no key, so a running one does not imply credentials.
    if origin == "none" and provider not in LOCAL and registry.admits_provider(provider):
        origin = "extension"
    if origin == "stored":
        return _stored(keyring, provider)
    variables = keyring.variables(provider) if origin == "environment" else ()
    has_key = origin != "none" and (not variables or variables[0] in KEY_VARIABLES[provider])
    kind: Literal["api_key", "identity"] = "api_key" if has_key else "identity"
    return CredentialStatus(
        provider=provider,
        origin=origin,
        usable=origin != "none",
        kind=None if origin == "none" else kind,
        variables=variables,
    )


def _stored(keyring: Keyring, provider: str) -> CredentialStatus:
    credential = keyring.stored()[provider]
    if isinstance(credential, OAuth):
        ends = credential.expires < 2**53 - 1
        return CredentialStatus(
            provider=provider,
            origin="stored",
            kind="oauth",
            usable=not credential.expired or bool(credential.refresh),
            expires=int(credential.expires) if ends else None,
        )
    return CredentialStatus(
        provider=provider, origin="stored", kind="api_key", usable=_resolves(keyring, credential)
    )


def _resolves(keyring: Keyring, credential: ApiKey) -> bool:
    if credential.key is None:
        return bool(credential.env)
    return keyring.resolver.can_resolve(credential.key, credential.env)
