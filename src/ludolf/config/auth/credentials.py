"""Login methods of each provider, and checks of API keys."""

from typing import Literal

from ludolf.ai.http.oauth import Flow
from ludolf.ai.models import BUILT_IN_PROVIDER
from ludolf.base import CommandError
from ludolf.config.auth.keys import KEY_VARIABLES
from ludolf.config.auth.oauth import RADIUS, flow_names, flow_of
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.models.routes import ROUTES
from ludolf.config.settings.value_syntax import literal

Way = Literal["api-key", "oauth", "device"]
# These providers do not issue API keys; login is the only method.
_WITHOUT_KEYS = frozenset(("openai-codex",))


def nameless(registry: ModelRegistry) -> tuple[str, ...]:
    """Return the providers that have credentials but no known model."""
    ready = (name for name in ROUTES if registry.admits_provider(name))
    return tuple(name for name in ready if not registry.of_provider(name))


def gateway_of(registry: ModelRegistry, provider: str) -> str | None:
    """Return the address of a provider that models.json declares as a Radius gateway."""
    entry = registry.entry(provider)
    return entry.base_url if entry is not None and entry.oauth == RADIUS else None


def flow_for(registry: ModelRegistry, provider: str) -> Flow | None:
    """Return the login flow of a provider; None if it has none.

    Raises:
        ConfigError: the file of private identity servers cannot be used.
    """
    return flow_of(provider, gateway_of(registry, provider), registry.keyring.environ)


def login_providers(registry: ModelRegistry) -> dict[str, str]:
    """Return ids and names of all providers, those with a login flow first.

    Raises:
        ConfigError: as above.
    """
    names = dict.fromkeys(
        (
            *flow_names(registry.keyring.environ),
            *registry.logins,
            *KEY_VARIABLES,
            *registry.providers(),
        )
    )
    names.pop(BUILT_IN_PROVIDER, None)
    labels = {}
    for name in names:
        login = registry.logins.get(name) or flow_for(registry, name)
        labels[name] = login.name if login is not None else name
    return labels


def login_methods(registry: ModelRegistry, provider: str) -> tuple[Way, ...]:
    """Return the login methods of a provider, the default first.

    Raises:
        ConfigError: as above.
    """
    login = registry.logins.get(provider)
    if login is not None:
        takes_key = login.api_key is not None or provider in KEY_VARIABLES
        return ("oauth", "api-key") if takes_key else ("oauth",)
    flow = flow_for(registry, provider)
    ways: tuple[Way, ...] = flow.methods if flow is not None else ()
    return ways if provider in _WITHOUT_KEYS else (*ways, "api-key")


def choose_way(registry: ModelRegistry, provider: str, asked: str | None) -> Way:
    """Return the requested login method, or the default one of the provider.

    Raises:
        CommandError: the provider does not have this method.
        ConfigError: as above.
    """
    ways = login_methods(registry, provider)
    chosen = next((way for way in ways if asked in (None, way)), None)
    if chosen is None:
        raise CommandError(f"{provider} has no login method {asked}. It has: {', '.join(ways)}")
    return chosen


def checked_key(key: str) -> str:
    """Return a key in the value syntax of auth.json.

    Raises:
        CommandError: the key is empty or not valid in a header; the text does not contain it.
    """
    key = key.strip()
    if not key:
        raise CommandError("The API key is empty")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise CommandError("Not a valid API key: it contains spaces or non-ASCII characters")
    return literal(key)
