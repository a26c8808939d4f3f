"""The JSON Schema of models.json, made of its types: for editors, and for who writes such files."""

from pathlib import Path
from typing import Any

import msgspec

from ludolf.ai.messages import THINKING_LEVELS
from ludolf.config.models.models_shape import ModelsDocument

FILE = Path(__file__).with_name("models.schema.json")
_TITLE = "models.json of Ludolf and pi"

_FLAGS: dict[str, str] = {
    "supportsStore": "Takes `store`.",
    "supportsDeveloperRole": "Takes the role `developer` for the system prompt.",
    "supportsReasoningEffort": "Takes `reasoning_effort`.",
    "supportsUsageInStreaming": "Tells the usage in a stream when asked to.",
    "supportsFinishReason": "Says why an answer ended.",
    "maxTokensField": "The field for the longest answer.",
    "requiresToolResultName": "A tool result must repeat the tool's name.",
    "requiresAssistantAfterToolResult": "A user message may not follow a tool result.",
    "requiresThinkingAsText": "Earlier thinking goes back as text.",
    "requiresReasoningContentOnAssistantMessages": "Even empty thinking must go back.",
    "thinkingFormat": "How thinking is turned on and off.",
    "reasoningEffortMap": "Old name of the model's `thinkingLevelMap`.",
    "chatTemplateKwargs": 'For `chat-template`; {"$var": "thinking.enabled"} and the like.',
    "chatTemplateArgs": "The same for `baseten`.",
    "thinkingTokenBudgetField": "The field that limits the tokens of thinking.",
    "supportsThinkingTokenBudget": "Takes `thinking_token_budget`.",
    "supportsStrictMode": "Can hold tool calls to their schema (`strict`).",
    "supportsOpenAIGrammarTools": "Takes custom tools with a grammar.",
    "openRouterRouting": "Sent as `provider`.",
    "vercelGatewayRouting": "Sent as `providerOptions.gateway`: `only`, `order`.",
    "cacheControlFormat": "Marks what is to be cached.",
    "zaiToolStream": "Takes `tool_stream`.",
    "sendSessionAffinityHeaders": "Send headers that keep a session at one server.",
    "sessionAffinityFormat": "Which headers these are.",
    "supportsLongCacheRetention": "Can keep a cached prompt for long.",
    "supportsExplicitPromptCacheMode": "Takes `prompt_cache_options`.",
    "supportsMaxOutputTokens": "Takes `max_output_tokens`.",
    "supportsServiceTier": "Takes `service_tier`, which fast mode needs.",
    "vllmPriority": "Sent as `priority`.",
}
# Of the Anthropic API, where nothing gathers them in a type.
_ANTHROPIC: dict[str, str] = {
    "supportsEagerToolInputStreaming": "Takes `eager_input_streaming` on tools.",
    "supportsCacheControlOnTools": "Takes `cache_control` on tools.",
    "supportsTemperature": "Takes `temperature`.",
    "forceAdaptiveThinking": "The model chooses its own budget of thinking.",
    "allowEmptySignature": "Takes thinking back without a signature.",
    "supportsStrictTools": "Can hold tool calls to their schema (`strict`).",
    "supportsMidConvoEffort": "Takes another effort within a conversation.",
    "supportsMidConvoSystemMessages": "Takes system messages within a conversation.",
    "supportsMidConvoToolChanges": "Takes other tools within a conversation.",
}


def models_schema() -> dict[str, Any]:
    """The schema of models.json as a whole."""
    from ludolf.ai.providers.openai.compat import Compat

    _, made = msgspec.json.schema_components(
        (ModelsDocument, Compat), ref_template="#/$defs/{name}"
    )
    document = made.pop("ModelsDocument")
    document["properties"]["$schema"] = {"type": "string"}
    made["Compat"] = _compat(made["Compat"])
    made["ThinkingLevel"] = {"enum": list(THINKING_LEVELS)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_plain(document),
        "title": _TITLE,
        "$defs": {name: _plain(shape) for name, shape in sorted(made.items())},
    }


def schema_text() -> str:
    """The schema as the file that ships."""
    import json

    return json.dumps(models_schema(), indent=2, ensure_ascii=False) + "\n"


def _compat(shape: dict[str, Any]) -> dict[str, Any]:
    known = {
        name: {**rule, "description": _FLAGS[name]} if name in _FLAGS else rule
        for name, rule in shape["properties"].items()
    }
    flags = {name: {"type": "boolean", "description": text} for name, text in _ANTHROPIC.items()}
    fallbacks = {
        "description": "Models that the server may take instead, at most three.",
        "type": "array",
        "maxItems": 3,
    }
    return {
        "description": "How a server differs from the API it speaks.",
        "type": "object",
        "properties": {**known, **flags, "allowedFallbackModels": fallbacks},
    }


def _plain(shape: Any) -> Any:
    """Without what only says that a key may be left out."""
    if isinstance(shape, list):
        return [_plain(item) for item in shape]
    if not isinstance(shape, dict):
        return shape
    plain = {name: _plain(item) for name, item in shape.items()}
    if "default" in plain and plain.pop("default") is None and "anyOf" in plain:
        rest = [branch for branch in plain.pop("anyOf") if branch != {"type": "null"}]
        plain |= rest[0] if len(rest) == 1 else {"anyOf": rest}
    if plain.get("required") == []:
        del plain["required"]
    # A reference says all; beside it only the description may differ.
    if "$ref" in plain:
        plain = {name: plain[name] for name in ("description", "$ref") if name in plain}
    return plain
