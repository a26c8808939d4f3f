"""How servers that speak OpenAI's APIs differ: flags, found by vendor or set on the model."""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model, clamp_thinking
from ludolf.base import Value

ThinkingFormat = Literal[
    "openai",
    "openrouter",
    "deepseek",
    "zai",
    "qwen",
    "qwen-chat-template",
    "chat-template",
    "baseten",
    "together",
    "string-thinking",
    "ant-ling",
]
DEFAULT_BUDGETS: Mapping[str, int] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 16384,
    "max": 16384,
}


class Compat(Value):
    """The flags of a model's `compat`, under the names that models.json uses."""

    supports_store: bool = True
    supports_developer_role: bool = True
    supports_reasoning_effort: bool = True
    supports_usage_in_streaming: bool = True
    supports_finish_reason: bool = True
    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    requires_tool_result_name: bool = False
    requires_assistant_after_tool_result: bool = False
    requires_thinking_as_text: bool = False
    requires_reasoning_content_on_assistant_messages: bool = False
    thinking_format: ThinkingFormat = "openai"
    reasoning_effort_map: dict[str, str | None] = msgspec.field(default_factory=dict)
    chat_template_kwargs: dict[str, Any] = msgspec.field(default_factory=dict)
    chat_template_args: dict[str, Any] = msgspec.field(default_factory=dict)
    thinking_token_budget_field: str | None = None
    supports_thinking_token_budget: bool = False
    open_router_routing: dict[str, Any] | None = None
    vercel_gateway_routing: dict[str, Any] | None = None
    cache_control_format: str | None = None
    zai_tool_stream: bool = False
    send_session_affinity_headers: bool = False
    session_affinity_format: Literal["openai", "openrouter", "openai-nosession"] = "openai"
    supports_long_cache_retention: bool = True
    supports_explicit_prompt_cache_mode: bool = False
    supports_max_output_tokens: bool = True
    vllm_priority: int | None = None


# ---------------------------------------------------------------- detection

_VENDORS: tuple[tuple[str, str, str], ...] = (
    # vendor, how the provider's id begins, part of the base URL
    ("openrouter", "openrouter", "openrouter.ai"),
    ("nvidia", "nvidia", "api.nvidia.com"),
    ("cerebras", "cerebras", "cerebras.ai"),
    ("xai", "xai", "api.x.ai"),
    ("together", "together", "together."),
    ("chutes", "chutes", "chutes.ai"),
    ("deepseek", "deepseek", "deepseek.com"),
    ("zai", "zai", "api.z.ai"),
    ("moonshot", "moonshot", "api.moonshot."),
    ("opencode", "opencode", "opencode.ai"),
    ("cloudflare-gateway", "cloudflare-ai-gateway", "gateway.ai.cloudflare.com"),
    ("cloudflare", "cloudflare", "api.cloudflare.com"),
    ("ant-ling", "ant-ling", "ant-ling"),
)
_NO_STORE = frozenset(name for name, _, _ in _VENDORS) - {"openrouter"}
_NO_EFFORT = {"xai", "zai", "moonshot", "together", "cloudflare-gateway", "nvidia", "ant-ling"}
_OLD_LIMIT = {
    "chutes",
    "deepseek",
    "moonshot",
    "cloudflare-gateway",
    "together",
    "nvidia",
    "ant-ling",
    "zai",
}
_NO_LONG_CACHE = {"together", "cloudflare", "cloudflare-gateway", "nvidia", "ant-ling"}
_OWN_THINKING = {"deepseek", "zai", "together", "ant-ling", "openrouter"}


def vendor_of(model: Model) -> str:
    """Who answers for a model, as far as its provider's name or address tells; else ""."""
    for vendor, prefix, host in _VENDORS:
        if model.provider.startswith(prefix) or host in model.base_url:
            return vendor
    return ""


def chat_compat(model: Model) -> Compat:
    """The flags of a Chat Completions model; what the model states goes before what is detected.

    Raises:
        ProviderError: a flag has a value of the wrong kind.
    """
    vendor = vendor_of(model)
    router = vendor == "openrouter"
    known = not router or model.id.startswith(("anthropic/", "openai/"))
    found: dict[str, Any] = {
        "supportsStore": vendor not in _NO_STORE,
        "supportsDeveloperRole": vendor not in _NO_STORE and known,
        "supportsReasoningEffort": vendor not in _NO_EFFORT,
        "supportsLongCacheRetention": vendor not in _NO_LONG_CACHE,
        "maxTokensField": "max_tokens" if vendor in _OLD_LIMIT else "max_completion_tokens",
        "requiresReasoningContentOnAssistantMessages": vendor == "deepseek",
        "thinkingFormat": vendor if vendor in _OWN_THINKING else "openai",
        "sendSessionAffinityHeaders": router,
        "sessionAffinityFormat": "openrouter" if router else "openai",
    }
    if router and model.id.startswith("anthropic/"):
        found["cacheControlFormat"] = "anthropic"
    return _with_stated(model, found)


def responses_compat(model: Model) -> Compat:
    """The flags of a Responses model.

    Raises:
        ProviderError: a flag has a value of the wrong kind.
    """
    router = vendor_of(model) == "openrouter"
    found = {"sessionAffinityFormat": "openrouter" if router else "openai"}
    return _with_stated(model, {"sendSessionAffinityHeaders": True, **found})


def _with_stated(model: Model, found: dict[str, Any]) -> Compat:
    stated = {key: value for key, value in (model.compat or {}).items() if value is not None}
    try:
        return msgspec.convert({**found, **stated}, Compat)
    except msgspec.ValidationError as error:
        raise ProviderError(
            f"The compat settings of model {model.key} cannot be used: {error}", kind="bad_request"
        ) from error


# ---------------------------------------------------------------- thinking


class Effort(Value):
    """How hard a model is asked to think, in the words of its server.

    `word` is the mapped level; `mapped` says that the model itself names it. While off, `word` is
    what the model's map says for off, and `may_turn_off` is False where the map says null.
    """

    on: bool
    level: ThinkingLevel
    word: str | None
    mapped: bool
    may_turn_off: bool
    budget: int | None


def effort_of(
    model: Model, compat: Compat, level: ThinkingLevel, budgets: Mapping[str, int]
) -> Effort:
    named = {**compat.reasoning_effort_map, **(model.thinking_level_map or {})}
    if level != "off":
        level = clamp_thinking(model, level)
    if level == "off":
        word = named.get("off")
        stays_on = "off" in named and word is None
        return Effort(
            on=False, level=level, word=word, mapped=False, may_turn_off=not stays_on, budget=None
        )
    return Effort(
        on=True,
        level=level,
        word=named.get(level) or level,
        mapped=named.get(level) is not None,
        may_turn_off=True,
        budget=budgets.get(level, DEFAULT_BUDGETS.get(level)),
    )


def thinking_fields(model: Model, compat: Compat, effort: Effort) -> dict[str, Any]:
    """The fields of a Chat Completions request that turn thinking on or off."""
    if not model.reasoning:
        return {}
    fields = _FORMATS[compat.thinking_format](compat, effort)
    budget_field = compat.thinking_token_budget_field or (
        "thinking_token_budget" if compat.supports_thinking_token_budget else None
    )
    if budget_field and effort.on and effort.budget is not None:
        fields[budget_field] = effort.budget
    return fields


def _effort(compat: Compat, effort: Effort) -> dict[str, Any]:
    if not compat.supports_reasoning_effort or not effort.on:
        return {}
    return {"reasoning_effort": effort.word}


def _openai(compat: Compat, effort: Effort) -> dict[str, Any]:
    if not compat.supports_reasoning_effort or effort.word is None:
        return {}
    return {"reasoning_effort": effort.word}


def _openrouter(compat: Compat, effort: Effort) -> dict[str, Any]:
    return {"reasoning": {"effort": effort.word or "none"}} if effort.may_turn_off else {}


def _deepseek(compat: Compat, effort: Effort) -> dict[str, Any]:
    if not effort.may_turn_off:
        return {}
    state = "enabled" if effort.on else "disabled"
    return {"thinking": {"type": state}, **_effort(compat, effort)}


def _zai(compat: Compat, effort: Effort) -> dict[str, Any]:
    if not effort.on:
        return {"thinking": {"type": "disabled"}}
    thinking = {"type": "enabled", "clear_thinking": False}
    return {"thinking": thinking, **_effort(compat, effort)}


def _qwen(compat: Compat, effort: Effort) -> dict[str, Any]:
    return {"enable_thinking": effort.on, **_effort(compat, effort)}


def _qwen_template(compat: Compat, effort: Effort) -> dict[str, Any]:
    return {"chat_template_kwargs": {"enable_thinking": effort.on, "preserve_thinking": True}}


def _template(compat: Compat, effort: Effort) -> dict[str, Any]:
    values = _filled(compat.chat_template_kwargs, effort)
    return {"chat_template_kwargs": values} if values else {}


def _baseten(compat: Compat, effort: Effort) -> dict[str, Any]:
    values = _filled(compat.chat_template_args, effort)
    fields = {"chat_template_args": values} if values else {}
    return {**fields, **_effort(compat, effort)}


def _together(compat: Compat, effort: Effort) -> dict[str, Any]:
    return {"reasoning": {"enabled": effort.on}, **_effort(compat, effort)}


def _string(compat: Compat, effort: Effort) -> dict[str, Any]:
    return {"thinking": effort.word or "none"}


def _ant_ling(compat: Compat, effort: Effort) -> dict[str, Any]:
    return {"reasoning": {"effort": effort.word}} if effort.mapped else {}


_FORMATS: Mapping[ThinkingFormat, Callable[[Compat, Effort], dict[str, Any]]] = {
    "openai": _openai,
    "openrouter": _openrouter,
    "deepseek": _deepseek,
    "zai": _zai,
    "qwen": _qwen,
    "qwen-chat-template": _qwen_template,
    "chat-template": _template,
    "baseten": _baseten,
    "together": _together,
    "string-thinking": _string,
    "ant-ling": _ant_ling,
}


def _filled(template: Mapping[str, Any], effort: Effort) -> dict[str, Any]:
    """A chat template's values, with `{"$var": …}` replaced by what it stands for."""
    known = {
        "thinking.enabled": effort.on,
        "thinking.effort": effort.word,
        "thinking.budget": effort.budget,
    }
    filled: dict[str, Any] = {}
    for name, value in template.items():
        if not isinstance(value, dict) or "$var" not in value:
            filled[name] = value
        elif effort.on or not value.get("omitWhenOff"):
            filled[name] = known.get(value["$var"])
    return {name: value for name, value in filled.items() if value is not None}
