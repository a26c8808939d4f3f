"""Differences between servers with OpenAI's APIs: flags, detected by vendor or set on the model."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import Model, clamp_thinking
from ludolf.ai.provider import Request
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
BudgetField = Literal["thinking_token_budget", "thinking_budget", "thinking_budget_tokens"]
DEFAULT_BUDGETS: Mapping[str, int] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 16384,
    "max": 16384,
}
_LEAST_ANSWER = 1024  # tokens that thinking must leave for the answer


class Compat(Value):
    """Flags of a model's `compat`, by their names in models.json."""

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
    thinking_token_budget_field: BudgetField | None = None
    supports_thinking_token_budget: bool = False
    supports_strict_mode: bool = False
    supports_openai_grammar_tools: bool = msgspec.field(
        default=False, name="supportsOpenAIGrammarTools"
    )
    open_router_routing: dict[str, Any] | None = None
    vercel_gateway_routing: dict[str, Any] | None = None
    cache_control_format: Literal["anthropic"] | None = None
    zai_tool_stream: bool = False
    send_session_affinity_headers: bool = False
    session_affinity_format: Literal["openai", "openrouter", "openai-nosession"] = "openai"
    supports_long_cache_retention: bool = True
    supports_explicit_prompt_cache_mode: bool = False
    supports_max_output_tokens: bool = True
    supports_service_tier: bool = False
    vllm_priority: int | None = None


# ---------------------------------------------------------------- detection

_VENDORS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    # vendor, ids of its providers, substrings of its addresses
    ("openrouter", ("openrouter",), ("openrouter.ai",)),
    ("nvidia", ("nvidia",), ("api.nvidia.com",)),
    ("cerebras", ("cerebras",), ("cerebras.ai",)),
    ("xai", ("xai",), ("api.x.ai",)),
    ("together", ("together",), ("api.together.",)),
    ("chutes", ("chutes",), ("chutes.ai",)),
    ("deepseek", ("deepseek",), ("deepseek.com",)),
    ("zai", ("zai", "zai-coding-cn"), ("api.z.ai", "open.bigmodel.cn")),
    ("moonshot", ("moonshotai", "moonshotai-cn"), ("api.moonshot.",)),
    ("opencode", ("opencode", "opencode-go"), ("opencode.ai",)),
    ("cloudflare-gateway", ("cloudflare-ai-gateway",), ("gateway.ai.cloudflare.com",)),
    ("cloudflare", ("cloudflare-workers-ai",), ("api.cloudflare.com",)),
    ("ant-ling", ("ant-ling",), ("ant-ling.com",)),
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
_PLAIN: dict[str, Any] = {"supportsStore": False, "supportsDeveloperRole": False}
_STICKY: dict[str, Any] = {"sendSessionAffinityHeaders": True}
_SHORT: dict[str, Any] = {"supportsLongCacheRetention": False}
_OLD: dict[str, Any] = {"maxTokensField": "max_tokens"}
# Flags of all models of these providers; the address alone does not determine them.
_SHIPPED_CHAT: Mapping[str, dict[str, Any]] = {
    "huggingface": {"supportsDeveloperRole": False},
    "github-copilot": {**_PLAIN, "supportsReasoningEffort": False},
    "fireworks": {**_PLAIN, **_STICKY, **_SHORT},
    "baseten": {**_PLAIN, **_STICKY, **_SHORT, **_OLD},
    "cloudflare-workers-ai": _STICKY,
    "cloudflare-ai-gateway": _STICKY,
    "opencode": _OLD,
    "opencode-go": _OLD,
    "zai": {"zaiToolStream": True},
    "zai-coding-cn": {"zaiToolStream": True},
}
_SHIPPED_RESPONSES: Mapping[str, dict[str, Any]] = {
    "openai": {"supportsStrictMode": True},
    "cloudflare-ai-gateway": {"supportsStrictMode": True},
    "xai": _SHORT,
    "opencode": {"sessionAffinityFormat": "openai-nosession"},
    "opencode-go": {"sessionAffinityFormat": "openai-nosession"},
}


def vendor_of(model: Model) -> str:
    """Return the vendor of a model from its provider id or address; "" if unknown."""
    for vendor, ids, _ in _VENDORS:
        if model.provider in ids:
            return vendor
    for vendor, _, hosts in _VENDORS:
        if any(host in model.base_url for host in hosts):
            return vendor
    return ""


def chat_compat(model: Model) -> Compat:
    """Return the flags of a Chat Completions model; flags set on the model override detected ones.

    Raises:
        ProviderError: a flag has a value of the wrong type.
    """
    vendor = vendor_of(model)
    router = vendor == "openrouter"
    known = not router or model.id.startswith(("anthropic/", "openai/"))
    defaults: dict[str, Any] = {
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
        defaults["cacheControlFormat"] = "anthropic"
    compat = _with_stated(model, defaults | _SHIPPED_CHAT.get(model.provider, {}))
    # A model without thinking has nothing to replay.
    is_required = model.reasoning and compat.requires_reasoning_content_on_assistant_messages
    return compat.replace(requires_reasoning_content_on_assistant_messages=is_required)


def responses_compat(model: Model) -> Compat:
    """Return the flags of a Responses model.

    Raises:
        ProviderError: a flag has a value of the wrong type.
    """
    router = vendor_of(model) == "openrouter"
    azure = model.api == "azure-openai-responses"
    codex = model.api == "openai-codex-responses"
    own = "openai-nosession" if codex else "openai"
    defaults: dict[str, Any] = {
        "sendSessionAffinityHeaders": not azure,
        "sessionAffinityFormat": "openrouter" if router else own,
        "supportsLongCacheRetention": not azure and not codex,
        "supportsStrictMode": azure or codex or "api.openai.com" in model.base_url,
        "supportsServiceTier": codex or "api.openai.com" in model.base_url,
    }
    return _with_stated(model, defaults | _SHIPPED_RESPONSES.get(model.provider, {}))


def can_be_fast(model: Model) -> bool:
    """Return whether a model's server offers priority processing at a higher price."""
    if model.api not in ("openai-responses", "openai-codex-responses"):
        return False
    try:
        return responses_compat(model).supports_service_tier
    except ProviderError:
        return False


def _with_stated(model: Model, found: dict[str, Any]) -> Compat:
    flags = {key: value for key, value in (model.compat or {}).items() if value is not None}
    try:
        return msgspec.convert({**found, **flags}, Compat)
    except msgspec.ValidationError as error:
        raise ProviderError(
            f"The compat settings of model {model.key} cannot be used: {error}", kind="bad_request"
        ) from error


# ---------------------------------------------------------------- thinking


class Effort(Value):
    """Thinking effort, in the terms of the server.

    `word` is the mapped level; `mapped` is True if the model defines it. While thinking is off,
    `word` is the model's value for off, and `may_turn_off` is False if that value is null.
    """

    on: bool
    level: ThinkingLevel
    word: str | None
    mapped: bool
    may_turn_off: bool
    budget: int | None


def effort_of(request: Request, compat: Compat) -> Effort:
    model, level = request.model, request.thinking
    names = {**compat.reasoning_effort_map, **(model.thinking_level_map or {})}
    if level != "off":
        level = clamp_thinking(model, level)
    if level == "off":
        word = names.get("off")
        stays_on = "off" in names and word is None
        return Effort(
            on=False, level=level, word=word, mapped=False, may_turn_off=not stays_on, budget=None
        )
    return Effort(
        on=True,
        level=level,
        word=names.get(level) or level,
        mapped=names.get(level) is not None,
        may_turn_off=True,
        budget=_budget(request, level),
    )


def _budget(request: Request, level: ThinkingLevel) -> int | None:
    budget = request.thinking_budgets.get(level, DEFAULT_BUDGETS.get(level))
    limit = request.max_tokens or request.model.max_tokens
    if budget is None or not limit:
        return budget
    return min(budget, limit - _LEAST_ANSWER) if limit > _LEAST_ANSWER else None


def thinking_fields(model: Model, compat: Compat, effort: Effort) -> dict[str, Any]:
    """Return the fields of a Chat Completions request that control thinking."""
    if not model.reasoning:
        return {}
    fields = _switch_fields(compat, effort)
    budget_field = compat.thinking_token_budget_field or (
        "thinking_token_budget" if compat.supports_thinking_token_budget else None
    )
    if budget_field and effort.on and effort.budget is not None:
        fields[budget_field] = effort.budget
    return fields


def _switch_fields(compat: Compat, effort: Effort) -> dict[str, Any]:
    """Return the fields that switch thinking on or off, in the format of the server."""
    word = effort.word if compat.supports_reasoning_effort else None
    named = {} if word is None else {"reasoning_effort": word}
    # With a separate switch, the effort is sent only while thinking is on.
    when_on = named if effort.on else {}
    fields: dict[str, Any] = {}
    match compat.thinking_format:
        case "openai":
            fields = named
        case "openrouter" if effort.may_turn_off:
            fields = {"reasoning": {"effort": effort.word or "none"}}
        case "deepseek" if effort.may_turn_off:
            fields = {"thinking": {"type": "enabled" if effort.on else "disabled"}, **when_on}
        case "zai" if effort.on:
            fields = {"thinking": {"type": "enabled", "clear_thinking": False}, **when_on}
        case "zai":
            fields = {"thinking": {"type": "disabled"}}
        case "qwen":
            fields = {"enable_thinking": effort.on, **when_on}
        case "qwen-chat-template":
            values = {"enable_thinking": effort.on, "preserve_thinking": True}
            fields = {"chat_template_kwargs": values}
        case "chat-template":
            fields = _filled("chat_template_kwargs", compat.chat_template_kwargs, effort)
        case "baseten":
            fields = {**_filled("chat_template_args", compat.chat_template_args, effort), **named}
        case "together":
            fields = {"reasoning": {"enabled": effort.on}, **when_on}
        case "string-thinking" if effort.may_turn_off:
            fields = {"thinking": effort.word or "none"}
        case "ant-ling" if effort.mapped:
            fields = {"reasoning": {"effort": effort.word}}
    return fields


def _filled(field: str, template: Mapping[str, Any], effort: Effort) -> dict[str, Any]:
    """Fill a chat template's values: replace `{"$var": …}` by the value of the variable."""
    variables = {
        "thinking.enabled": effort.on,
        "thinking.effort": effort.word,
        "thinking.budget": effort.budget,
    }
    filled: dict[str, Any] = {}
    for name, value in template.items():
        if not isinstance(value, dict) or "$var" not in value:
            filled[name] = value
        elif effort.on or not value.get("omitWhenOff"):
            filled[name] = variables.get(value["$var"])
    values = {name: value for name, value in filled.items() if value is not None}
    return {field: values} if values else {}
