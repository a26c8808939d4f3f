"""Request bodies of Bedrock's ConverseStream: turns, tools, cache points, thinking."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ludolf.ai.encoded_cache import EncodedHistory
from ludolf.ai.history import ModelMessage
from ludolf.ai.messages import (
    AssistantMessage,
    Block,
    Image,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ludolf.ai.models import Model
from ludolf.ai.provider import Request, ToolSpec
from ludolf.ai.providers.anthropic.request import effort_of, flag, thinking_of
from ludolf.ai.strict_schema import sampled_schema
from ludolf.ai.tool_schema import claude_schema
from ludolf.base import dumps, without_surrogates
from ludolf.base.patterns import lazy_pattern

EMPTY = "<empty>"
_BETA = "interleaved-thinking-2025-05-14"
_FORMATS = {
    "image/png": "png",
    "image/jpeg": "jpeg",
    "image/jpg": "jpeg",
    "image/gif": "gif",
    "image/webp": "webp",
}
_CLAUDE = lazy_pattern(r"claude-[a-z]+-(\d+)(?:-(\d{1,2})(?!\d))?")
_FIRST_ADAPTIVE = (4, 6)
_GOVERNMENT = ("us-gov.", "arn:aws-us-gov:")


class BedrockRequestBuilder(EncodedHistory):
    """Builds request bodies; caches the encoded form of each message."""

    def build(self, request: Request, variables: Mapping[str, str]) -> bytes:
        model = request.model
        messages = self.messages_of(request)
        mark = cache_point(request, variables)
        turns = b",".join(self._turns(messages, model, mark))
        rest = b"".join(b',"%b":%b' % part for part in _options(request, messages, mark))
        return b'{"messages":[%b]%b}' % (turns, rest)

    def _turns(self, messages: list[ModelMessage], model: Model, mark: bytes) -> Iterator[bytes]:
        """Merge adjacent messages of one role: Bedrock requires alternating roles."""
        turns: list[tuple[bytes, list[bytes]]] = []
        for message in messages:
            piece = self.pieces.get(message, partial(_piece, message, model))
            role = b"assistant" if isinstance(message, AssistantMessage) else b"user"
            if piece and turns and turns[-1][0] == role:
                turns[-1][1].append(piece)
            elif piece:
                turns.append((role, [piece]))
        last = max((at for at, (role, _) in enumerate(turns) if role == b"user"), default=-1)
        for at, (role, pieces) in enumerate(turns):
            if at == last and mark:
                pieces.append(mark)
            yield b'{"role":"%b","content":[%b]}' % (role, b",".join(pieces))


def is_claude(model: Model) -> bool:
    """Return whether a model is a Claude; for a profile, only its name may show this."""
    return "claude" in _plain(model.id) or "claude" in _plain(model.name)


def is_adaptive(model: Model) -> bool:
    """Return whether a Claude chooses its own thinking budget: from 4.6 on, or by its flags."""
    flag = (model.compat or {}).get("forceAdaptiveThinking")
    if flag is not None:
        return bool(flag)
    match = _CLAUDE.search(_plain(model.id)) or _CLAUDE.search(_plain(model.name))
    return match is not None and (int(match[1]), int(match[2] or 0)) >= _FIRST_ADAPTIVE


def _plain(name: str) -> str:
    return re.sub(r"[ .]", "-", name.lower())


def cache_point(request: Request, variables: Mapping[str, str]) -> bytes:
    """Return the marker for the end of a cacheable prefix; empty if the model has no cache."""
    forced = variables.get("AWS_BEDROCK_FORCE_CACHE") == "1"
    if request.cache == "none" or not (forced or is_claude(request.model)):
        return b""
    if request.cache == "long" and flag(request.model, "supportsLongCacheRetention", True):
        return b'{"cachePoint":{"type":"default","ttl":"1h"}}'
    return b'{"cachePoint":{"type":"default"}}'


# ---------------------------------------------------------------- messages


def _piece(message: ModelMessage, model: Model) -> bytes:
    """Return the content blocks of a message, joined; empty if nothing is to be sent."""
    match message:
        case UserMessage():
            blocks: Iterable[dict[str, Any]] = _parts(message.parts)
        case AssistantMessage():
            claude = is_claude(model)
            forms = (_assistant_block(block, claude) for block in message.content)
            blocks = filter(None, forms)
        case ToolResultMessage():
            blocks = (_result(message),)
    return b",".join(map(dumps, blocks))


def _parts(parts: Sequence[Part]) -> list[dict[str, Any]]:
    blocks = [
        _image(part) if isinstance(part, Image) else {"text": part.text}
        for part in parts
        if isinstance(part, Image) or part.text.strip()
    ]
    return blocks or [{"text": EMPTY}]


def _image(image: Image) -> dict[str, Any]:
    kind = _FORMATS.get(image.mime_type)
    if kind is None:
        return {"text": f"(image omitted: Bedrock does not take {image.mime_type})"}
    return {"image": {"format": kind, "source": {"bytes": image.data}}}


def _assistant_block(block: Block, claude: bool) -> dict[str, Any] | None:
    match block:
        case Text():
            return {"text": block.text} if block.text.strip() else None
        case Thinking():
            return _thinking_block(block, claude)
        case ToolCall():
            call = {"toolUseId": block.id, "name": block.name}
            return {"toolUse": {**call, "input": _without_empty_names(block.arguments)}}


def _thinking_block(block: Thinking, claude: bool) -> dict[str, Any] | None:
    signature = block.thinking_signature or ""
    if block.redacted:
        return {"reasoningContent": {"redactedContent": signature}} if signature else None
    if claude and signature:
        signed = {"text": block.thinking, "signature": signature}
        return {"reasoningContent": {"reasoningText": signed}}
    if not block.thinking.strip():
        return None
    if claude:
        return {"text": block.thinking}
    return {"reasoningContent": {"reasoningText": {"text": block.thinking}}}


def _without_empty_names(value: Any) -> Any:
    """Remove fields with an empty name, for which Bedrock refuses the whole request."""
    if isinstance(value, dict):
        return {name: _without_empty_names(item) for name, item in value.items() if name}
    if isinstance(value, list):
        return [_without_empty_names(item) for item in value]
    return value


def _result(message: ToolResultMessage) -> dict[str, Any]:
    return {
        "toolResult": {
            "toolUseId": message.tool_call_id,
            "content": _parts(message.content),
            "status": "error" if message.is_error else "success",
        }
    }


# ---------------------------------------------------------------- options


def _options(
    request: Request, messages: Sequence[ModelMessage], mark: bytes
) -> Iterator[tuple[bytes, bytes]]:
    if request.system.strip():
        text = dumps({"text": without_surrogates(request.system)})
        yield b"system", b"[%b]" % b",".join(filter(None, (text, mark)))
    limit, fields = _thinking(request)
    if limit:
        yield b"inferenceConfig", dumps({"maxTokens": limit})
    tools = [_tool(tool) for tool in request.tools] or list(_former_tools(messages))
    if tools:
        yield b"toolConfig", dumps({"tools": tools})
    if fields:
        yield b"additionalModelRequestFields", dumps(fields)


def _tool(tool: ToolSpec) -> dict[str, Any]:
    schema, _ = sampled_schema(tool.name, tool.parameters, tool.sampling, supported=False)
    return _tool_form(tool.name, tool.description, schema)


def _former_tools(messages: Sequence[ModelMessage]) -> Iterator[dict[str, Any]]:
    """Declare the tools of the history: Bedrock refuses calls if no tool is declared."""
    answers = (message for message in messages if isinstance(message, AssistantMessage))
    for name in dict.fromkeys(call.name for message in answers for call in message.tool_calls):
        yield _tool_form(name, "Not available any more.", {})


def _tool_form(name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    form = {"name": name, "inputSchema": {"json": claude_schema(parameters)}}
    text = without_surrogates(description)
    return {"toolSpec": {**form, "description": text} if text.strip() else form}


def _thinking(request: Request) -> tuple[int, dict[str, Any]]:
    """Return the output limit and the thinking fields of a Claude; other models have none."""
    model, level = request.model, request.thinking
    limit = min(request.max_tokens or model.max_tokens, model.max_tokens)
    if level == "off" or not model.reasoning or not is_claude(model):
        return limit, {}
    hidden = model.id.startswith(_GOVERNMENT)
    display = {} if hidden else {"display": "summarized"}
    if is_adaptive(model):
        thinking = {"type": "adaptive", **display}
        return limit, {"thinking": thinking, "output_config": {"effort": effort_of(request)}}
    limit, option = thinking_of(request)
    if option is None or option["type"] != "enabled":
        return limit, {}
    thinking = {"type": "enabled", "budget_tokens": option["budget_tokens"], **display}
    return limit, {"thinking": thinking, "anthropic_beta": [_BETA]}
