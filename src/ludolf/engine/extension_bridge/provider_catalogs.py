"""Providers of extensions: their models, their access, and lists that their code fetches."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import structs

from ludolf.agent.scope import Tasks
from ludolf.ai.access import Access
from ludolf.ai.models import Model
from ludolf.base import LudolfError
from ludolf.config.models.file_models import store_path
from ludolf.config.models.models_file import ProviderEntry, make_model
from ludolf.config.models.models_store import stored_entry, write_entry
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.settings.files import read_object
from ludolf.config.settings.home import env
from ludolf.engine.engine import Engine
from ludolf.extensions.provider_accounts import RefreshContext
from ludolf.extensions.providers import Registration

NETWORK_SECONDS = 15.0
# A start waits so long for lists that need no network.
START_SECONDS = 5.0


class ProviderCatalogs:
    """The providers that the extensions of one session registered.

    `start_seconds` is how long the start of a session waits for lists that need no network.
    """

    def __init__(self, engine: Engine, *, start_seconds: float = START_SECONDS) -> None:
        self._engine = engine
        self._start_seconds = start_seconds
        self._tasks = Tasks()
        self._providers: dict[str, Registration] = {}
        self._refreshing: dict[str, asyncio.Task[None]] = {}
        self._is_started = False

    @property
    def _registry(self) -> ModelRegistry:
        return self._engine.models.registry

    # ------------------------------------------------------------ registrations

    def add(self, provider: Registration) -> None:
        """Register a provider.

        Raises:
            ConfigError: the entry is incomplete.
        """
        models, name = self._engine.models, provider.name
        if provider.backend is not None:
            models.providers.register(provider.backend)
        made = self._models(provider)
        self._registry.register(made, self._admission(provider.entry))
        if provider.login is not None:
            self._registry.logins.add(name, provider.login)
        self._providers[name] = provider
        self._renew_current(name)
        if self._is_started:
            self._refresh_soon((name,))

    def _models(self, provider: Registration) -> Sequence[Model]:
        made = _made(provider)
        if made or provider.backend is not None:
            return made
        # As in pi: an address or headers alone change the models that the provider has.
        known = self._registry.of_provider(provider.name)
        return [one.replace(base_url=provider.entry.base_url or one.base_url) for one in known]

    def remove(self, name: str) -> None:
        """Forget a provider and its models."""
        self._providers.pop(name, None)
        self._stop(name)
        self._registry.unregister(name)

    async def close(self) -> None:
        """Stop all refreshes and forget the logins of extensions."""
        await self._tasks.close()
        for name in self._providers:
            self._registry.logins.remove(name)

    # ------------------------------------------------------------ lists

    async def start(self) -> None:
        """Use stored lists and logins; then fetch new lists, if a host may wait for them."""
        self._is_started = True
        await self._use_stored(tuple(self._providers))
        self._refresh_soon(tuple(self._providers))

    async def after_login(self, provider: str) -> None:
        """Adapt the models of a provider to its stored login, or to a logout."""
        if provider in self._providers:
            await self._use_stored((provider,))
            self._refresh_soon((provider,))

    async def _use_stored(self, names: Sequence[str]) -> None:
        begun = [self._begin(name, network=False) for name in self._refreshable(names)]
        if begun:
            await asyncio.wait(begun, timeout=self._start_seconds)

    def _refresh_soon(self, names: Sequence[str]) -> None:
        """Fetch lists in the background; a program that ends after one answer does not."""
        found = self._refreshable(names)
        if found and self._engine.mode not in ("print", "json", "sdk"):
            self._tasks.start(self._refresh_later(found))

    def _refreshable(self, names: Sequence[str]) -> list[str]:
        known = [(name, self._providers[name]) for name in names if name in self._providers]
        return [name for name, one in known if one.catalog is not None or one.login is not None]

    async def refresh(
        self, providers: Sequence[str] | None = None, *, network: bool | None, force: bool = False
    ) -> dict[str, str]:
        """Fetch the lists of these providers, by default of all; returns errors by provider."""
        offline = env("OFFLINE", self._engine.workspace.environ) is not None
        allowed = not offline if network is None else network
        names = self._refreshable(providers or tuple(self._providers))
        tasks = {name: self._begin(name, network=allowed, force=force) for name in names}
        if tasks:
            await asyncio.wait(tasks.values())
        return {
            name: str(error)
            for name, task in tasks.items()
            if not task.cancelled() and (error := task.exception()) is not None
        }

    async def _refresh_later(self, names: Sequence[str]) -> None:
        try:
            async with asyncio.timeout(NETWORK_SECONDS):
                errors = await self.refresh(names, network=None)
        except TimeoutError:
            errors = dict.fromkeys(names, f"no answer within {NETWORK_SECONDS:.0f} s")
            for name in names:
                self._stop(name)
        for name, error in errors.items():
            text = f"The models of {name} could not be fetched: {error}"
            self._engine.conversation.hub.report(f"Warning: {text}")

    def _begin(self, name: str, *, network: bool, force: bool = False) -> "asyncio.Task[None]":
        """Start a refresh; it replaces one of this provider that is under way."""
        self._stop(name)
        task = self._tasks.start(self._refresh(self._providers[name], network, force))
        self._refreshing[name] = task
        task.add_done_callback(_noticed)
        return task

    def _stop(self, name: str) -> None:
        before = self._refreshing.pop(name, None)
        if before is not None:
            before.cancel()

    async def _refresh(self, provider: Registration, network: bool, force: bool) -> None:
        """Use the stored list first, then a fetched one: fetching may take long, or fail."""
        await self._phase(provider, self._credential(provider.name))
        if self._registry.logins.stored(provider.name) is not None:
            await self._use_login(provider, network)
        if not network or provider.catalog is None:
            return
        credential = await self._request_credential(provider)
        if credential is not None:
            await self._phase(provider, credential, network=True, force=force)

    async def _use_login(self, provider: Registration, network: bool) -> None:
        """Learn what requests send, so that they need not wait; an expired token needs network."""
        expired = self._registry.keyring.ends_soon(provider.name, 0)
        if provider.login is not None and (network or not expired):
            await self._engine.requests.renew(provider.name)

    async def _phase(
        self,
        provider: Registration,
        credential: Mapping[str, Any] | None,
        *,
        network: bool = False,
        force: bool = False,
    ) -> None:
        catalog, name = provider.catalog, provider.name
        if catalog is None:
            return
        path = store_path(self._registry.path)

        async def store(entry: Mapping[str, Any] | None) -> None:
            await asyncio.to_thread(write_entry, path, name, entry)

        context = RefreshContext(
            credential=credential,
            stored=stored_entry(path, name),
            store=store,
            allow_network=network,
            force=force,
        )
        listed = await catalog.fetch(context)
        if listed is not None:
            entry = structs.replace(provider.entry, models=listed)
            provider = structs.replace(provider, entry=entry)
            self._providers[name] = provider
        models = self._models(provider) if listed is None else _made(provider)
        if credential is not None and credential.get("type") == "oauth":
            adapted = await catalog.adapt(models, credential)
            models = models if adapted is None else adapted
        self._use(provider, models)

    def _use(self, provider: Registration, models: Sequence[Model]) -> None:
        name, access = provider.name, self._admission(provider.entry)
        self._registry.register(models, access, instead_of=name)
        self._renew_current(name)

    def _renew_current(self, name: str) -> None:
        models = self._engine.models
        if models.current is not None and models.current.provider == name:
            current = models.current
            models.current = self._registry.find(current.provider, current.id) or current

    # ------------------------------------------------------------ credentials

    def _credential(self, name: str) -> Mapping[str, Any] | None:
        """Return the stored credential as it is in auth.json."""
        try:
            stored = read_object(self._registry.keyring.path).get(name)
        except LudolfError:
            return None
        return stored if isinstance(stored, dict) else None

    async def _request_credential(self, provider: Registration) -> Mapping[str, Any] | None:
        """Return the credential for fetching a list; None if the provider has none."""
        name, registry = provider.name, self._registry
        if registry.logins.stored(name) is not None:
            return self._credential(name)
        key = _configured_key(registry, name, provider.entry)
        # A key may be the output of a command.
        access = await asyncio.to_thread(registry.keyring.access, name, key)
        return None if access is None else {"type": "api_key", "key": access.key}

    def _granted(self, name: str, entry: ProviderEntry) -> Access | None:
        registry = self._registry
        if name in registry.logins and registry.logins.stored(name) is not None:
            return registry.logins.access(name)
        access = registry.keyring.access(name, _configured_key(registry, name, entry))
        # A provider without a login may need no key.
        return access if access is not None or name in registry.logins else Access()

    def _admission(self, entry: ProviderEntry) -> Callable[[Model], Access | None]:
        """Return how requests get the key and the headers that an extension states."""
        resolve = self._registry.keyring.resolver.resolve
        stated = {name: value for name, value in entry.headers.items() if value is not None}
        removed = tuple(name for name in entry.headers if name not in stated)

        def access(model: Model) -> Access | None:
            granted = self._granted(model.provider, entry)
            if granted is None:
                return None
            headers = {name: resolve(value) or "" for name, value in stated.items()}
            if entry.auth_header and granted.key:
                headers = {"Authorization": f"Bearer {granted.key}", **headers}
            merged = {**granted.headers, **headers}
            return structs.replace(granted, headers=merged, without=removed)

        return access


def _configured_key(registry: ModelRegistry, name: str, entry: ProviderEntry) -> str | None:
    """Return the key that the extension states, else that of models.json."""
    stored = registry.entry(name)
    return entry.api_key or (stored.api_key if stored is not None else None)


def _made(provider: Registration) -> list[Model]:
    entry = provider.entry
    return [make_model(provider.name, entry, one, None) for one in entry.models]


def _noticed(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.exception()  # the task that waited for it may have been cancelled
