"""Read models.json: its types, their validation, and models from its entries."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import UNSET, Meta, structs

from ludolf.ai.models import CostTier, Model, ModelCost, plain
from ludolf.base import ConfigError, Value
from ludolf.config.models.routes import route_of
from ludolf.config.settings.files import read_object
from ludolf.config.settings.settings import merge

T = TypeVar("T", bound=msgspec.Struct)
DEFAULT_WINDOW = 128_000
DEFAULT_ANSWER = 16_384
_DEEP_COMPAT = frozenset(
    ("openRouterRouting", "vercelGatewayRouting", "chatTemplateKwargs", "chatTemplateArgs")
)
_SAYS_SOMETHING = frozenset(
    (
        *("baseUrl", "headers", "compat", "modelOverrides"),
        *("models", "apiKey", "oauth", "authHeader"),
    )
)


_Price = Annotated[float, Meta(ge=0)]
_Count = Annotated[int, Meta(ge=0)]
# Not Meta(gt=0): the error text for this mistake names the model.
_Tokens = Annotated[int, Meta(extra_json_schema={"exclusiveMinimum": 0})]
_Headers = Annotated[
    dict[str, str | None],
    Meta(
        description="HTTP headers. Values may be `$NAME`, `${NAME}` or `!command`; "
        "null removes a header that would be sent otherwise."
    ),
]
_Compat = Annotated[
    dict[str, Any],
    Meta(
        description="Differences of the server from its API.",
        extra_json_schema={"$ref": "#/$defs/Compat"},
    ),
]


class ImageSize(Value):
    """Limits to which images are scaled down before they are stored and sent."""

    max_width: _Count | None = None
    max_height: _Count | None = None
    max_bytes: Annotated[_Count, Meta(description="Bytes of the base64 text.")] | None = None
    jpeg_quality: Annotated[int, Meta(ge=1, le=100)] | None = None


class ImageRules(Value):
    resize: ImageSize | None = None
    max_per_message: _Count | None = None
    max_per_request: _Count | None = None


class InputLimits(Value):
    """Limits of the server for input."""

    max_request_bytes: _Count | None = None
    images: ImageRules | None = None


class PromptCache(Value):
    """Lifetime of a cached prompt at the server, in seconds, by requested retention."""

    short: _Count | None = None
    long: _Count | None = None


class CostEntry(Value):
    """Price in US dollars per million tokens."""

    input: _Price | None = None
    output: _Price | None = None
    cache_read: _Price | None = None
    cache_write: _Price | None = None
    tiers: Annotated[
        tuple[CostTier, ...] | None,
        Meta(description="Prices of requests with more input tokens than `inputTokensAbove`."),
    ] = None


class ModelOverride(Value, kw_only=True):
    """Changes of a model; missing keys stay unchanged."""

    name: Annotated[str | None, Meta(description="Display name; the id by default.")] = None
    reasoning: Annotated[bool | None, Meta(description="Whether the model can think.")] = None
    thinking_level_map: Annotated[
        dict[str, str | None] | None,
        Meta(
            description="The server's name of a thinking level; null if the level does not exist.",
            extra_json_schema={"propertyNames": {"$ref": "#/$defs/ThinkingLevel"}},
        ),
    ] = None
    input: Annotated[
        tuple[Literal["text", "image"], ...] | None, Meta(description='By default ["text"].')
    ] = None
    input_limits: InputLimits | None = None
    cost: CostEntry | None = None
    prompt_cache: PromptCache | None = None
    context_window: Annotated[_Tokens | None, Meta(description="Tokens; 128000 by default.")] = None
    max_tokens: Annotated[_Tokens | None, Meta(description="Of an answer; 16384 by default.")] = (
        None
    )
    sampling_params: Annotated[
        dict[str, Any] | None, Meta(description="Merged into the body of every request.")
    ] = None
    headers: _Headers | None = None
    compat: _Compat | None = None


class ModelEntry(ModelOverride, kw_only=True):
    """A model that is added, or that replaces the shipped one of its id."""

    id: Annotated[str, Meta(min_length=1, description="The server's name of the model.")]
    api: Annotated[str | None, Meta(description="The API of the server.")] = None
    base_url: Annotated[str | None, Meta(description="Instead of the provider's.")] = None


class ProviderEntry(Value, kw_only=True):
    """A server, or changes of a shipped provider of this name."""

    name: Annotated[str | None, Meta(description="Display name.")] = None
    base_url: Annotated[
        str | None, Meta(description="The address; for a shipped provider, instead of its own.")
    ] = None
    api: Annotated[
        str | None,
        Meta(
            description="The API of the server.",
            examples=["openai-completions", "openai-responses", "anthropic-messages"],
        ),
    ] = None
    api_key: Annotated[
        str | None, Meta(description="The key itself, `$NAME`, `${NAME}` or `!command`.")
    ] = None
    headers: _Headers = msgspec.field(default_factory=dict)
    auth_header: Annotated[
        bool, Meta(description="Also send the key as `Authorization: Bearer`.")
    ] = False
    compat: _Compat | None = None
    oauth: Annotated[
        Literal["radius"] | None, Meta(description="The login to use; needs `baseUrl`.")
    ] = None
    models: tuple[ModelEntry, ...] = ()
    model_overrides: Annotated[
        dict[str, ModelOverride],
        Meta(description="Changes of shipped or registered models, by id; applied last."),
    ] = msgspec.field(default_factory=dict)


class ModelsDocument(Value):
    """Custom providers and models."""

    providers: dict[str, ProviderEntry]


class ModelsFile(msgspec.Struct, frozen=True, kw_only=True):
    providers: dict[str, ProviderEntry] = {}
    errors: tuple[str, ...] = ()
    # Unknown keys, which are ignored.
    warnings: tuple[str, ...] = ()


def read_models(path: Path) -> ModelsFile:
    """Read models.json; invalid entries become error texts, valid ones are used."""
    try:
        raw = read_object(path, relaxed=True)
    except ConfigError as error:
        return ModelsFile(errors=(f"Failed to parse models.json: {error}\n\nFile: {path}",))
    if not raw:
        return ModelsFile()
    entries = raw.get("providers")
    if not isinstance(entries, dict):
        text = "Expected `object`" if "providers" in raw else "missing"
        return ModelsFile(errors=(_schema_error([f"providers: {text}"], path),))
    from ludolf.config.settings.mistakes import unknown_keys

    providers: dict[str, ProviderEntry] = {}
    wrong: list[str] = []
    errors: list[str] = []
    for provider, value in entries.items():
        entry = _read_provider(f"providers.{provider}", value, wrong)
        if entry is None:
            continue
        if refusal := _refusal(provider, entry, value):
            errors.append(refusal)
        else:
            providers[provider] = entry
    if wrong:
        errors.insert(0, _schema_error(wrong, path))
    unknown = unknown_keys({"providers": entries}, ModelsDocument)
    warnings = tuple(f"{path}: {text}" for text in unknown)
    return ModelsFile(providers=providers, errors=tuple(errors), warnings=warnings)


def make_model(provider: str, owner: ProviderEntry, entry: ModelEntry, kin: Model | None) -> Model:
    """Build a custom model; `kin` is a shipped model of the same provider with its API.

    Raises:
        ConfigError: the API or the address is unknown, or a limit is invalid.
    """
    known_api, known_url = (kin.api, kin.base_url) if kin else route_of(provider, entry.id)
    api = entry.api or owner.api or known_api
    base_url = entry.base_url or owner.base_url or known_url
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


def change_model(model: Model, change: ModelOverride) -> Model:
    """Apply a change to a model; maps, prices, limits and compat are merged key by key.

    Raises:
        ConfigError: a limit is invalid.
    """
    for field, value in (
        ("contextWindow", change.context_window),
        ("maxTokens", change.max_tokens),
    ):
        if value is not None and value <= 0:
            raise ConfigError(f"Provider {model.provider}, model {model.id}: invalid {field}")
    levels = change.thinking_level_map or (change.compat or {}).get("reasoningEffortMap")
    plain = _stated(change, ("name", "reasoning", "input", "context_window", "max_tokens"))
    return model.replace(
        **plain,
        thinking_level_map=_join(model.thinking_level_map, levels),
        input_limits=_join_deep(model.input_limits, msgspec.to_builtins(change.input_limits)),
        prompt_cache=_join(model.prompt_cache, msgspec.to_builtins(change.prompt_cache)),
        sampling_params=_join(model.sampling_params, change.sampling_params),
        cost=_change_cost(model.cost, change.cost),
        compat=join_compat(model.compat, change.compat),
    )


def join_compat(
    lower: dict[str, Any] | None, upper: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Merge `upper` over `lower`; routing and template tables are merged key by key."""
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


def _join_deep(lower: Mapping[str, Any] | None, upper: Any) -> dict[str, Any] | None:
    return merge(lower or {}, upper) if isinstance(upper, dict) else _join(lower, upper)


def _change_cost(cost: ModelCost, change: CostEntry | None) -> ModelCost:
    if change is None:
        return cost
    tiers = cost.tiers if change.tiers is None else change.tiers or UNSET
    prices = _stated(change, ("input", "output", "cache_read", "cache_write"))
    return cost.replace(**{name: plain(value) for name, value in prices.items()}, tiers=tiers)


def _stated(change: ModelOverride | CostEntry, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of these fields that are not None."""
    values = {name: getattr(change, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


# ---------------------------------------------------------------- reading


def _read_provider(where: str, value: Any, wrong: list[str]) -> ProviderEntry | None:
    """Parse a provider entry without its invalid models and overrides."""
    if not isinstance(value, dict):
        wrong.append(f"{where}: Expected `object`")
        return None
    models, overrides = value.get("models", []), value.get("modelOverrides", {})
    read = [
        _convert(item, ModelEntry, f"{where}.models.{place}", wrong)
        for place, item in enumerate(models if isinstance(models, list) else ())
    ]
    changes = {
        name: _convert(item, ModelOverride, f"{where}.modelOverrides.{name}", wrong)
        for name, item in (overrides.items() if isinstance(overrides, dict) else ())
    }
    # Items that were parsed one by one are not parsed again, unless the value is neither a list
    # nor an object.
    rest = {**value}
    if isinstance(models, list):
        rest.pop("models", None)
    if isinstance(overrides, dict):
        rest.pop("modelOverrides", None)
    entry = _convert(rest, ProviderEntry, where, wrong)
    return entry and structs.replace(
        entry,
        models=tuple(model for model in read if model is not None),
        model_overrides={name: change for name, change in changes.items() if change is not None},
    )


def _convert(value: Any, kind: type[T], where: str, wrong: list[str]) -> T | None:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError:
        wrong.extend(_problems(value, kind, where))
        return None


def _problems(value: Any, kind: Any, where: str) -> Iterator[str]:
    """Return all validation errors of a value with their paths, not only the first."""
    from ludolf.config.settings.mistakes import valid_values

    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        inner = list(_inner_problems(value, kind, where))
        text = str(error).partition(" - at ")[0]
        yield from inner or [f"{where}: {text}{valid_values(kind)}"]


def _inner_problems(value: Any, kind: Any, where: str) -> Iterator[str]:
    from ludolf.config.settings.mistakes import inner_type

    kind = inner_type(kind)
    parts = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and isinstance(value, dict):
        for field in structs.fields(kind):
            name = field.encode_name
            if name in value:
                yield from _problems(value[name], field.type, f"{where}.{name}")
            elif field.required:
                yield f"{where}.{name}: missing"
    elif get_origin(kind) is dict and isinstance(value, dict):
        for name, item in value.items():
            yield from _problems(item, parts[1], f"{where}.{name}")
    elif get_origin(kind) is tuple and isinstance(value, list):
        for place, item in enumerate(value):
            yield from _problems(item, parts[0], f"{where}.{place}")


def _refusal(provider: str, entry: ProviderEntry, raw: Mapping[str, Any]) -> str | None:
    if not _SAYS_SOMETHING & raw.keys():
        keys = '"baseUrl", "headers", "compat", "modelOverrides", or "models"'
        return f"Provider {provider}: must specify {keys}."
    if entry.oauth is not None and entry.base_url is None:
        return f'Provider {provider}: "baseUrl" is required when "oauth" is set.'
    return None


def _schema_error(lines: list[str], path: Path) -> str:
    body = "\n".join(f"  - {line}" for line in lines)
    return f"Invalid models.json schema:\n{body}\n\nFile: {path}"
