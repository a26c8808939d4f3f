"""Encode a conversation for the Responses API; the input items of each message are cached."""

import re
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

_ODD_ID = re.compile(r"[^a-zA-Z0-9_-]")
_ID_CHARS = 64


class Items:
    """Encodes conversations as input items; caches those of the last one."""

    def __init__(self) -> None:
        self._model: Model | None = None
        self._handoff = HistoryAdapter(self._normal_id)
        self._pieces = Pieces()

    def encode(self, request: Request, compat: Compat) -> list[bytes]:
        """Return the input of a request, starting with the system prompt."""
        if self._model != request.model:
            self._model = request.model
            self._pieces = Pieces()
        messages = self._handoff.adapt(request.messages, request.model)
        if messages and request.cache != "none":
            self._pieces.keep_for(messages[0])
        out = [dumps(_system(request, compat))] if request.system else []
        out += [self._piece(message) for message in messages]
        return [piece for piece in out if piece]

    def _piece(self, message: ModelMessage) -> bytes:
        return self._pieces.get(message, lambda: _encode(message))

    def _normal_id(self, call_id: str, message: AssistantMessage) -> str:
        assert self._model is not None
        return responses_id(call_id, message, self._model)


def responses_id(call_id: str, message: AssistantMessage, model: Model) -> str:
    """Convert a foreign tool call id to `call_id` or `call_id|item_id`.

    The item id of another model of the same provider is dropped: the server would look for the
    reasoning that belongs to it.
    """
    call, _, item = call_id.partition("|")
    call = _plain(call)
    if not item or (message.provider, message.api) == (model.provider, model.api):
        return call
    return f"{call}|fc_{short_hash(item)}"


def _plain(text: str) -> str:
    return _ODD_ID.sub("_", text)[:_ID_CHARS].rstrip("_")


# ---------------------------------------------------------------- items


def _system(request: Request, compat: Compat) -> dict[str, Any]:
    developer = request.model.reasoning and compat.supports_developer_role
    role = "developer" if developer else "system"
    return {"role": role, "content": without_surrogates(request.system)}


def _encode(message: ModelMessage) -> bytes:
    """Return the items of a message, joined by commas."""
    match message:
        case UserMessage():
            items = _user(message)
        case AssistantMessage():
            items = _assistant(message)
        case ToolResultMessage():
            items = [_result(message)]
    return dumps(items)[1:-1]


def _user(message: UserMessage) -> list[dict[str, Any]]:
    source = message.content
    content = (Text(text=source),) if isinstance(source, str) else source
    parts = [
        _image_part(part) if isinstance(part, Image) else _text_part(part.text)
        for part in content
        if isinstance(part, Image) or part.text
    ]
    return [{"role": "user", "content": parts}] if parts else []


def _assistant(message: AssistantMessage) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    for place, block in enumerate(message.content):
        match block:
            case Thinking():
                reasoning = _object(block.thinking_signature)
                if reasoning.get("type") == "reasoning":
                    items.append(reasoning)
            case Text():
                if block.text.strip():
                    items.append(_message(block, f"msg_{message.timestamp}_{place}"))
            case ToolCall():
                items.append(_call(block))
    while items and items[-1]["type"] == "reasoning":
        items.pop()  # the server refuses reasoning without output after it
    return items


def _message(block: Text, own_id: str) -> dict[str, Any]:
    signature = _object(block.text_signature)
    # Signatures in old sessions are plain ids.
    stored = signature.get("id") or (None if signature else block.text_signature)
    item_id = stored if isinstance(stored, str) else own_id
    if len(item_id) > _ID_CHARS:
        item_id = f"msg_{short_hash(item_id)}"
    item: dict[str, Any] = {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "output_text", "text": block.text, "annotations": []}],
        "status": "completed",
        "id": item_id,
    }
    return {**item, "phase": signature["phase"]} if signature.get("phase") else item


def _call(call: ToolCall) -> dict[str, Any]:
    call_id, _, item_id = call.id.partition("|")
    if _is_custom(call.id):
        text = next(iter(call.arguments.values()), "")
        fields = {"id": item_id, "call_id": call_id, "name": call.name}
        return {"type": "custom_tool_call", **fields, "input": text}
    item: dict[str, Any] = {"type": "function_call"}
    if item_id:
        item["id"] = item_id
    item |= {
        "call_id": call_id,
        "name": call.name,
        "arguments": dumps(call.arguments).decode(),
    }
    return {**item, "namespace": call.namespace} if call.namespace else item


def _result(message: ToolResultMessage) -> dict[str, Any]:
    text = text_of(message.content, "\n")
    images = [_image_part(part) for part in message.content if isinstance(part, Image)]
    output: str | list[dict[str, Any]] = text or NO_OUTPUT
    if images:
        output = [_text_part(text), *images] if text else images
    custom = _is_custom(message.tool_call_id)
    return {
        "type": "custom_tool_call_output" if custom else "function_call_output",
        "call_id": message.tool_call_id.partition("|")[0],
        "output": output,
    }


def _is_custom(call_id: str) -> bool:
    """Return whether the arguments of a call are text, not JSON; the item id shows it."""
    return call_id.partition("|")[2].startswith("ctc_")


def _object(signature: str | None) -> dict[str, Any]:
    if not signature or not signature.startswith("{"):
        return {}
    try:
        value = loads(signature)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _image_part(image: Image) -> dict[str, Any]:
    return {"type": "input_image", "detail": "auto", "image_url": data_url(image)}
