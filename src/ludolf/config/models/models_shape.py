"""Types of models.json, from which its JSON Schema is generated."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ludolf.ai.models import CostTier
from ludolf.base import Value

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
