"""Request bodies of the Anthropic Messages API, joined from cached pieces."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from ludolf.ai.encoded_cache import EncodedHistory
from ludolf.ai.errors import ProviderError
from ludolf.ai.history import ModelMessage
from ludolf.ai.messages import (
    AssistantMessage,
    Block,
    Image,
    Part,
    Text,
    Thinking,
    ThinkingLevel,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ludolf.ai.models import Model, ModelCost
from ludolf.ai.provider import Request, ToolSpec
from ludolf.ai.providers.anthropic.tool_references import knows_references, loaded_by, referenced
from ludolf.ai.providers.gateways import base_url
from ludolf.ai.strict_schema import sampled_schema
from ludolf.ai.tool_schema import claude_schema
from ludolf.base import Value, dumps, without_surrogates

BUDGETS: dict[ThinkingLevel, int] = {
    "minimal": 1024,
    "low": 2048,
    "medium": 8192,
    "high": 16384,
    "xhigh": 16384,
    "max": 16384,
}
_EFFORTS: dict[ThinkingLevel, str] = {"minimal": "low", "low": "low", "medium": "medium"}
_LEAST = 1024  # smallest budget that the API accepts, and minimum left for the answer
_NO_OUTPUT = "(no tool output)"
_MAX_FALLBACKS = 3
# Schema keywords that this API refuses in strict mode, unlike others.
_NO_CONSTRAINTS = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
)


# Flags of all models of these providers; the address alone does not determine them.
_SHIPPED: Mapping[str, Mapping[str, bool]] = {
    "fireworks": {
        "allowEmptySignature": True,
        "sendSessionAffinityHeaders": True,
        "supportsEagerToolInputStreaming": False,
        "supportsCacheControlOnTools": False,
        "supportsLongCacheRetention": False,
    },
    "vercel-ai-gateway": {"allowEmptySignature": True},
    "kimi-coding": {"forceAdaptiveThinking": True},
    "cloudflare-ai-gateway": {"sendSessionAffinityHeaders": True},
}


def flag(model: Model, name: str, default: bool) -> bool:
    flag = (model.compat or {}).get(name)
    if flag is None:
        return _SHIPPED.get(model.provider, {}).get(name, default)
    return bool(flag)


class Fallback(Value):
    """A model that the server may use instead when the first one refuses."""

    model: str
    cost: ModelCost | None = None


def fallbacks(model: Model) -> tuple[Fallback, ...]:
    """Return the fallback models of a model.

    Raises:
        ProviderError: the model's `allowedFallbackModels` are invalid.
    """
    entries = (model.compat or {}).get("allowedFallbackModels") or ()
    try:
        return msgspec.convert(entries, tuple[Fallback, ...])[:_MAX_FALLBACKS]
    except msgspec.ValidationError as error:
        raise ProviderError(
            f"The compat settings of model {model.key} cannot be used: {error}", kind="bad_request"
        ) from error


class AnthropicRequestBuilder(EncodedHistory):
    """Builds request bodies; caches the encoded form of each message."""

    def __init__(self) -> None:
        super().__init__()
        self._model: Model | None = None
        self._deferred: frozenset[str] = frozenset()
        self._done: list[ModelMessage] = []
        self._turns: list[bytes] = []
        self._last_user = -1
        self._in_results = False

    def build(self, request: Request) -> bytes:
        messages = self.messages_of(request)
        variant = (request.model, deferred_tools(request, messages))
        if variant != (self._model, self._deferred) or messages[: len(self._done)] != self._done:
            (self._model, self._deferred), self._done, self._turns = variant, [], []
            self._last_user, self._in_results = -1, False
        for message in messages[len(self._done) :]:
            self._add(message, request.model)
        self._done = messages
        out = [b'{"model":', dumps(request.model.id), b',"messages":[']
        out += self._marked(cache_marker(request))
        out.append(b"]")
        for name, value in _options(request, self._deferred):
            out += (b',"', name, b'":', value)
        out.append(b',"stream":true}')
        return b"".join(out)

    def _add(self, message: ModelMessage, model: Model) -> None:
        piece, end = self._encoded(message, model)
        if not piece:
            return
        turns = self._turns
        is_result = isinstance(message, ToolResultMessage)
        if is_result and self._in_results:
            # Texts of earlier results come after the last result.
            end = turns[-1][: -len(_END)] + end
            turns[-1] = b","
        else:
            turns.append(_HEADS[type(message)] if turns else _HEADS[type(message)][1:])
        turns += (piece, end)
        self._in_results = is_result
        if not isinstance(message, AssistantMessage):
            self._last_user = len(turns) - 2

    def _encoded(self, message: ModelMessage, model: Model) -> tuple[bytes, bytes]:
        """Return the content of a message, and what ends the turn after it."""
        names = [name for name in loaded_by(message) if name in self._deferred]
        if names and isinstance(message, ToolResultMessage):
            # Not cached: the form depends on the tools of the request.
            return _references(message, names)
        return self.pieces.get(message, partial(_piece, message, model)), _END

    def _marked(self, marker: bytes) -> list[bytes]:
        turns, index = self._turns, self._last_user
        if not marker or index < 0:
            return turns
        # A piece ends with the brace of its last block: insert the marker before it.
        marked = turns[index][:-1] + marker + b"}"
        return [*turns[:index], marked, *turns[index + 1 :]]


_END = b"]}"
_USER = b',{"role":"user","content":['
_HEADS: dict[type, bytes] = {
    UserMessage: _USER,
    ToolResultMessage: _USER,
    AssistantMessage: b',{"role":"assistant","content":[',
}


def cache_marker(request: Request) -> bytes:
    """Return the marker for the end of a cacheable prefix."""
    if request.cache == "none":
        return b""
    if request.cache == "long" and flag(request.model, "supportsLongCacheRetention", True):
        return b',"cache_control":{"type":"ephemeral","ttl":"1h"}'
    return b',"cache_control":{"type":"ephemeral"}'


# ---------------------------------------------------------------- messages


def _piece(message: ModelMessage, model: Model) -> bytes:
    """Return the content blocks of a message, joined; empty if nothing is to be sent."""
    match message:
        case UserMessage():
            blocks: Iterable[dict[str, Any]] = _parts(message.parts)
        case AssistantMessage():
            unsigned = flag(model, "allowEmptySignature", False)
            forms = (_assistant_block(block, unsigned) for block in message.content)
            blocks = _concluded(list(filter(None, forms)))
        case ToolResultMessage():
            blocks = (_result_block(message),)
    return b",".join(map(dumps, blocks))


def _parts(parts: Iterable[Part]) -> Iterator[dict[str, Any]]:
    for part in parts:
        if isinstance(part, Image):
            source = {"type": "base64", "media_type": part.mime_type, "data": part.data}
            yield {"type": "image", "source": source}
        elif part.text.strip():
            yield {"type": "text", "text": part.text}


def _assistant_block(block: Block, unsigned: bool) -> dict[str, Any] | None:
    match block:
        case Text():
            return {"type": "text", "text": block.text} if block.text.strip() else None
        case ToolCall():
            return {
                "type": "tool_use",
                "id": block.id,
                "name": block.name,
                # The API refuses arguments that are not an object; the tool result explains it to
                # the model.
                "input": block.arguments if isinstance(block.arguments, dict) else {},
            }
        case Thinking():
            return _thinking_block(block, unsigned)


def _concluded(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop thinking at the end that led to no output: the API refuses it."""
    while blocks and blocks[-1]["type"] in ("thinking", "redacted_thinking"):
        blocks.pop()
    return blocks


def _thinking_block(block: Thinking, unsigned: bool) -> dict[str, Any] | None:
    signature = block.thinking_signature or ""
    if block.redacted:
        return {"type": "redacted_thinking", "data": signature} if signature else None
    if signature or (unsigned and block.thinking.strip()):
        return {"type": "thinking", "thinking": block.thinking, "signature": signature}
    return {"type": "text", "text": block.thinking} if block.thinking.strip() else None


def _result_block(message: ToolResultMessage) -> dict[str, Any]:
    content: str | list[dict[str, Any]]
    if any(isinstance(part, Image) for part in message.content):
        content = list(_parts(message.content))
        if all(part["type"] == "image" for part in content):
            content.insert(0, {"type": "text", "text": "(see attached image)"})
    else:
        content = "\n".join(part.text for part in message.content if isinstance(part, Text))
        if message.is_error and not content.strip():
            content = _NO_OUTPUT  # the API refuses a failure without text
    return {
        "type": "tool_result",
        "tool_use_id": message.tool_call_id,
        "content": content,
        "is_error": message.is_error,
    }


def _references(message: ToolResultMessage, names: Sequence[str]) -> tuple[bytes, bytes]:
    """Return the result of a search, and the end of its turn.

    References replace the first part of the result, which describes the tools. A result that holds
    references may hold nothing else, so further parts follow as texts of the user's turn.
    """
    content = [{"type": "tool_reference", "tool_name": name} for name in names]
    texts = b"".join(b"," + dumps(part) for part in _parts(message.content[1:]))
    return dumps({**_result_block(message), "content": content}), texts + _END


def deferred_tools(request: Request, messages: Sequence[ModelMessage]) -> frozenset[str]:
    """Return the names of the tools to send with `defer_loading`.

    The model does not see a deferred tool without a reference, so a tool whose search is no longer
    in the conversation is sent as an ordinary one. The API refuses requests without ordinary tools.
    """
    names = frozenset(tool.name for tool in request.tools if tool.deferred)
    if not names or len(names) == len(request.tools):
        return frozenset()
    known = knows_references(request.model, base_url(request))
    if not flag(request.model, "supportsToolReferences", known):
        return frozenset()
    return names & referenced(messages)


# ---------------------------------------------------------------- options


def _options(request: Request, deferred: frozenset[str]) -> Iterator[tuple[bytes, bytes]]:
    marker = cache_marker(request)
    limit, thinking = thinking_of(request)
    yield b"max_tokens", str(limit).encode()
    if request.system.strip():
        text = dumps(without_surrogates(request.system))
        yield b"system", b'[{"type":"text","text":%b%b}]' % (text, marker)
    if request.tools:
        on_tools = marker if flag(request.model, "supportsCacheControlOnTools", True) else b""
        ordinary = [tool for tool in request.tools if tool.name not in deferred]
        forms = [dumps(_tool(tool, request.model)) for tool in ordinary]
        forms[-1] = forms[-1][:-1] + on_tools + b"}"
        late = (_tool(tool, request.model) for tool in request.tools if tool.name in deferred)
        forms += [dumps({**form, "defer_loading": True}) for form in late]
        yield b"tools", b"[%b]" % b",".join(forms)
    if thinking is not None:
        yield b"thinking", dumps(thinking)
    if thinking is not None and thinking["type"] == "adaptive":
        yield b"output_config", dumps({"effort": effort_of(request)})
    if others := fallbacks(request.model):
        yield b"fallbacks", dumps([{"model": other.model} for other in others])


def _tool(tool: ToolSpec, model: Model) -> dict[str, Any]:
    schema, strict = sampled_schema(
        tool.name,
        tool.parameters,
        tool.sampling,
        supported=flag(model, "supportsStrictTools", False),
        refused=_NO_CONSTRAINTS,
    )
    form: dict[str, Any] = {
        "name": tool.name,
        "description": without_surrogates(tool.description),
        "input_schema": claude_schema(schema),
    }
    if has_eager_tools(model):
        form["eager_input_streaming"] = True
    return {**form, "strict": True} if strict else form


def has_eager_tools(model: Model) -> bool:
    return flag(model, "supportsEagerToolInputStreaming", True)


def thinking_of(request: Request) -> tuple[int, dict[str, Any] | None]:
    """Return the output limit and the thinking option, which share one token budget."""
    model, level = request.model, request.thinking
    limit = min(request.max_tokens or model.max_tokens, model.max_tokens)
    if not model.reasoning:
        return limit, None
    if level == "off":
        can_be_off = (model.thinking_level_map or {}).get("off", "off") is not None
        return limit, {"type": "disabled"} if can_be_off else None
    if flag(model, "forceAdaptiveThinking", False):
        return limit, {"type": "adaptive", "display": "summarized"}
    budget = request.thinking_budgets.get(level, BUDGETS[level])
    limit = min(limit + budget, model.max_tokens)
    budget = min(budget, limit - _LEAST)
    if budget < _LEAST:
        return limit, {"type": "disabled"}
    return limit, {"type": "enabled", "budget_tokens": budget, "display": "summarized"}


def effort_of(request: Request) -> str:
    """Return the effort for a model that chooses its own thinking budget."""
    mapped = (request.model.thinking_level_map or {}).get(request.thinking)
    return mapped or _EFFORTS.get(request.thinking, "high")
