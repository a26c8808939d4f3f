"""Registry of models: shipped, from models.json, local, and registered at run time."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from ludolf.ai.access import AUTH_HEADERS, Access
from ludolf.ai.local import FILES, NO_KEY, SERVERS
from ludolf.ai.models import Model
from ludolf.config.auth.keyring import KeyOrigin, Keyring
from ludolf.config.auth.keys import KEY_VARIABLES
from ludolf.config.models.file_models import customize, file_models, file_stamps, override
from ludolf.config.models.models_file import ProviderEntry
from ludolf.config.models.routes import ROUTES

if TYPE_CHECKING:
    from ludolf.config.auth.provider_logins import ExtensionLogins
    from ludolf.config.models.local import LocalModels

LOCAL = (*SERVERS, FILES)
Admission = Access | Callable[[Model], Access | None]


class ModelRegistry:
    """The models and their credentials.

    The shipped catalog is loaded per provider, on demand.
    """

    def __init__(self, path: Path, keyring: Keyring) -> None:
        self.path = path
        self.keyring = keyring
        self.warnings: list[str] = []
        # Replaces the credentials of every model if no request leaves the process.
        self.stand_in: Access | None = None
        # Whether local model servers are scanned.
        self.local_servers = True
        self._stamps = file_stamps(path)
        self._files = file_models(path, self._stamps)
        self._models: dict[str, Mapping[str, Model]] = {}
        self._found: dict[str, dict[str, Model]] = {}
        self._local: LocalModels | None = None
        self._registered: dict[str, dict[str, Model]] = {}
        self._admissions: dict[str, Admission] = {}
        self._logins: ExtensionLogins | None = None
        self._build_errors: list[str] = []
        self._note_warnings()

    @property
    def errors(self) -> tuple[str, ...]:
        """Errors in models.json, as texts for users."""
        for provider in self._files.file.providers:
            self._of(provider)
        # Building the models of a provider again repeats its errors.
        return tuple(dict.fromkeys((*self._files.file.errors, *self._build_errors)))

    @property
    def unknown_keys(self) -> tuple[str, ...]:
        """Unknown keys in models.json, as texts for users."""
        return self._files.file.warnings

    def refresh(self) -> None:
        """Read models.json and models-store.json again if one has changed."""
        current = file_stamps(self.path)
        if current == self._stamps:
            return
        self._stamps = current
        self._files = file_models(self.path, current)
        self._note_warnings()
        self._models.clear()
        self._build_errors.clear()

    def _note_warnings(self) -> None:
        warnings = self._files.file.warnings
        self.warnings += [text for text in warnings if text not in self.warnings]

    def register(
        self, models: Iterable[Model], access: Admission, *, instead_of: str | None = None
    ) -> None:
        """Add models with their access; they replace other models of the same id.

        With `instead_of` they replace all models that were registered for that provider.
        """
        if instead_of is not None:
            self._registered.pop(instead_of, None)
            self._models.pop(instead_of, None)
        for model in models:
            self._registered.setdefault(model.provider, {})[model.id] = model
            self._admissions[model.provider] = access
            self._models.pop(model.provider, None)

    def unregister(self, provider: str) -> None:
        """Remove the registered models, access and login of a provider."""
        self._registered.pop(provider, None)
        self._admissions.pop(provider, None)
        self._models.pop(provider, None)
        if self._logins is not None:
            self._logins.remove(provider)

    @property
    def logins(self) -> "ExtensionLogins":
        """The logins that extensions provide."""
        if self._logins is None:
            from ludolf.config.auth.provider_logins import ExtensionLogins

            self._logins = ExtensionLogins(self.keyring)
        return self._logins

    def _has_login(self, provider: str) -> bool:
        return self._logins is not None and provider in self._logins

    @property
    def local(self) -> "LocalModels":
        """The models of this machine."""
        if self._local is None:
            from ludolf.config.models.local import LocalModels

            self._local = LocalModels(self, self.keyring.environ)
        return self._local

    def set_found(self, models: dict[str, dict[str, Model]]) -> None:
        """Replace the local models by the result of a new scan."""
        for provider in (*self._found, *models):
            self._models.pop(provider, None)
        self._found = models

    def expected(self, provider: str, model_id: str) -> Model | None:
        """Return a local model that was not scanned yet; None for other providers.

        Raises:
            ConfigError: the model is a file that cannot be used.
        """
        if provider not in LOCAL:
            return None
        model = self.local.expected(provider, model_id)
        if model is None:
            return None
        models = {model.id: model}
        self._build_errors += customize(provider, self.entry(provider), models)
        return models[model.id]

    def entry(self, provider: str) -> ProviderEntry | None:
        """Return the entry of a provider in models.json."""
        return self._files.file.providers.get(provider)

    def providers(self) -> tuple[str, ...]:
        """Return the providers that have models, shipped ones first."""
        from ludolf.config.models.catalog import catalog_providers

        shipped = (*catalog_providers(), *ROUTES)
        names = (*shipped, *self._files.file.providers, *self._found, *self._registered)
        return tuple(name for name in dict.fromkeys(names) if self._of(name))

    def knows(self, provider: str) -> bool:
        """Return whether models of this provider can be requested, even unlisted ones."""
        return provider in ROUTES or bool(self._of(provider))

    def of_provider(self, provider: str) -> tuple[Model, ...]:
        return tuple(self._of(provider).values())

    def all(self) -> tuple[Model, ...]:
        """Return every model, with or without credentials."""
        self.refresh()
        return tuple(model for name in self.providers() for model in self._of(name).values())

    def available(self) -> tuple[Model, ...]:
        """Return models with credentials; a key command counts as one and is not run."""
        self.refresh()
        shipped = [name for name in KEY_VARIABLES if self.admits_provider(name)]
        names = dict.fromkeys(
            (*shipped, *self._files.file.providers, *self._found, *self._registered)
        )
        return tuple(
            model for name in names for model in self._of(name).values() if self.admits(model)
        )

    def find(self, provider: str, model_id: str) -> Model | None:
        """Return the model with exactly this provider and id."""
        return self._of(provider).get(model_id)

    def admits(self, model: Model) -> bool:
        """Return whether credentials for the model exist; runs no command."""
        if self.admits_provider(model.provider):
            return True
        return any(name.lower() in AUTH_HEADERS for name in self._header_values(model))

    def admits_provider(self, provider: str) -> bool:
        """Return whether credentials for a provider exist, without loading its models."""
        has_login = self._has_login(provider)
        if provider in self._admissions and not has_login:
            return True
        if self.origin(provider) is not None or self._needs_no_key(provider):
            return True
        return has_login and self.logins.admits(provider)

    def origin(self, provider: str) -> KeyOrigin | None:
        """Return the source of a provider's key: files or environment."""
        return self.keyring.origin(provider, self._configured_key(provider))

    def ends_soon(self, model: Model) -> bool:
        """Return whether a stored login must be renewed before `access` is called."""
        provider = model.provider
        if self.stand_in is not None or isinstance(self._admissions.get(provider), Access):
            return False
        if self._has_login(provider):
            return self.logins.needs_renewal(provider)
        return self.keyring.ends_soon(provider)

    def runs_command(self, model: Model) -> bool:
        """Return whether `access` may run a command and should be called in a thread."""
        if model.provider in self._admissions or self.stand_in is not None:
            return False
        values = self._header_values(model).values()
        if any(value.startswith("!") for value in values):
            return True
        return self.keyring.runs_command(model.provider, self._configured_key(model.provider))

    def access(self, model: Model) -> Access | None:
        """Resolve key and headers for one request; None without a usable credential."""
        if self.stand_in is not None:
            return self.stand_in
        admission = self._admissions.get(model.provider)
        if isinstance(admission, Access):
            return admission
        if admission is not None:
            return admission(model)
        granted = self.keyring.access(model.provider, self._configured_key(model.provider))
        headers = self._headers(model)
        if granted is None and self._needs_no_key(model.provider):
            granted = Access(key=NO_KEY)
        if granted is None:
            if not any(name.lower() in AUTH_HEADERS for name in headers):
                return None
            granted = Access()
        entry = self.entry(model.provider)
        if entry is not None and entry.auth_header and granted.key:
            headers = {"Authorization": f"Bearer {granted.key}", **headers}
        removed = tuple(name for name, value in self._stated(model).items() if value is None)
        return structs.replace(granted, headers={**granted.headers, **headers}, without=removed)

    def credentials(self) -> Iterator[tuple[str, str]]:
        """Yield names and values of all keys and tokens, without running commands."""
        from ludolf.ai.record.scrubbing import parts_of
        from ludolf.ai.secret_names import is_secret_name
        from ludolf.ai.secrets import credentials_in

        yield from self.keyring.credentials()
        for provider, header, value in self._stated_values():
            if header == "key" or header.lower() in AUTH_HEADERS or is_secret_name(header):
                text = self.keyring.resolver.plain_text(value)
                yield from ((f"{provider}_{header}", part) for part in parts_of(header, text))
        for provider, admission in self._admissions.items():
            if isinstance(admission, Access):
                yield from ((f"{provider}_access", value) for value in credentials_in(admission))
        for provider, access in self._logins.granted() if self._logins is not None else ():
            yield from ((f"{provider}_access", value) for value in credentials_in(access))

    def secret_names(self) -> frozenset[str]:
        """Return environment variables with keys that tools must not see."""
        return self.keyring.secret_names(value for _, _, value in self._stated_values())

    def _stated_values(self) -> Iterator[tuple[str, str, str]]:
        """Yield provider, header and value of models.json; keys have the header `key`."""
        for provider, entry in self._files.file.providers.items():
            yield provider, "key", entry.api_key or ""
            changes = (*entry.models, *entry.model_overrides.values())
            for headers in (entry.headers, *(change.headers or {} for change in changes)):
                for name, value in headers.items():
                    if value is not None:
                        yield provider, name, value

    def _of(self, provider: str) -> Mapping[str, Model]:
        models = self._models.get(provider)
        if models is None:
            models = self._models[provider] = self._build(provider)
        return models

    def _build(self, provider: str) -> Mapping[str, Model]:
        if provider in LOCAL:
            models = dict(self._found.get(provider, {}))
            self._build_errors += customize(provider, self.entry(provider), models)
        else:
            built = self._files.of(provider)
            self._build_errors += built.errors
            errors = self._files.store_errors
            self.warnings += [text for text in errors if text not in self.warnings]
            if provider not in self._registered:
                return built.models
            models = dict(built.models)
        own = dict(self._registered.get(provider, {}))
        self._build_errors += override(self.entry(provider), own)
        return {**models, **own}

    def _needs_no_key(self, provider: str) -> bool:
        return provider == FILES or (provider in LOCAL and self.local.serves(provider))

    def _configured_key(self, provider: str) -> str | None:
        entry = self.entry(provider)
        return entry.api_key if entry is not None else None

    def _header_values(self, model: Model) -> dict[str, str]:
        return {name: value for name, value in self._stated(model).items() if value is not None}

    def _stated(self, model: Model) -> dict[str, str | None]:
        """Return the headers of models.json; None removes a header."""
        entry = self.entry(model.provider)
        if entry is None:
            return {}
        layers = [entry.headers]
        layers += [custom.headers or {} for custom in entry.models if custom.id == model.id]
        change = entry.model_overrides.get(model.id)
        layers.append((change.headers if change else None) or {})
        # Header names ignore case.
        stated = {name.lower(): (name, value) for layer in layers for name, value in layer.items()}
        return dict(stated.values())

    def _headers(self, model: Model) -> dict[str, str]:
        headers: dict[str, str] = {}
        for name, value in self._header_values(model).items():
            text = self.keyring.resolver.resolve(value)
            if text is not None:
                headers[name] = text
            else:
                problem = f"Provider {model.provider}: header {name} has no value and is left out"
                if problem not in self.warnings:
                    self.warnings.append(problem)
        return headers
