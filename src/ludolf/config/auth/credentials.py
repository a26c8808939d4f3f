"""What one can log in to, and in which ways: for people and hosts alike."""

from typing import Literal

from ludolf.ai.builtin.models import PROVIDER as BUILT_IN
from ludolf.ai.http.oauth import Flow
from ludolf.base import CommandError
from ludolf.config.auth.keys import KEY_VARIABLES
from ludolf.config.auth.oauth import RADIUS, flow_names, flow_of
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.models.routes import ROUTES
from ludolf.config.settings.value_syntax import literal

Way = Literal["api-key", "oauth", "device"]
# Nobody can make a key for these: there is only the login.
_WITHOUT_KEYS = frozenset(("openai-codex",))


def nameless(registry: ModelRegistry) -> tuple[str, ...]:
    """The providers that have credentials, but of which no model is known."""
    ready = (name for name in ROUTES if registry.admits_provider(name))
    return tuple(name for name in ready if not registry.of_provider(name))


def gateway_of(registry: ModelRegistry, provider: str) -> str | None:
    """The address of a provider that models.json calls a Radius gateway."""
    entry = registry.entry(provider)
    return entry.base_url if entry is not None and entry.oauth == RADIUS else None


def flow_for(registry: ModelRegistry, provider: str) -> Flow | None:
    """How a provider logs users in, if it does.

    Raises:
        ConfigError: the file of private identity servers cannot be used.
    """
    return flow_of(provider, gateway_of(registry, provider))


def login_providers(registry: ModelRegistry) -> dict[str, str]:
    """The ids of all providers with their names, those with a login of their own first.

    Raises:
        ConfigError: as above.
    """
    names = dict.fromkeys((*flow_names(), *KEY_VARIABLES, *registry.providers()))
    names.pop(BUILT_IN, None)
    found = {}
    for name in names:
        flow = flow_for(registry, name)
        found[name] = flow.name if flow is not None else name
    return found


def login_methods(registry: ModelRegistry, provider: str) -> tuple[Way, ...]:
    """The ways to log in to a provider, the usual one first.

    Raises:
        ConfigError: as above.
    """
    flow = flow_for(registry, provider)
    ways: tuple[Way, ...] = flow.methods if flow is not None else ()
    return ways if provider in _WITHOUT_KEYS else (*ways, "api-key")


def choose_way(registry: ModelRegistry, provider: str, asked: str | None) -> Way:
    """How to log in: as asked, else in the usual way of the provider.

    Raises:
        CommandError: the provider has no such way.
        ConfigError: as above.
    """
    ways = login_methods(registry, provider)
    chosen = next((way for way in ways if asked in (None, way)), None)
    if chosen is None:
        raise CommandError(f"{provider} has no login method {asked}. It has: {', '.join(ways)}")
    return chosen


def checked_key(key: str) -> str:
    """A key as auth.json holds it.

    Raises:
        CommandError: it is empty, or holds what no header may hold; the text does not show it.
    """
    key = key.strip()
    if not key:
        raise CommandError("The API key is empty")
    if not key.isascii() or not key.isprintable() or " " in key:
        raise CommandError("This is no API key: it holds spaces or characters that no key has")
    return literal(key)
