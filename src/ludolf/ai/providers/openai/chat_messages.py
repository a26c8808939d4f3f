"""Encode a conversation for the Chat Completions API; one cached JSON piece per message."""

import re
from collections.abc import Iterator
from typing import Any

from ludolf.ai.encoded_cache import Pieces
from ludolf.ai.history import HistoryAdapter, ModelMessage
from ludolf.ai.messages import (
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from ludolf.ai.models import Model
from ludolf.ai.provider import Request
from ludolf.ai.providers.openai.compat import Compat
from ludolf.ai.providers.openai.shared import NO_OUTPUT, data_url, short_hash
from ludolf.base import dumps, loads, without_surrogates

REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
_SEE_IMAGE = "(see attached image)"
_IMAGE_LABEL = "Images from the tool results above:"
_AFTER_TOOLS = "The tool results have been read."
_ODD_ID = re.compile(r"[^a-zA-Z0-9_-]")
_ID_CHARS = 40


class ChatMessages:
    """Encodes conversations; caches the pieces of the last one."""

    def __init__(self) -> None:
        self._provider = ""
        self._handoff = HistoryAdapter(lambda call_id, _: chat_id(call_id, self._provider))
        self._variant: tuple[Model, Compat] | None = None
        self._pieces = Pieces()
        self._images = Pieces()

    def encode(self, request: Request, compat: Compat) -> list[bytes]:
        """Return the messages of a request, starting with the system prompt."""
        self._provider = request.model.provider
        if self._variant != (request.model, compat):
            self._variant = (request.model, compat)
            self._pieces, self._images = Pieces(), Pieces()
        messages = self._handoff.adapt(request.messages, request.model)
        if messages and request.cache != "none":
            self._pieces.keep_for(messages[0])
        mark = cache_mark(request, compat)
        marked = _last_with_text(messages) if mark else None
        out = [dumps(_system(request, compat, mark))] if request.system else []
        images: list[bytes] = []
        after_tools = False
        for message in messages:
            if isinstance(message, ToolResultMessage):
                images += self._image_pieces(message)
                after_tools = True
            elif after_tools:
                out += _after_tools(images, message, compat)
                images, after_tools = [], False
            out.append(self._piece(message, compat, mark if message is marked else None))
        if after_tools:
            out += _after_tools(images, None, compat)
        return [piece for piece in out if piece]

    def _piece(self, message: ModelMessage, compat: Compat, mark: Any) -> bytes:
        if mark is not None:
            return _encode(message, compat, mark)
        return self._pieces.get(message, lambda: _encode(message, compat, None))

    def _image_pieces(self, message: ToolResultMessage) -> list[bytes]:
        if not any(isinstance(part, Image) for part in message.content):
            return []
        return [self._images.get(message, lambda: _encode_images(message))]


def chat_id(call_id: str, provider: str) -> str:
    """Convert a foreign tool call id to the form of this API."""
    if "|" in call_id:
        plain = _ODD_ID.sub("_", call_id.replace("|", "_"))
        if len(plain) <= _ID_CHARS:
            return plain
        return f"{plain[: _ID_CHARS - 9]}_{short_hash(call_id)[:8]}"
    return call_id[:_ID_CHARS] if provider == "openai" else call_id


def cache_mark(request: Request, compat: Compat) -> dict[str, str] | None:
    """Return the cache marker that routers expect for Anthropic models."""
    if compat.cache_control_format != "anthropic" or request.cache == "none":
        return None
    long = request.cache == "long" and compat.supports_long_cache_retention
    return {"type": "ephemeral", **({"ttl": "1h"} if long else {})}


# ---------------------------------------------------------------- pieces


def _system(request: Request, compat: Compat, mark: Any) -> dict[str, Any]:
    developer = request.model.reasoning and compat.supports_developer_role
    text = without_surrogates(request.system)
    return {
        "role": "developer" if developer else "system",
        "content": _content([_text_part(text)], mark),
    }


def _last_with_text(messages: list[ModelMessage]) -> ModelMessage | None:
    for message in reversed(messages):
        if text_of(message.content).strip():
            return message
    return None


def _after_tools(
    images: list[bytes], following: ModelMessage | None, compat: Compat
) -> Iterator[bytes]:
    """Return the message that some servers require between tool results and the next message."""
    speaks = bool(images) or isinstance(following, UserMessage)
    if speaks and compat.requires_assistant_after_tool_result:
        yield dumps({"role": "assistant", "content": _AFTER_TOOLS})
    if images:
        label = dumps(_text_part(_IMAGE_LABEL))
        yield b'{"role":"user","content":[%b]}' % b",".join([label, *images])


def _encode(message: ModelMessage, compat: Compat, mark: Any) -> bytes:
    match message:
        case UserMessage():
            form = _user(message, mark)
        case AssistantMessage():
            form = _assistant(message, compat, mark)
        case ToolResultMessage():
            form = _result(message, compat, mark)
    return dumps(form) if form else b""


def _user(message: UserMessage, mark: Any) -> dict[str, Any] | None:
    source = message.content
    content = (Text(text=source),) if isinstance(source, str) else source
    parts = [
        _image_part(part) if isinstance(part, Image) else _text_part(part.text)
        for part in content
        if isinstance(part, Image) or part.text
    ]
    return {"role": "user", "content": _content(parts, mark)} if parts else None


def _content(parts: list[dict[str, Any]], mark: Any) -> str | list[dict[str, Any]]:
    if mark is not None:
        texts = [part for part in parts if part["type"] == "text"]
        if texts:
            texts[-1]["cache_control"] = mark
        return parts
    if len(parts) == 1 and parts[0]["type"] == "text":
        # Many small servers accept only a string as content.
        text: str = parts[0]["text"]
        return text
    return parts


def _assistant(message: AssistantMessage, compat: Compat, mark: Any) -> dict[str, Any] | None:
    text = "".join(
        block.text for block in message.content if isinstance(block, Text) and block.text.strip()
    )
    thinking = [block for block in message.content if isinstance(block, Thinking)]
    replayed: dict[str, Any] = {}
    if compat.requires_thinking_as_text:
        thoughts = [block.thinking for block in thinking if block.thinking.strip()]
        text = "\n\n".join([*thoughts, text] if text else thoughts)
    else:
        replayed = _replay(thinking)
    if compat.requires_reasoning_content_on_assistant_messages:
        replayed.setdefault("reasoning_content", "")
    calls = [_call(block) for block in message.content if isinstance(block, ToolCall)]
    if not text and not calls:
        return None
    nothing = "" if compat.requires_assistant_after_tool_result else None
    content = _content([_text_part(text)], mark) if text else nothing
    form: dict[str, Any] = {"role": "assistant", "content": content, **replayed}
    return {**form, "tool_calls": calls} if calls else form


def _replay(thinking: list[Thinking]) -> dict[str, Any]:
    """Return thinking in the field it came in, which its signature names or contains."""
    fields: dict[str, Any] = {}
    for block in thinking:
        signature = block.thinking_signature or ""
        if signature in REASONING_FIELDS:
            known = fields.get(signature)
            fields[signature] = f"{known}\n{block.thinking}" if known else block.thinking
        elif signature.startswith("["):
            fields["reasoning_details"] = fields.get("reasoning_details", []) + _details(signature)
    return fields


def _details(signature: str) -> list[Any]:
    try:
        details = loads(signature)
    except ValueError:
        return []
    return details if isinstance(details, list) else []


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": dumps(call.arguments).decode()}
    return {"id": call.id, "type": "function", "function": function}


def _result(message: ToolResultMessage, compat: Compat, mark: Any) -> dict[str, Any]:
    text = text_of(message.content, "\n")
    if not text:
        has_images = any(isinstance(part, Image) for part in message.content)
        text = _SEE_IMAGE if has_images else NO_OUTPUT
    content = _content([_text_part(text)], mark)
    form = {"role": "tool", "content": content, "tool_call_id": message.tool_call_id}
    return {**form, "name": message.tool_name} if compat.requires_tool_result_name else form


def _encode_images(message: ToolResultMessage) -> bytes:
    parts = [_image_part(part) for part in message.content if isinstance(part, Image)]
    return dumps(parts)[1:-1]


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image_part(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(image)}}
