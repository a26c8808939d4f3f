"""Map API names to providers; provider modules load on first use."""

from typing import Protocol, runtime_checkable

from ludolf.ai.errors import ProviderError
from ludolf.ai.http.transport import Transport
from ludolf.ai.provider import Provider

_MODULES = {
    "anthropic-messages": "providers.anthropic.provider",
    "openai-completions": "providers.openai.completions",
    "openai-responses": "providers.openai.responses",
    "azure-openai-responses": "providers.openai.azure",
    "openai-codex-responses": "providers.openai.codex",
    "google-generative-ai": "providers.google.provider",
    "google-vertex": "providers.google.vertex",
    "bedrock-converse-stream": "providers.bedrock.provider",
    "mistral-conversations": "providers.mistral",
    "pi-messages": "providers.pi_messages",
    "ludolf-gguf": "local.provider",
    "ludolf-offline": "builtin.offline",
    "ludolf-scripted": "builtin.scripted",
}
API_NAMES = tuple(sorted(_MODULES))


@runtime_checkable
class Closing(Protocol):
    """A provider with resources to close."""

    async def close(self) -> None: ...


class Providers:
    """The providers of one engine; each is created once, so that it can cache conversions."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._providers: dict[str, Provider] = {}

    def get(self, api: str) -> Provider:
        """Return the provider of an API.

        Raises:
            ProviderError: the API is unknown.
        """
        if api not in self._providers:
            if api not in _MODULES:
                names = ", ".join(API_NAMES)
                raise ProviderError(f'Unknown API "{api}". Known: {names}.', kind="bad_request")
            from importlib import import_module

            module = import_module(f"ludolf.ai.{_MODULES[api]}")
            self._providers[api] = module.make(self._transport)
        return self._providers[api]

    def register(self, provider: Provider) -> None:
        self._providers[provider.api] = provider

    async def close(self) -> None:
        """Close the providers that hold resources."""
        for provider in self._providers.values():
            if isinstance(provider, Closing):
                await provider.close()
