"""Requests of Mistral's API: messages, tools, thinking."""

import hashlib
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

from ludolf.ai.encoded_cache import Pieces
from ludolf.ai.history import HistoryAdapter, ModelMessage
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
    text_of,
)
from ludolf.ai.models import Model
from ludolf.ai.provider import Request, ToolSpec
from ludolf.ai.providers.openai.shared import NO_OUTPUT, cache_key, data_url, join_body
from ludolf.ai.strict_schema import sampled_schema
from ludolf.base import dumps, without_surrogates

_SEE_IMAGE = "(see attached image)"
_TOOL_ERROR = "[tool error] "
# Mistral refuses a user message directly after a tool result.
_AFTER_TOOLS = dumps({"role": "assistant", "content": "The tool results have been read."})
_ID = re.compile(r"[A-Za-z0-9]{9}")
_ID_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_WITH_EFFORT = re.compile(r"mistral-small-(?:2603|latest)|mistral-medium-|zai-")


class Ids:
    """Unique ids of nine letters or digits for foreign calls.

    Some servers restart their ids with each answer: the time of the answer distinguishes calls.
    """

    def __init__(self) -> None:
        self._short: dict[tuple[str, int], str] = {}
        self._used: set[str] = set()

    def normal(self, call_id: str, source: AssistantMessage) -> str:
        call = (call_id, source.timestamp)
        if call not in self._short:
            tries = 0
            short = call_id if _ID.fullmatch(call_id) else _hashed(call_id, tries)
            while short in self._used:
                tries += 1
                short = _hashed(call_id, tries)
            self._used.add(short)
            self._short[call] = short
        return self._short[call]


def _hashed(text: str, tries: int) -> str:
    digest = hashlib.sha256(f"{tries} {text}".encode("utf-8", "replace")).digest()
    return "".join(_ID_LETTERS[byte % len(_ID_LETTERS)] for byte in digest[:9])


class MistralRequestBuilder:
    """Builds request bodies; caches the encoded form of each message."""

    def __init__(self) -> None:
        self._handoff = HistoryAdapter(Ids().normal)
        self._pieces = Pieces()
        self._model: Model | None = None

    def build(self, request: Request) -> bytes:
        messages = self._handoff.adapt(request.messages, request.model)
        if request.model != self._model:
            self._pieces, self._model = Pieces(), request.model
        elif messages:
            self._pieces.keep_for(messages[0])
        return join_body(_options(request), "messages", self._all(request, messages))

    def _all(self, request: Request, messages: Sequence[ModelMessage]) -> list[bytes]:
        out: list[bytes] = []
        if request.system.strip():
            text = without_surrogates(request.system)
            out.append(dumps({"role": "system", "content": text}))
        after_tools = False
        for message in messages:
            piece = self._pieces.get(message, partial(_piece, message))
            if not piece:
                continue
            if after_tools and isinstance(message, UserMessage):
                out.append(_AFTER_TOOLS)
            out.append(piece)
            after_tools = isinstance(message, ToolResultMessage)
        return out


# ---------------------------------------------------------------- messages


def _piece(message: ModelMessage) -> bytes:
    match message:
        case UserMessage():
            form = _user(message)
        case AssistantMessage():
            form = _assistant(message)
        case ToolResultMessage():
            form = _result(message)
    return dumps(form) if form else b""


def _user(message: UserMessage) -> dict[str, Any] | None:
    content = message.content
    if isinstance(content, str):
        return {"role": "user", "content": content} if content else None
    parts = [_part(part) for part in content if isinstance(part, Image) or part.text]
    return {"role": "user", "content": parts} if parts else None


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Image):
        return {"type": "image_url", "image_url": data_url(part)}
    return {"type": "text", "text": part.text}


def _assistant(message: AssistantMessage) -> dict[str, Any] | None:
    parts = [part for block in message.content if (part := _chunk(block)) is not None]
    calls = [_call(call) for call in message.tool_calls]
    if not parts and not calls:
        return None
    form: dict[str, Any] = {"role": "assistant", "content": parts or ""}
    return {**form, "tool_calls": calls} if calls else form


def _chunk(block: Block) -> dict[str, Any] | None:
    match block:
        case Text() if block.text.strip():
            return {"type": "text", "text": block.text}
        case Thinking() if block.thinking.strip() or block.thinking_signature:
            thought = {"type": "text", "text": block.thinking}
            signature = block.thinking_signature
            signed = {"signature": signature} if signature else {}
            return {"type": "thinking", "thinking": [thought], **signed}
    return None


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": dumps(call.arguments).decode()}
    return {"id": call.id, "type": "function", "function": function}


def _result(message: ToolResultMessage) -> dict[str, Any]:
    images = [_part(part) for part in message.content if isinstance(part, Image)]
    text = text_of(message.content, "\n")
    if not text.strip():
        text = _SEE_IMAGE if images else NO_OUTPUT
    prefix = _TOOL_ERROR if message.is_error else ""
    return {
        "role": "tool",
        "name": message.tool_name,
        "content": [{"type": "text", "text": prefix + text}, *images],
        "tool_call_id": message.tool_call_id,
    }


# ---------------------------------------------------------------- options


def _options(request: Request) -> dict[str, Any]:
    model = request.model
    fields: dict[str, Any] = {"model": model.id, "stream": True}
    if request.tools:
        fields["tools"] = [_tool(tool) for tool in request.tools]
    if limit := request.max_tokens or model.max_tokens:
        fields["max_tokens"] = limit
    fields |= _thinking(request)
    if request.session_id and request.cache != "none":
        fields["prompt_cache_key"] = cache_key(request)
    return fields | (model.sampling_params or {})


def _tool(tool: ToolSpec) -> dict[str, Any]:
    schema, strict = sampled_schema(tool.name, tool.parameters, tool.sampling, supported=True)
    function = {
        "name": tool.name,
        "description": without_surrogates(tool.description),
        "parameters": dict(schema),
        "strict": strict,
    }
    return {"type": "function", "function": function}


def _thinking(request: Request) -> dict[str, Any]:
    model, level = request.model, request.thinking
    if not model.reasoning or level == "off":
        return {}
    mapped = (model.thinking_level_map or {}).get(level)
    if mapped or _WITH_EFFORT.match(model.id):
        return {"reasoning_effort": mapped or "high"}
    return {"prompt_mode": "reasoning"}
