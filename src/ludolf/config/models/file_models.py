"""Models of the catalog, models-store.json and models.json; the registries share them."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec import structs

from ludolf.ai.models import Model
from ludolf.base import ConfigError
from ludolf.config.auth.keys import KEY_VARIABLES
from ludolf.config.models.models_file import (
    ProviderEntry,
    change_model,
    join_compat,
    make_model,
    read_models,
)
from ludolf.config.settings.files import Stamp, stamp

if TYPE_CHECKING:
    from ludolf.config.models.models_store import ModelsStore

# States of configuration files that are kept: a server has one, tests have many.
_KEPT = 4
FileStamps = tuple[Stamp | None, Stamp | None]


class BuiltModels(msgspec.Struct, frozen=True):
    """The models of one provider by id, and the errors of its entry in models.json."""

    models: Mapping[str, Model]
    errors: tuple[str, ...]


class FileModels:
    """The content of both files at one moment. Registries share it, so it must not be changed."""

    def __init__(self, path: Path, *, is_stored: bool) -> None:
        self.file = read_models(path)
        self._store_path = store_path(path) if is_stored else None
        self._store: ModelsStore | None = None
        self._built: dict[str, BuiltModels] = {}

    @property
    def store_errors(self) -> tuple[str, ...]:
        """Errors in models-store.json, once it was read."""
        return self._store.errors if self._store is not None else ()

    def of(self, provider: str) -> BuiltModels:
        """Return the models of a provider; they are built once."""
        built = self._built.get(provider)
        if built is None:
            models, errors = self._build(provider)
            built = BuiltModels(MappingProxyType(models), tuple(errors))
            if models or errors:  # hosts may ask for any name
                self._built[provider] = built
        return built

    def _build(self, provider: str) -> tuple[dict[str, Model], list[str]]:
        models: dict[str, Model] = {}
        entry = self.file.providers.get(provider)
        if provider in KEY_VARIABLES:
            from ludolf.config.models.catalog import catalog_models

            models = {model.id: model for model in catalog_models(provider)}
        if self._store_path is not None:
            if self._store is None:
                from ludolf.config.models.models_store import read_store

                self._store = read_store(self._store_path)
            self._store.add_to(provider, models, entry)
        return models, customize(provider, entry, models)


def file_stamps(path: Path) -> FileStamps:
    """Return a value that differs after a change of models.json or models-store.json."""
    return stamp(path), stamp(store_path(path))


@lru_cache(maxsize=_KEPT)
def file_models(path: Path, stamps: FileStamps) -> FileModels:
    """Return the models of models.json at `path`, in the state that `stamps` describes."""
    return FileModels(path, is_stored=stamps[1] is not None)


def customize(provider: str, entry: ProviderEntry | None, models: dict[str, Model]) -> list[str]:
    """Apply the entry of a provider in models.json to its models; return its errors."""
    if entry is None:
        return []
    errors: list[str] = []
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
            errors.append(str(error))
    return [*errors, *override(entry, models)]


def override(entry: ProviderEntry | None, models: dict[str, Model]) -> list[str]:
    """Apply the `modelOverrides` of a provider to its models; return their errors."""
    errors: list[str] = []
    for name, change in entry.model_overrides.items() if entry is not None else ():
        try:
            if name in models:
                models[name] = change_model(models[name], change)
        except ConfigError as error:
            errors.append(str(error))
    return errors


def store_path(path: Path) -> Path:
    """Return the file of fetched model lists next to models.json."""
    return path.with_name("models-store.json")
