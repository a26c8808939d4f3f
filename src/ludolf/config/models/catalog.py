"""The shipped model catalog, loaded per provider on demand."""

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

import ludolf.ai.models
from ludolf.ai.models import CostTier, Model, ModelCost

_THINKS, _SEES = 1, 2


class _Row(msgspec.Struct, frozen=True, array_like=True):
    id: str
    name: str
    route: int
    flags: int
    context_window: int
    max_tokens: int
    prices: tuple[int | float, int | float, int | float, int | float]
    trait: int | None = None


class _Trait(msgspec.Struct, frozen=True, rename="camel"):
    thinking_level_map: dict[str, str | None] | None = None
    input_limits: dict[str, Any] | None = None
    prompt_cache: dict[str, int] | None = None
    compat: dict[str, Any] | None = None
    tiers: tuple[CostTier, ...] | UnsetType = UNSET


class _Shelf(msgspec.Struct, frozen=True):
    routes: tuple[tuple[str, str], ...]
    traits: tuple[_Trait, ...]
    models: tuple[_Row, ...]


def catalog_providers() -> tuple[str, ...]:
    """Return the providers of the catalog, in its order."""
    return tuple(_shelves())


@cache
def catalog_models(provider: str) -> tuple[Model, ...]:
    """Return the shipped models of a provider; empty if it is not in the catalog."""
    raw = _shelves().get(provider)
    if raw is None:
        return ()
    shelf = msgspec.json.decode(raw, type=_Shelf)
    return tuple(_model(provider, shelf, row) for row in shelf.models)


@cache
def _shelves() -> dict[str, msgspec.Raw]:
    path = Path(ludolf.ai.models.__file__).with_name("catalog.json")
    return msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw])


def _model(provider: str, shelf: _Shelf, row: _Row) -> Model:
    api, base_url = shelf.routes[row.route]
    trait = _Trait() if row.trait is None else shelf.traits[row.trait]
    price_in, price_out, read, write = row.prices
    cost = ModelCost(
        input=price_in, output=price_out, cache_read=read, cache_write=write, tiers=trait.tiers
    )
    return Model(
        id=row.id,
        name=row.name,
        api=api,
        provider=provider,
        base_url=base_url,
        reasoning=bool(row.flags & _THINKS),
        thinking_level_map=trait.thinking_level_map,
        input=("text", "image") if row.flags & _SEES else ("text",),
        input_limits=trait.input_limits,
        cost=cost,
        prompt_cache=trait.prompt_cache,
        context_window=row.context_window,
        max_tokens=row.max_tokens,
        compat=trait.compat,
    )
