"""All models that can be asked for: shipped ones, models.json, and those registered at run time."""

from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.models import Model
from ludolf.base import ConfigError
from ludolf.config.auth import Keyring
from ludolf.config.files import Stamp, stamp
from ludolf.config.keys import KEY_VARIABLES
from ludolf.config.models_file import (
    ModelsFile,
    ProviderEntry,
    change_model,
    join_compat,
    make_model,
    read_models,
)

Admission = Access | Callable[[Model], Access | None]
_AUTH_HEADERS = frozenset(("authorization", "x-api-key", "api-key", "x-goog-api-key"))


class ModelRegistry:
    """The models and the way in to them.

    The shipped catalog is opened per provider, and only for providers that are asked about.
    """

    def __init__(self, path: Path, keyring: Keyring) -> None:
        self.path = path
        self.keyring = keyring
        self.warnings: list[str] = []
        self._file = ModelsFile()
        self._stamp: Stamp | None = None
        self._models: dict[str, dict[str, Model]] = {}
        self._registered: dict[str, dict[str, Model]] = {}
        self._admissions: dict[str, Admission] = {}
        self._build_errors: list[str] = []
        self.refresh()

    @property
    def errors(self) -> tuple[str, ...]:
        """What is wrong with models.json, in texts for people."""
        for provider in self._file.providers:
            self._of(provider)
        return (*self._file.errors, *self._build_errors)

    def refresh(self) -> None:
        """Read models.json again if it has changed."""
        found = stamp(self.path)
        if found == self._stamp:
            return
        self._stamp = found
        self._file = read_models(self.path)
        self._models.clear()
        self._build_errors.clear()

    def register(self, models: Iterable[Model], access: Admission) -> None:
        """Add models whose way in does not come from files; they win over others of their id."""
        for model in models:
            self._registered.setdefault(model.provider, {})[model.id] = model
            self._admissions[model.provider] = access
            self._models.pop(model.provider, None)

    def unregister(self, provider: str) -> None:
        """Take back what was registered for a provider."""
        self._registered.pop(provider, None)
        self._admissions.pop(provider, None)
        self._models.pop(provider, None)

    def providers(self) -> tuple[str, ...]:
        """Every provider that has models, shipped ones first."""
        from ludolf.config.catalog import catalog_providers

        names = (*catalog_providers(), *self._file.providers, *self._registered)
        return tuple(name for name in dict.fromkeys(names) if self._of(name))

    def knows(self, provider: str) -> bool:
        """Whether any model of this provider exists."""
        return bool(self._of(provider))

    def of_provider(self, provider: str) -> tuple[Model, ...]:
        return tuple(self._of(provider).values())

    def all(self) -> tuple[Model, ...]:
        """Every model, with or without credentials."""
        self.refresh()
        return tuple(model for name in self.providers() for model in self._of(name).values())

    def available(self) -> tuple[Model, ...]:
        """The models with credentials; commands that give keys are believed, not run."""
        self.refresh()
        shipped = [name for name in KEY_VARIABLES if self.admits_provider(name)]
        names = dict.fromkeys((*shipped, *self._file.providers, *self._registered))
        return tuple(
            model for name in names for model in self._of(name).values() if self.admits(model)
        )

    def find(self, provider: str, model_id: str) -> Model | None:
        """The model of exactly this provider and id."""
        return self._of(provider).get(model_id)

    def admits(self, model: Model) -> bool:
        """Whether credentials for the model exist; no command is run."""
        if self.admits_provider(model.provider):
            return True
        return any(name.lower() in _AUTH_HEADERS for name in self._header_values(model))

    def admits_provider(self, provider: str) -> bool:
        """The same for a provider as a whole, without looking at its models."""
        if provider in self._admissions:
            return True
        return self.keyring.origin(provider, self._configured_key(provider)) is not None

    def runs_command(self, model: Model) -> bool:
        """Whether `access` may start a program, and should be called in a thread."""
        if model.provider in self._admissions:
            return False
        values = self._header_values(model).values()
        return any(value.startswith("!") for value in values) or self.keyring.runs_command(
            model.provider, self._configured_key(model.provider)
        )

    def access(self, model: Model) -> Access | None:
        """Key and headers for one request, resolved now; None without a usable credential."""
        admission = self._admissions.get(model.provider)
        if isinstance(admission, Access):
            return admission
        if admission is not None:
            return admission(model)
        granted = self.keyring.access(model.provider, self._configured_key(model.provider))
        headers = self._headers(model)
        if granted is None:
            known = any(name.lower() in _AUTH_HEADERS for name in headers)
            return Access(headers=headers) if known else None
        entry = self._file.providers.get(model.provider)
        if entry is not None and entry.auth_header and granted.key:
            headers = {"Authorization": f"Bearer {granted.key}", **headers}
        return structs.replace(granted, headers={**granted.headers, **headers})

    def secret_names(self, passed: Iterable[str] = ()) -> frozenset[str]:
        """Environment variables that hold keys and must not reach tools, save those `passed`."""
        values: list[str] = []
        for entry in self._file.providers.values():
            values += [entry.api_key or "", *entry.headers.values()]
            for change in (*entry.models, *entry.model_overrides.values()):
                values += (change.headers or {}).values()
        return self.keyring.secret_names(values, passed=passed)

    def _of(self, provider: str) -> dict[str, Model]:
        found = self._models.get(provider)
        if found is None:
            found = self._models[provider] = self._build(provider)
        return found

    def _build(self, provider: str) -> dict[str, Model]:
        models: dict[str, Model] = {}
        if provider in KEY_VARIABLES:
            from ludolf.config.catalog import catalog_models

            models = {model.id: model for model in catalog_models(provider)}
        entry = self._file.providers.get(provider)
        if entry is not None:
            self._customize(provider, entry, models)
        models.update(self._registered.get(provider, {}))
        return models

    def _customize(self, provider: str, entry: ProviderEntry, models: dict[str, Model]) -> None:
        kin = dict(models)
        sibling = next(iter(models.values()), None)
        for name, model in kin.items():
            models[name] = structs.replace(
                model,
                base_url=entry.base_url or model.base_url,
                compat=join_compat(model.compat, entry.compat),
            )
        for custom in entry.models:
            try:
                models[custom.id] = make_model(provider, entry, custom, kin.get(custom.id, sibling))
            except ConfigError as error:
                self._build_errors.append(str(error))
        for name, change in entry.model_overrides.items():
            try:
                if name in models:
                    models[name] = change_model(models[name], change)
            except ConfigError as error:
                self._build_errors.append(str(error))

    def _configured_key(self, provider: str) -> str | None:
        entry = self._file.providers.get(provider)
        return entry.api_key if entry is not None else None

    def _header_values(self, model: Model) -> dict[str, str]:
        entry = self._file.providers.get(model.provider)
        if entry is None:
            return {}
        values = dict(entry.headers)
        for custom in entry.models:
            if custom.id == model.id:
                values.update(custom.headers or {})
        change = entry.model_overrides.get(model.id)
        values.update((change.headers if change else None) or {})
        return values

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
