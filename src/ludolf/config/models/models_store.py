"""models-store.json: model lists fetched from providers, next to the entries of pi."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from ludolf.ai.models import Model, ModelCost
from ludolf.base import ConfigError, now_ms
from ludolf.config.models.models_file import ModelEntry, ProviderEntry, change_model, make_model
from ludolf.config.settings.files import read_object, read_text, write_object

T = TypeVar("T", bound=msgspec.Struct)
# pi has one entry for each provider in this file, and does not change this one.
OWN_KEY = "ludolf"
_PATIENCE = 10.0
_LEAST_ALIKE = 4


class _Entry(msgspec.Struct, frozen=True):
    models: tuple[Any, ...] = ()


class News(msgspec.Struct, frozen=True, kw_only=True):
    """The differences of a provider's list from the catalog."""

    listed: int
    added: tuple[str, ...]
    changed: tuple[str, ...]
    entries: tuple[ModelEntry, ...]


class ModelsStore(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file; the entry of a provider is parsed on demand."""

    own: dict[str, msgspec.Raw] = {}
    of_pi: dict[str, msgspec.Raw] = {}
    errors: tuple[str, ...] = ()

    def add_to(
        self, provider: str, models: dict[str, Model], owner: ProviderEntry | None = None
    ) -> None:
        """Merge the stored list into a provider's models; `owner` is its entry in models.json."""
        shipped = dict(models)
        for model in _readable(self.of_pi.get(provider), Model) if shipped else ():
            if model.provider == provider:
                models.setdefault(model.id, model)
        for entry in _readable(self.own.get(provider), ModelEntry):
            made = _laid_over(provider, entry, shipped, owner)
            if made is not None:
                models[made.id] = made


def read_store(path: Path) -> ModelsStore:
    """Read the file; if it cannot be read, `errors` has the reason."""
    try:
        text = read_text(path) or "{}"
        entries = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
        own = msgspec.json.decode(entries.pop(OWN_KEY, b"{}"), type=dict[str, msgspec.Raw])
    except (ConfigError, msgspec.DecodeError) as error:
        return ModelsStore(errors=(f"{path} is not used: {error}",))
    return ModelsStore(own=own, of_pi=entries)


def compare(listed: Iterable[ModelEntry], shipped: dict[str, Model]) -> News:
    """Return the models of a list that are not shipped, and prices that differ."""
    entries: list[ModelEntry] = []
    added: list[str] = []
    changed: list[str] = []
    everything = tuple(listed)
    for entry in everything:
        current = shipped.get(entry.id)
        if current is None:
            entries.append(entry)
            added.append(entry.id)
            continue
        # Of a shipped model only the price is taken: providers report other facts inconsistently.
        prices = ModelEntry(id=entry.id, cost=entry.cost)
        if change_model(current, prices) != current:
            entries.append(prices)
            changed.append(entry.id)
    return News(
        listed=len(everything),
        added=tuple(added),
        changed=tuple(changed),
        entries=tuple(entries),
    )


def keep(path: Path, provider: str, entries: Iterable[ModelEntry]) -> None:
    """Store the list of a provider; it replaces the previous one.

    Raises:
        ConfigError: the file is invalid, locked, or cannot be written.
    """
    entry = {"models": msgspec.to_builtins(tuple(entries)), "checkedAt": now_ms()}

    def add(raw: dict[str, Any]) -> None:
        own = raw.get(OWN_KEY)
        raw[OWN_KEY] = {**(own if isinstance(own, dict) else {}), provider: entry}

    _change(path, add)


def stored_entry(path: Path, provider: str) -> Mapping[str, Any] | None:
    """Return the entry of a provider in pi's part of the file; None without a readable one."""
    try:
        entry = read_object(path).get(provider)
    except ConfigError:
        return None
    return entry if isinstance(entry, dict) else None


def write_entry(path: Path, provider: str, entry: Mapping[str, Any] | None) -> None:
    """Replace the entry of a provider in pi's part of the file; None removes it.

    Raises:
        ConfigError: as above.
    """

    def put(raw: dict[str, Any]) -> None:
        if provider == OWN_KEY:
            return
        raw.pop(provider, None)
        if entry is not None:
            raw[provider] = msgspec.to_builtins(entry)

    _change(path, put)


def _change(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    from ludolf.config.settings.lock import auth_lock

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with auth_lock(path, patience=_PATIENCE) as lock:
            raw = read_object(path)
            edit(raw)
            lock.check()
            write_object(path, raw)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except ConfigError as error:
        raise ConfigError(f"{path} was not changed: {error}") from error


def _laid_over(
    provider: str, entry: ModelEntry, shipped: dict[str, Model], owner: ProviderEntry | None
) -> Model | None:
    try:
        if entry.id in shipped:
            return change_model(shipped[entry.id], entry)
        template = _most_alike(entry.id, shipped)
        if template is None:
            first = next(iter(shipped.values()), None)
            return make_model(provider, owner or ProviderEntry(), entry, first)
        name = entry.name or entry.id
        return change_model(
            structs.replace(template, id=entry.id, name=name, cost=ModelCost()), entry
        )
    except ConfigError:
        return None


def _most_alike(model_id: str, shipped: dict[str, Model]) -> Model | None:
    """Return the shipped model with the longest common id prefix, for missing facts."""
    alike = {name: _same_letters(name, model_id) for name in shipped}
    best = max(alike, key=lambda name: (alike[name], -len(name)), default=None)
    return shipped[best] if best is not None and alike[best] >= _LEAST_ALIKE else None


def _same_letters(one: str, other: str) -> int:
    """Return the length of the common prefix of two ids."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _readable(kept: msgspec.Raw | None, kind: type[T]) -> Iterator[T]:
    """Return the models of an entry that can be parsed."""
    try:
        rows = msgspec.json.decode(kept or b"{}", type=_Entry).models
    except msgspec.DecodeError:
        return
    for row in rows:
        try:
            yield msgspec.convert(row, kind)
        except msgspec.ValidationError:
            continue
