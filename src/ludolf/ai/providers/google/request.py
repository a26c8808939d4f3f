"""Requests of Google's API: contents, tools, thinking."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ludolf.ai.encoded_cache import Pieces
from ludolf.ai.history import HistoryAdapter, ModelMessage, plain_id
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
    text_of,
)
from ludolf.ai.models import Model
from ludolf.ai.provider import Request, ToolSpec
from ludolf.ai.strict_schema import sampled_schema
from ludolf.base import dumps, without_surrogates

SEE_IMAGE = "(see attached image)"
IMAGE_TURN = "Tool result image:"
# Gemini 3 refuses calls without a signature; Google accepts this value for foreign calls.
_UNSIGNED_CALL = "skip_thought_signature_validator"
_GEMINI_3_UP = re.compile(r"gemini-(?:[3-9]|[1-9]\d)|gemini-(?:flash|flash-lite|pro)-latest")
_GEMINI_BELOW_3 = re.compile(r"gemini-(?:live-)?[12](?!\d)")
_WANTS_IDS = re.compile(r"(?:^|/)(?:claude-|gpt-oss-)")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class GoogleRequestBuilder:
    """Builds request bodies; caches the encoded form of each message."""

    def __init__(self) -> None:
        self._handoff = HistoryAdapter(plain_id)
        self._pieces = Pieces()
        self._model_key = ""

    def build(self, request: Request) -> bytes:
        messages = self._handoff.adapt(request.messages, request.model)
        self._forget_others(request.model, messages)
        head = b'{"contents":[' + b",".join(self._turns(messages, request.model)) + b"]"
        return head + b"".join(b',"%b":%b' % part for part in _options(request)) + b"}"

    def _forget_others(self, model: Model, messages: Sequence[ModelMessage]) -> None:
        if model.key != self._model_key:
            self._model_key = model.key
            self._pieces = Pieces()
        elif messages:
            self._pieces.keep_for(messages[0])

    def _turns(self, messages: Sequence[ModelMessage], model: Model) -> Iterator[bytes]:
        batch: list[bytes] = []
        pictures: list[bytes] = []
        for message in messages:
            if isinstance(message, ToolResultMessage):
                batch.append(self._result(message, model))
                pictures += _pictures(message, model)
                continue
            yield from _close_batch(batch, pictures)
            turn = self._turn(message, model)
            if turn:
                yield turn
        yield from _close_batch(batch, pictures)

    def _turn(self, message: UserMessage | AssistantMessage, model: Model) -> bytes:
        if isinstance(message, UserMessage):
            return self._pieces.get(message, lambda: _user(message))
        return self._pieces.get(message, lambda: _assistant(message, model))

    def _result(self, message: ToolResultMessage, model: Model) -> bytes:
        return self._pieces.get(message, lambda: dumps(_response(message, model)))


def is_gemini_3_up(model: Model) -> bool:
    return _GEMINI_3_UP.search(model.id) is not None


def _takes_pictures_in_results(model: Model) -> bool:
    return _GEMINI_BELOW_3.search(model.id) is None


# ---------------------------------------------------------------- turns


def _close_batch(batch: list[bytes], pictures: list[bytes]) -> Iterator[bytes]:
    if batch:
        yield _user_turn(b",".join(batch))
    if pictures:
        yield _user_turn(b",".join((dumps({"text": IMAGE_TURN}), *pictures)))
    batch.clear()
    pictures.clear()


def _pictures(message: ToolResultMessage, model: Model) -> list[bytes]:
    if _takes_pictures_in_results(model):
        return []
    return [dumps(_inline(part)) for part in message.content if isinstance(part, Image)]


def _user_turn(parts: bytes) -> bytes:
    return b'{"role":"user","parts":[%b]}' % parts


def _user(message: UserMessage) -> bytes:
    content = message.content
    source_parts: tuple[Part, ...] = (Text(text=content),) if isinstance(content, str) else content
    parts = [
        _inline(part) if isinstance(part, Image) else {"text": part.text}
        for part in source_parts
        if isinstance(part, Image) or part.text.strip()
    ]
    return dumps({"role": "user", "parts": parts}) if parts else b""


def _assistant(message: AssistantMessage, model: Model) -> bytes:
    parts = [part for block in message.content if (part := _block(block, model)) is not None]
    return dumps({"role": "model", "parts": parts}) if parts else b""


def _block(block: Block, model: Model) -> dict[str, Any] | None:
    match block:
        case Text():
            signed = _signature(block.text_signature)
            return {"text": block.text, **signed} if block.text.strip() or signed else None
        case Thinking():
            signed = _signature(block.thinking_signature)
            return {"thought": True, "text": block.thinking, **signed}
        case ToolCall():
            return _call(block, model)


def _call(call: ToolCall, model: Model) -> dict[str, Any]:
    signed = _signature(call.thought_signature)
    if not signed and is_gemini_3_up(model):
        signed = {"thoughtSignature": _UNSIGNED_CALL}
    # The API refuses arguments that are not an object; the tool response explains it to the model.
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    function = {"name": call.name, "args": arguments, **_id(call.id, model)}
    return {"functionCall": function, **signed}


def _response(message: ToolResultMessage, model: Model) -> dict[str, Any]:
    images = [_inline(part) for part in message.content if isinstance(part, Image)]
    text = text_of(message.content, "\n") or (SEE_IMAGE if images else "")
    answer: dict[str, Any] = {
        "name": message.tool_name,
        "response": {"error" if message.is_error else "output": text},
        **_id(message.tool_call_id, model),
    }
    if images and _takes_pictures_in_results(model):
        answer["parts"] = images
    return {"functionResponse": answer}


def _inline(image: Image) -> dict[str, Any]:
    return {"inlineData": {"mimeType": image.mime_type, "data": image.data}}


def _id(call_id: str, model: Model) -> dict[str, str]:
    if is_gemini_3_up(model) or _WANTS_IDS.search(model.id):
        return {"id": call_id}
    return {}


def _signature(signature: str | None) -> dict[str, str]:
    if signature and len(signature) % 4 == 0 and _BASE64.fullmatch(signature):
        return {"thoughtSignature": signature}
    return {}


# ---------------------------------------------------------------- options


def _options(request: Request) -> Iterator[tuple[bytes, bytes]]:
    if request.system:
        text = without_surrogates(request.system)
        yield b"systemInstruction", dumps({"parts": [{"text": text}]})
    if request.tools:
        strict = is_gemini_3_up(request.model)
        declared = [_declare(tool, strict=strict) for tool in request.tools]
        yield b"tools", dumps([{"functionDeclarations": [form for form, _ in declared]}])
        if any(enforced for _, enforced in declared):
            yield b"toolConfig", b'{"functionCallingConfig":{"mode":"VALIDATED"}}'
    config: dict[str, Any] = {}
    if limit := request.max_tokens or request.model.max_tokens:
        config["maxOutputTokens"] = limit
    if request.model.reasoning:
        config["thinkingConfig"] = thinking_config(
            request.model, request.thinking, request.thinking_budgets
        )
    config |= request.model.sampling_params or {}
    if config:
        yield b"generationConfig", dumps(config)


def _declare(tool: ToolSpec, *, strict: bool) -> tuple[dict[str, Any], bool]:
    """Return the declaration of a tool, and whether its schema is to be enforced."""
    schema, enforced = sampled_schema(tool.name, tool.parameters, tool.sampling, supported=strict)
    form = {
        "name": tool.name,
        "description": tool.description,
        "parametersJsonSchema": schema,
    }
    return form, enforced


# ---------------------------------------------------------------- thinking

# Models with levels and their names for minimal, low, medium, high; the first match counts.
_LEVELS: tuple[tuple[re.Pattern[str], tuple[str, str, str, str]], ...] = (
    (re.compile(r"gemini-3-pro"), ("LOW", "LOW", "HIGH", "HIGH")),
    (re.compile(r"gemini-[3-9][.\d]*-pro|gemini-pro-latest"), ("LOW", "LOW", "MEDIUM", "HIGH")),
    (_GEMINI_3_UP, ("MINIMAL", "LOW", "MEDIUM", "HIGH")),
    (re.compile(r"gemma-?4"), ("MINIMAL", "MINIMAL", "HIGH", "HIGH")),
)
_BUDGETS: tuple[tuple[re.Pattern[str], tuple[int, int, int, int]], ...] = (
    (re.compile(r"2\.5-pro"), (128, 2048, 8192, 32768)),
    (re.compile(r"2\.5-flash-lite"), (512, 2048, 8192, 24576)),
    (re.compile(r"2\.5-flash"), (128, 2048, 8192, 24576)),
)
_PLACE: dict[ThinkingLevel, int] = {"minimal": 0, "low": 1, "medium": 2}
_HIGHEST = 3


def thinking_config(
    model: Model, level: ThinkingLevel, budgets: Mapping[str, int]
) -> dict[str, Any]:
    """Return the thinking options: a named level for newer models, a token budget for others."""
    names = next((names for pattern, names in _LEVELS if pattern.search(model.id)), None)
    if level == "off":
        return _least(model, names)
    index = _PLACE.get(level, _HIGHEST)
    if names is not None:
        mapped = (model.thinking_level_map or {}).get(level)
        return {"includeThoughts": True, "thinkingLevel": (mapped or names[index]).upper()}
    usual = next((sizes[index] for pattern, sizes in _BUDGETS if pattern.search(model.id)), -1)
    return {"includeThoughts": True, "thinkingBudget": budgets.get(level, usual)}


def _least(model: Model, names: tuple[str, str, str, str] | None) -> dict[str, Any]:
    if names is not None:
        return {"thinkingLevel": names[0]}
    # Gemini 2.5 Pro cannot stop thinking and refuses a budget of 0.
    return {"thinkingBudget": 128 if "2.5-pro" in model.id else 0}
