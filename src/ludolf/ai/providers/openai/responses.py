"""Responses API of OpenAI and compatible servers."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import structs

from ludolf.ai.draft import BlockKind, Draft, StreamEvent
from ludolf.ai.encoded_cache import EncodedHistory
from ludolf.ai.errors import ProviderError
from ludolf.ai.history import ModelMessage
from ludolf.ai.http.transport import HttpResponse, Transport
from ludolf.ai.json_text import json_object
from ludolf.ai.messages import (
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_of,
)
from ludolf.ai.models import Model
from ludolf.ai.provider import Request, ToolSpec
from ludolf.ai.providers.gateways import base_url
from ludolf.ai.providers.http_provider import EventStreamProvider, HttpCall
from ludolf.ai.providers.openai.compat import Compat, effort_of, responses_compat
from ludolf.ai.providers.openai.shared import (
    NO_OUTPUT,
    cache_key,
    data_url,
    error_message,
    error_text,
    function_of,
    grammar_arguments,
    grammar_of,
    headers_for,
    join_body,
    read_chunk,
    short_hash,
)
from ludolf.base import dumps, escape, without_surrogates
from ludolf.base.patterns import lazy_pattern

_LEAST_OUTPUT = 16


class OpenAIResponses(EventStreamProvider):
    """Provider for `responses` with server-sent events; the server stores nothing."""

    api = "openai-responses"
    owner = "OpenAI"
    prompt_in_input = True

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._items = Items()

    async def reach(self, request: Request, compat: Compat) -> tuple[str, dict[str, str]]:
        """Return the address and the headers of a request.

        Raises:
            ProviderError: the address is incomplete, or no credentials were found.
        """
        return f"{base_url(request)}/responses", headers_for(request, compat)

    def fields(self, request: Request, compat: Compat) -> dict[str, Any]:
        """Return the body of a request without its input."""
        return options_of(request, compat)

    async def call(self, request: Request) -> HttpCall:
        compat = responses_compat(request.model)
        url, headers = await self.reach(request, compat)
        input_request = request if self.prompt_in_input else structs.replace(request, system="")
        items = self._items.encode(input_request, compat)
        return HttpCall(url, headers, join_body(self.fields(request, compat), "input", items))

    def reader(self, request: Request, draft: Draft, reply: HttpResponse) -> "ResponsesReader":
        grammars = grammar_arguments(request, responses_compat(request.model))
        return ResponsesReader(draft, grammars)

    def describe(self, status: int, body: str) -> str:
        return f"{self.owner} API error ({status}): {error_text(status, body)}"


make = OpenAIResponses


# ---------------------------------------------------------------- the request


def options_of(request: Request, compat: Compat) -> dict[str, Any]:
    """Return the fields of a request's body without its input."""
    model = request.model
    fields: dict[str, Any] = {"model": model.id, "stream": True, "store": False}
    limit = request.max_tokens or model.max_tokens
    if limit and compat.supports_max_output_tokens:
        fields["max_output_tokens"] = max(_LEAST_OUTPUT, limit)
    fields |= cache_fields(request, compat)
    if request.tools:
        fields["tools"] = tools_of(request, compat)
    fields |= reasoning_fields(request, compat)
    fields |= tier_fields(request, compat)
    return fields | (model.sampling_params or {})


def tier_fields(request: Request, compat: Compat) -> dict[str, Any]:
    fast = request.fast and compat.supports_service_tier
    return {"service_tier": "priority"} if fast else {}


def tools_of(request: Request, compat: Compat) -> list[dict[str, Any]]:
    return [_tool(tool, compat) for tool in request.tools]


def _tool(tool: ToolSpec, compat: Compat) -> dict[str, Any]:
    grammar = grammar_of(tool, compat)
    if grammar is None:
        return {"type": "function", **function_of(tool, knows_strict=compat.supports_strict_mode)}
    form = {"type": "grammar", "syntax": grammar.syntax, "definition": grammar.definition}
    return {"type": "custom", "name": tool.name, "description": tool.description, "format": form}


def cache_fields(request: Request, compat: Compat) -> dict[str, Any]:
    if request.cache == "none":
        return {}
    fields: dict[str, Any] = {}
    if request.session_id:
        fields["prompt_cache_key"] = cache_key(request)
    if request.cache == "long" and compat.supports_explicit_prompt_cache_mode:
        fields["prompt_cache_options"] = {"ttl": "30m"}
    elif request.cache == "long" and compat.supports_long_cache_retention:
        fields["prompt_cache_retention"] = "24h"
    return fields


def reasoning_fields(request: Request, compat: Compat) -> dict[str, Any]:
    model = request.model
    fields: dict[str, Any] = {}
    effort = effort_of(request, compat)
    thinks = model.reasoning and effort.on
    if thinks:
        fields["reasoning"] = {"effort": effort.word, "summary": "auto"}
    elif model.reasoning and effort.may_turn_off and model.provider != "github-copilot":
        fields["reasoning"] = {"effort": effort.word or "none"}
    if thinks or model.provider == "xai":
        fields["include"] = ["reasoning.encrypted_content"]
    return fields


_ODD_ID = lazy_pattern(r"[^a-zA-Z0-9_-]")
_ID_CHARS = 64


class Items(EncodedHistory):
    """Encodes conversations as input items; caches those of the last one."""

    _model: Model

    def normal_id(self, call_id: str, source: AssistantMessage) -> str:
        return responses_id(call_id, source, self._model)

    def encode(self, request: Request, compat: Compat) -> list[bytes]:
        """Return the input of a request, starting with the system prompt."""
        self._model = request.model
        messages = self.messages_of(request)
        out = [dumps(_system(request, compat))] if request.system else []
        out += [self.pieces.get(message, partial(_encode, message)) for message in messages]
        return [piece for piece in out if piece]


def responses_id(call_id: str, message: AssistantMessage, model: Model) -> str:
    """Convert a foreign tool call id to `call_id` or `call_id|item_id`.

    The item id of another model of the same provider is dropped: the server would look for the
    reasoning that belongs to it.
    """
    call, _, item = call_id.partition("|")
    call = _ODD_ID.sub("_", call)[:_ID_CHARS].rstrip("_")
    if not item or (message.provider, message.api) == (model.provider, model.api):
        return call
    return f"{call}|fc_{short_hash(item)}"


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
    parts = [
        _image_part(part) if isinstance(part, Image) else _text_part(part.text)
        for part in message.parts
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
    return json_object(signature) if signature and signature.startswith("{") else {}


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _image_part(image: Image) -> dict[str, Any]:
    return {"type": "input_image", "detail": "auto", "image_url": data_url(image)}


_NO_END = "OpenAI Responses stream ended before a terminal response event"
_PART_GAP = "\n\n"


# ---------------------------------------------------------------- what arrives


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    output: list[dict[str, Any]] | None = None
    usage: _Usage | None = None
    error: Any = None
    incomplete_details: _Incomplete | None = None
    service_tier: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    output_index: int | None = None
    delta: str | None = None
    arguments: str | None = None
    input: str | None = None
    item: dict[str, Any] | None = None
    response: _Response | None = None
    code: str | None = None
    message: str | None = None
    error: Any = None


class _Open(msgspec.Struct):
    """An open item and its block.

    The text of a custom tool is one argument of its call; `argument` is its name.
    """

    kind: BlockKind
    block: int
    parts: list[str]
    argument: str | None = None


_decode = msgspec.json.Decoder(_Event).decode
_KINDS: dict[str, BlockKind] = {
    "message": "text",
    "reasoning": "thinking",
    "function_call": "toolcall",
    "custom_tool_call": "toolcall",
}
_DELTAS: dict[str, BlockKind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
    "response.function_call_arguments.delta": "toolcall",
    "response.custom_tool_call_input.delta": "toolcall",
}


# ---------------------------------------------------------------- reading


class ResponsesReader:
    """Reads one answer: each output item becomes a block, in order of their start."""

    def __init__(self, draft: Draft, grammars: Mapping[str, str] | None = None) -> None:
        self.done = False
        self._draft = draft
        self._grammars = grammars or {}
        self._open: dict[int, _Open] = {}
        self._last = 0
        self._unsealed: dict[str, tuple[int, dict[str, Any]]] = {}
        self._handlers: dict[str, Callable[[_Event], Iterator[StreamEvent]]] = {
            "response.output_item.added": self._begin,
            "response.reasoning_summary_part.done": self._part_done,
            "response.function_call_arguments.done": self._arguments_done,
            "response.custom_tool_call_input.done": self._arguments_done,
            "response.output_item.done": self._end,
        }

    def take(self, events: Iterable[bytes]) -> Iterator[StreamEvent]:
        draft = self._draft
        for data in events:
            event = read_chunk(data, _decode, _Event)
            if event is None:
                continue
            kind = _DELTAS.get(event.type)
            if kind is None:
                handler = self._handlers.get(event.type)
                if handler is not None:
                    yield from handler(event)
                elif event.response is not None or event.type == "error":
                    self._about(event)
                continue
            open_item = self._find(event)
            if open_item is None or open_item.kind != kind or event.delta is None:
                continue
            if kind == "text":
                yield draft.text(open_item.block, event.delta)
            elif kind == "thinking":
                yield draft.thinking(open_item.block, event.delta)
            else:
                yield self._argue(open_item, event.delta)

    def finish(self) -> Iterator[StreamEvent]:
        if not self.done:
            raise ProviderError(_NO_END)
        yield from self._draft.end_all()

    # ------------------------------------------------------------ items

    def _find(self, event: _Event) -> _Open | None:
        index = event.output_index
        return self._open.get(self._last if index is None else index)

    def _begin(self, event: _Event) -> Iterator[StreamEvent]:
        item = event.item or {}
        kind = _KINDS.get(item.get("type", ""))
        if kind is None:
            return
        if kind == "text":
            start = self._draft.start_text()
        elif kind == "thinking":
            start = self._draft.start_thinking(signature=None)
        else:
            name, space = _text(item, "name"), item.get("namespace")
            namespace = space if isinstance(space, str) else None
            start = self._draft.start_tool(_call_id(item), name, namespace)
        self._last = self._last + 1 if event.output_index is None else event.output_index
        open_item = self._open[self._last] = _Open(kind, start.index, [])
        if item.get("type") == "custom_tool_call":
            open_item.argument = self._grammars.get(_text(item, "name"), "input")
        yield start
        arguments = _text(item, "arguments") or _text(item, "input")
        if arguments and event.type == "response.output_item.added":
            yield self._argue(open_item, arguments)

    def _argue(self, found: _Open, text: str) -> StreamEvent:
        """Emit a piece of a call's arguments, as JSON."""
        first = not found.parts
        found.parts.append(text)
        if found.argument is not None:
            head = f'{{{dumps(found.argument).decode()}:"' if first else ""
            text = head + escape(text).decode()
        return self._draft.tool_args(found.block, text)

    def _part_done(self, event: _Event) -> Iterator[StreamEvent]:
        open_item = self._find(event)
        if open_item is not None and open_item.kind == "thinking":
            yield self._draft.thinking(open_item.block, _PART_GAP)

    def _arguments_done(self, event: _Event) -> Iterator[StreamEvent]:
        open_item = self._find(event)
        if open_item is not None and open_item.kind == "toolcall":
            yield from self._missing(open_item, event.arguments or event.input or "")

    def _missing(self, open_item: _Open, whole: str) -> Iterator[StreamEvent]:
        """Emit the part of the arguments that did not arrive as deltas."""
        received = "".join(open_item.parts)
        if whole.startswith(received) and len(whole) > len(received):
            yield self._argue(open_item, whole[len(received) :])

    def _end(self, event: _Event) -> Iterator[StreamEvent]:
        item = event.item or {}
        unseen = self._find(event) is None
        if unseen:
            yield from self._begin(event)
        open_item = self._find(event)
        if open_item is None or open_item.kind != _KINDS.get(item.get("type", "")):
            return
        if open_item.kind == "toolcall":
            yield from self._missing(open_item, _text(item, "arguments") or _text(item, "input"))
            if open_item.argument is not None:
                if not open_item.parts:
                    yield self._argue(open_item, "")
                yield self._draft.tool_args(open_item.block, '"}')
            yield self._draft.end(open_item.block)
        elif open_item.kind == "text":
            text = _joined(item, "content", "")
            if unseen and text:
                yield self._draft.text(open_item.block, text)
            self._draft.sign(open_item.block, _text_signature(item))
            yield self._draft.end(open_item.block, text or None)
        else:
            self._draft.sign(open_item.block, dumps(item).decode())
            if not item.get("encrypted_content"):
                self._unsealed[_text(item, "id")] = (open_item.block, item)
            text = _joined(item, "summary", _PART_GAP) or _joined(item, "content", _PART_GAP)
            yield self._draft.end(open_item.block, text or None)
        del self._open[self._last if event.output_index is None else event.output_index]

    # ------------------------------------------------------------ the response

    def _about(self, event: _Event) -> None:
        if event.type == "error":
            raise ProviderError(_error_of(event))
        response = event.response
        assert response is not None
        if event.type == "response.created":
            self._draft.identify(response.id, response.model)
        elif event.type == "response.failed":
            self._draft.stopped("error", response.status or "failed")
            raise ProviderError(_failure_of(response))
        elif event.type in ("response.completed", "response.incomplete", "response.done"):
            self._complete(response)

    def _complete(self, response: _Response) -> None:
        self.done = True
        self._draft.identify(response.id, response.model)
        if response.usage is not None:
            factor = _tier_factor(response.service_tier, self._draft.model.id)
            self._draft.count(_usage(response.usage), factor)
        for item in response.output or ():
            block, known = self._unsealed.get(_text(item, "id"), (None, {}))
            if block is not None and item.get("encrypted_content"):
                sealed = {**known, "encrypted_content": item["encrypted_content"]}
                self._draft.sign(block, dumps(sealed).decode())
        self._stop(response)

    def _stop(self, response: _Response) -> None:
        status = response.status or "completed"
        reason = response.incomplete_details.reason if response.incomplete_details else None
        if status in ("failed", "cancelled"):
            self._draft.stopped("error", status)
            raise ProviderError(_failure_of(response))
        raw = f"{status}.{reason}" if reason else status
        if status == "incomplete" and reason != "max_output_tokens":
            self._draft.stopped("error", raw)
            text = f"Response incomplete: {reason or 'unknown'}"
            raise ProviderError(text, kind="refused" if reason == "content_filter" else None)
        if status == "incomplete":
            self._draft.stopped("length", raw)
        else:
            self._draft.stopped("toolUse" if self._draft.has_tool_calls else "stop", status)


# ---------------------------------------------------------------- helpers of reading


def _call_id(item: dict[str, Any]) -> str:
    call, item_id = _text(item, "call_id"), _text(item, "id")
    return f"{call}|{item_id}" if call and item_id else call or item_id


def _text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""


def _joined(item: dict[str, Any], key: str, gap: str) -> str:
    """Join the texts of an item's parts; a refusal counts as text."""
    parts = item.get(key)
    if not isinstance(parts, list):
        return ""
    objects = [part for part in parts if isinstance(part, dict)]
    return gap.join(_text(part, "text") or _text(part, "refusal") for part in objects)


def _text_signature(item: dict[str, Any]) -> str:
    signature: dict[str, Any] = {"v": 1, "id": _text(item, "id")}
    if _text(item, "phase"):
        signature["phase"] = item["phase"]
    return dumps(signature).decode()


def _usage(usage: _Usage) -> Usage:
    details = usage.input_tokens_details
    read = (details.cached_tokens or 0) if details else 0
    write = (details.cache_write_tokens or 0) if details else 0
    sent = max(0, (usage.input_tokens or 0) - read - write)
    output = usage.output_tokens or 0
    thought = usage.output_tokens_details
    return Usage(
        input=sent,
        output=output,
        cache_read=read,
        cache_write=write,
        total_tokens=usage.total_tokens or sent + output + read + write,
        reasoning=(thought.reasoning_tokens or 0) if thought else 0,
    )


def _tier_factor(tier: str | None, model_id: str) -> float:
    if tier == "flex":
        return 0.5
    if tier == "priority":
        return 2.5 if model_id.startswith("gpt-5.5") else 2
    return 1


def _error_of(event: _Event) -> str:
    nested = event.error if isinstance(event.error, dict) else {}
    code = event.code or _text(nested, "code") or "unknown"
    return f"Error Code {code}: {event.message or error_message(nested) or 'no message'}"


def _failure_of(response: _Response) -> str:
    error = response.error
    message = error_message(error)
    if message is not None:
        code = _text(error, "code") if isinstance(error, dict) else ""
        return f"{code or 'unknown'}: {message}"
    details = response.incomplete_details
    if details is not None and details.reason:
        return f"incomplete: {details.reason}"
    return f"The response {response.status or 'failed'} without a reason"
