"""models.json: its shape, its defaults, and the texts of what can be wrong with it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec
from msgspec import UNSET, structs

from ludolf.ai.models import CostTier, Model, ModelCost
from ludolf.base import ConfigError, Value
from ludolf.config.files import read_object

T = TypeVar("T", bound=msgspec.Struct)
DEFAULT_WINDOW = 128_000
DEFAULT_ANSWER = 16_384
_DEEP_COMPAT = frozenset(
    ("openRouterRouting", "vercelGatewayRouting", "chatTemplateKwargs", "chatTemplateArgs")
)


class CostEntry(Value, kw_only=True):
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    tiers: tuple[CostTier, ...] | None = None


class ModelChange(Value, kw_only=True):
    """What `modelOverrides` may say of a model; None leaves it as it is."""

    name: str | None = None
    reasoning: bool | None = None
    thinking_level_map: dict[str, str | None] | None = None
    input: tuple[Literal["text", "image"], ...] | None = None
    input_limits: dict[str, Any] | None = None
    cost: CostEntry | None = None
    context_window: int | None = None
    max_tokens: int | None = None
    sampling_params: dict[str, Any] | None = None
    headers: dict[str, str] | None = None
    compat: dict[str, Any] | None = None


class ModelEntry(ModelChange, kw_only=True):
    id: str
    api: str | None = None
    base_url: str | None = None


class ProviderEntry(Value, kw_only=True):
    name: str | None = None
    base_url: str | None = None
    api: str | None = None
    api_key: str | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    auth_header: bool = False
    compat: dict[str, Any] | None = None
    oauth: Literal["radius"] | None = None
    models: tuple[ModelEntry, ...] = ()
    model_overrides: dict[str, ModelChange] = msgspec.field(default_factory=dict)


class ModelsFile(msgspec.Struct, frozen=True, kw_only=True):
    providers: dict[str, ProviderEntry] = {}
    errors: tuple[str, ...] = ()


def read_models(path: Path) -> ModelsFile:
    """Read models.json; what is wrong becomes an error text, the rest still counts."""
    try:
        raw = read_object(path, relaxed=True)
    except ConfigError as error:
        return ModelsFile(errors=(f"Failed to parse models.json: {error}\n\nFile: {path}",))
    named = raw.get("providers", {})
    if not isinstance(named, dict):
        return ModelsFile(errors=(_schema_error(["providers: Expected `object`"], path),))
    providers: dict[str, ProviderEntry] = {}
    wrong: list[str] = []
    errors: list[str] = []
    for provider, value in named.items():
        if value == {}:
            errors.append(_empty_provider(provider))
            continue
        entry = _read_provider(f"providers.{provider}", value, wrong)
        if entry is not None:
            providers[provider] = entry
    if wrong:
        errors.insert(0, _schema_error(wrong, path))
    return ModelsFile(providers=providers, errors=tuple(errors))


def make_model(provider: str, owner: ProviderEntry, entry: ModelEntry, kin: Model | None) -> Model:
    """A custom model; `kin` is a shipped model of the same provider to learn the API from.

    Raises:
        ConfigError: the API or the address is unknown, or a limit makes no sense.
    """
    api = entry.api or owner.api or (kin.api if kin else None)
    base_url = entry.base_url or owner.base_url or (kin.base_url if kin else None)
    if api is None:
        where = f"Provider {provider}, model {entry.id}"
        raise ConfigError(f'{where}: no "api" specified. Set at provider or model level.')
    if base_url is None:
        raise ConfigError(
            f'Provider {provider}: "baseUrl" is required when defining custom models.'
        )
    blank = Model(
        id=entry.id,
        name=entry.id,
        api=api,
        provider=provider,
        base_url=base_url,
        reasoning=False,
        input=("text",),
        cost=ModelCost(),
        context_window=DEFAULT_WINDOW,
        max_tokens=DEFAULT_ANSWER,
        compat=owner.compat,
    )
    return change_model(blank, entry)


def change_model(model: Model, change: ModelChange) -> Model:
    """The model with what the change says; maps, prices, limits and compat change key by key.

    Raises:
        ConfigError: a limit makes no sense.
    """
    for field, value in (
        ("contextWindow", change.context_window),
        ("maxTokens", change.max_tokens),
    ):
        if value is not None and value <= 0:
            raise ConfigError(f"Provider {model.provider}, model {model.id}: invalid {field}")
    levels = change.thinking_level_map or (change.compat or {}).get("reasoningEffortMap")
    plain = {
        "name": change.name,
        "reasoning": change.reasoning,
        "input": change.input,
        "context_window": change.context_window,
        "max_tokens": change.max_tokens,
    }
    return structs.replace(
        model,
        **cast(dict[str, Any], {name: value for name, value in plain.items() if value is not None}),
        thinking_level_map=_join(model.thinking_level_map, levels),
        input_limits=_join(model.input_limits, change.input_limits),
        sampling_params=_join(model.sampling_params, change.sampling_params),
        cost=_change_cost(model.cost, change.cost),
        compat=join_compat(model.compat, change.compat),
    )


def join_compat(
    lower: dict[str, Any] | None, upper: dict[str, Any] | None
) -> dict[str, Any] | None:
    """`upper` over `lower`; routing and template tables are joined one level deeper."""
    joined = _join(lower, upper)
    for key in _DEEP_COMPAT:
        old, new = (lower or {}).get(key), (upper or {}).get(key)
        if joined is not None and isinstance(old, dict) and isinstance(new, dict):
            joined[key] = {**old, **new}
    return joined


def _join(lower: Mapping[str, Any] | None, upper: Any) -> dict[str, Any] | None:
    if not isinstance(upper, dict):
        return dict(lower) if lower is not None else None
    return {**(lower or {}), **upper}


def _change_cost(cost: ModelCost, change: CostEntry | None) -> ModelCost:
    if change is None:
        return cost
    return ModelCost(
        input=cost.input if change.input is None else change.input,
        output=cost.output if change.output is None else change.output,
        cache_read=cost.cache_read if change.cache_read is None else change.cache_read,
        cache_write=cost.cache_write if change.cache_write is None else change.cache_write,
        tiers=cost.tiers if change.tiers is None else change.tiers or UNSET,
    )


def _read_provider(where: str, value: Any, wrong: list[str]) -> ProviderEntry | None:
    if not isinstance(value, dict):
        wrong.append(f"{where}: Expected `object`")
        return None
    rest = {key: item for key, item in value.items() if key not in ("models", "modelOverrides")}
    entry = _convert(rest, ProviderEntry, where, wrong)
    if entry is None:
        return None
    models, overrides = value.get("models", []), value.get("modelOverrides", {})
    if not isinstance(models, list) or not isinstance(overrides, dict):
        wrong.append(f"{where}: models must be an array and modelOverrides an object")
        return None
    read = [
        _convert(item, ModelEntry, f"{where}.models.{place}", wrong)
        for place, item in enumerate(models)
    ]
    changes = {
        name: _convert(item, ModelChange, f"{where}.modelOverrides.{name}", wrong)
        for name, item in overrides.items()
    }
    return structs.replace(
        entry,
        models=tuple(model for model in read if model is not None),
        model_overrides={name: change for name, change in changes.items() if change is not None},
    )


def _convert(value: Any, kind: type[T], where: str, wrong: list[str]) -> T | None:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$")
        wrong.append(f"{where}{place.rstrip('`')}: {text}")
        return None


def _schema_error(lines: list[str], path: Path) -> str:
    body = "\n".join(f"  - {line}" for line in lines)
    return f"Invalid models.json schema:\n{body}\n\nFile: {path}"


def _empty_provider(provider: str) -> str:
    keys = '"baseUrl", "headers", "compat", "modelOverrides", or "models"'
    return f"Provider {provider}: must specify {keys}."
