"""Generate the JSON Schema of models.json from its types."""

from pathlib import Path
from typing import Any

import msgspec

from ludolf.ai.messages import THINKING_LEVELS
from ludolf.config.models.models_file import ModelsDocument

FILE = Path(__file__).with_name("models.schema.json")
_TITLE = "models.json of Ludolf and pi"

_FLAGS: dict[str, str] = {
    "supportsStore": "Takes `store`.",
    "supportsDeveloperRole": "Accepts the role `developer` for the system prompt.",
    "supportsReasoningEffort": "Takes `reasoning_effort`.",
    "supportsUsageInStreaming": "Reports usage in a stream on request.",
    "supportsFinishReason": "Reports the reason why an answer ended.",
    "maxTokensField": "The field that limits the tokens of an answer.",
    "requiresToolResultName": "A tool result must repeat the tool's name.",
    "requiresAssistantAfterToolResult": "A user message may not follow a tool result.",
    "requiresThinkingAsText": "Earlier thinking is sent as text.",
    "requiresReasoningContentOnAssistantMessages": "Empty thinking must be sent too.",
    "thinkingFormat": "The parameter that turns thinking on and off.",
    "reasoningEffortMap": "Old name of the model's `thinkingLevelMap`.",
    "chatTemplateKwargs": 'For `chat-template`; {"$var": "thinking.enabled"} and the like.',
    "chatTemplateArgs": "The same for `baseten`.",
    "thinkingTokenBudgetField": "The field that limits the tokens of thinking.",
    "supportsThinkingTokenBudget": "Takes `thinking_token_budget`.",
    "supportsStrictMode": "Can hold tool calls to their schema (`strict`).",
    "supportsOpenAIGrammarTools": "Accepts custom tools with a grammar.",
    "openRouterRouting": "Sent as `provider`.",
    "vercelGatewayRouting": "Sent as `providerOptions.gateway`: `only`, `order`.",
    "cacheControlFormat": "Marks the parts of the prompt to cache.",
    "zaiToolStream": "Takes `tool_stream`.",
    "sendSessionAffinityHeaders": "Send headers that route a session to one server.",
    "sessionAffinityFormat": "The form of these headers.",
    "supportsLongCacheRetention": "Supports long retention of a cached prompt.",
    "supportsExplicitPromptCacheMode": "Takes `prompt_cache_options`.",
    "supportsMaxOutputTokens": "Takes `max_output_tokens`.",
    "supportsServiceTier": "Accepts `service_tier`, which fast mode needs.",
    "vllmPriority": "Sent as `priority`.",
}
# Keys of the Anthropic API, which are not collected in a type.
_ANTHROPIC: dict[str, str] = {
    "supportsEagerToolInputStreaming": "Accepts `eager_input_streaming` on tools.",
    "supportsCacheControlOnTools": "Accepts `cache_control` on tools.",
    "supportsTemperature": "Takes `temperature`.",
    "forceAdaptiveThinking": "The model chooses its thinking budget.",
    "allowEmptySignature": "Accepts earlier thinking without a signature.",
    "supportsStrictTools": "Can hold tool calls to their schema (`strict`).",
    "supportsToolReferences": "Accepts `defer_loading` on tools and `tool_reference` in results.",
    "supportsMidConvoEffort": "Accepts a change of effort within a conversation.",
    "supportsMidConvoSystemMessages": "Accepts system messages within a conversation.",
    "supportsMidConvoToolChanges": "Accepts a change of tools within a conversation.",
}


def models_schema() -> dict[str, Any]:
    """Return the schema of models.json."""
    from ludolf.ai.providers.openai.compat import Compat

    _, definitions = msgspec.json.schema_components(
        (ModelsDocument, Compat), ref_template="#/$defs/{name}"
    )
    document = definitions.pop("ModelsDocument")
    document["properties"]["$schema"] = {"type": "string"}
    definitions["Compat"] = _compat(definitions["Compat"])
    definitions["ThinkingLevel"] = {"enum": list(THINKING_LEVELS)}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_plain(document),
        "title": _TITLE,
        "$defs": {name: _plain(shape) for name, shape in sorted(definitions.items())},
    }


def schema_text() -> str:
    """Return the text of the shipped schema file."""
    import json

    return json.dumps(models_schema(), indent=2, ensure_ascii=False) + "\n"


def _compat(shape: dict[str, Any]) -> dict[str, Any]:
    known = {
        name: {**rule, "description": _FLAGS[name]} if name in _FLAGS else rule
        for name, rule in shape["properties"].items()
    }
    flags = {name: {"type": "boolean", "description": text} for name, text in _ANTHROPIC.items()}
    fallbacks = {
        "description": "Fallback models for the server, at most three.",
        "type": "array",
        "maxItems": 3,
    }
    return {
        "description": "Differences of a server from its API.",
        "type": "object",
        "properties": {**known, **flags, "allowedFallbackModels": fallbacks},
    }


def _plain(shape: Any) -> Any:
    """Return a schema without the parts that only make a key optional."""
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
    # Next to a reference, only the description may differ.
    if "$ref" in plain:
        plain = {name: plain[name] for name in ("description", "$ref") if name in plain}
    return plain
