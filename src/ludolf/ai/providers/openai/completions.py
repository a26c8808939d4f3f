"""Chat Completions API of OpenAI and compatible servers."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.encoded_cache import EncodedHistory
from ludolf.ai.errors import ProviderError
from ludolf.ai.history import ModelMessage
from ludolf.ai.http.transport import HttpResponse, Transport
from ludolf.ai.json_text import json_value
from ludolf.ai.messages import (
    AssistantMessage,
    Image,
    StopReason,
    Text,
    Thinking,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_of,
)
from ludolf.ai.provider import Request, ToolSpec
from ludolf.ai.providers.gateways import base_url
from ludolf.ai.providers.http_provider import EventStreamProvider, HttpCall
from ludolf.ai.providers.openai.compat import (
    Compat,
    chat_compat,
    effort_of,
    thinking_fields,
    vendor_of,
)
from ludolf.ai.providers.openai.shared import (
    NO_OUTPUT,
    cache_key,
    call_form,
    data_url,
    error_kind,
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
from ludolf.base import dumps, escape, short_id, without_surrogates
from ludolf.base.patterns import lazy_pattern


class OpenAICompletions(EventStreamProvider):
    """Provider for `chat/completions` with server-sent events."""

    api = "openai-completions"

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._conversation = ChatMessages()

    async def call(self, request: Request) -> HttpCall:
        compat = chat_compat(request.model)
        headers = headers_for(request, compat)
        messages = self._conversation.encode(request, compat)
        body = join_body(options_of(request, compat), "messages", messages)
        return HttpCall(f"{base_url(request)}/chat/completions", headers, body)

    def reader(self, request: Request, draft: Draft, reply: HttpResponse) -> "ChatReader":
        compat = chat_compat(request.model)
        return ChatReader(draft, compat, grammar_arguments(request, compat))

    def describe(self, status: int, body: str) -> str:
        return error_text(status, body)


make = OpenAICompletions


# ---------------------------------------------------------------- the request


def options_of(request: Request, compat: Compat) -> dict[str, Any]:
    """Return the fields of a request's body without its messages."""
    model = request.model
    fields: dict[str, Any] = {"model": model.id, "stream": True}
    if compat.supports_usage_in_streaming:
        fields["stream_options"] = {"include_usage": True}
    if compat.supports_store:
        fields["store"] = False
    limit = request.max_tokens or model.max_tokens
    if limit:
        fields[compat.max_tokens_field] = limit
    fields |= _cache_fields(request, compat)
    fields |= _tool_fields(request, compat)
    fields |= thinking_fields(model, compat, effort_of(request, compat))
    if compat.open_router_routing:
        fields["provider"] = compat.open_router_routing
    if compat.vercel_gateway_routing:
        routing = compat.vercel_gateway_routing
        gateway = {name: routing[name] for name in ("only", "order") if routing.get(name)}
        fields["providerOptions"] = {"gateway": gateway}
    if compat.vllm_priority is not None:
        fields["priority"] = compat.vllm_priority
    return fields | (model.sampling_params or {})


def _cache_fields(request: Request, compat: Compat) -> dict[str, Any]:
    long = request.cache == "long" and compat.supports_long_cache_retention
    at_openai = request.cache != "none" and "api.openai.com" in request.model.base_url
    fields: dict[str, Any] = {}
    if request.session_id and (at_openai or long):
        fields["prompt_cache_key"] = cache_key(request)
    if long:
        fields["prompt_cache_retention"] = "24h"
    return fields


def _tool(tool: ToolSpec, compat: Compat) -> dict[str, Any]:
    grammar = grammar_of(tool, compat)
    if grammar is None:
        return {
            "type": "function",
            "function": function_of(tool, knows_strict=compat.supports_strict_mode),
        }
    rules = {"syntax": grammar.syntax, "definition": grammar.definition}
    custom = {
        "name": tool.name,
        "description": tool.description,
        "format": {"type": "grammar", "grammar": rules},
    }
    return {"type": "custom", "custom": custom}


def _tool_fields(request: Request, compat: Compat) -> dict[str, Any]:
    tools = [_tool(tool, compat) for tool in request.tools]
    if not tools:
        called = any(getattr(message, "tool_calls", ()) for message in request.messages)
        return {"tools": []} if called else {}
    mark = cache_mark(request, compat)
    if mark is not None:
        tools[-1]["cache_control"] = mark
    return {"tools": tools, **({"tool_stream": True} if compat.zai_tool_stream else {})}


REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
_SEE_IMAGE = "(see attached image)"
_IMAGE_LABEL = "Images from the tool results above:"
_AFTER_TOOLS = "The tool results have been read."
_ODD_ID = lazy_pattern(r"[^a-zA-Z0-9_-]")
_ID_CHARS = 40


class ChatMessages(EncodedHistory):
    """Encodes conversations; caches the pieces of the last one."""

    def __init__(self) -> None:
        super().__init__()
        self._provider = ""

    def normal_id(self, call_id: str, source: AssistantMessage) -> str:
        return chat_id(call_id, self._provider)

    def encode(self, request: Request, compat: Compat) -> list[bytes]:
        """Return the messages of a request, starting with the system prompt."""
        self._provider = request.model.provider
        messages = self.messages_of(request, compat)
        mark = cache_mark(request, compat)
        with_text = (item for item in reversed(messages) if text_of(item.content).strip())
        marked = next(with_text, None) if mark else None
        out = [dumps(_system(request, compat, mark))] if request.system else []
        images: list[bytes] = []
        after_tools = False
        for message in messages:
            if isinstance(message, ToolResultMessage):
                if any(isinstance(part, Image) for part in message.content):
                    encode = partial(_encode_images, message)
                    images.append(self.pieces.get(message.content, encode))
                after_tools = True
            elif after_tools:
                out += _after_tools(images, message, compat)
                images, after_tools = [], False
            if message is marked:
                out.append(_encode(message, compat, mark))
            else:
                out.append(self.pieces.get(message, partial(_encode, message, compat, None)))
        if after_tools:
            out += _after_tools(images, None, compat)
        return [piece for piece in out if piece]


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
    parts = [
        _image_part(part) if isinstance(part, Image) else _text_part(part.text)
        for part in message.parts
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
    calls = [call_form(call) for call in message.tool_calls]
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
            details = json_value(signature)
            if isinstance(details, list):
                fields["reasoning_details"] = fields.get("reasoning_details", []) + details
    return fields


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


# ---------------------------------------------------------------- what arrives


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Custom(msgspec.Struct, gc=False):
    name: str | None = None
    input: str | None = None


class _Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    custom: _Custom | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    refusal: str | None = None  # the text of a model that declines; counts as an answer
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _CompletionDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _CostDetails(msgspec.Struct):
    upstream_inference_cost: float | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None
    # OpenRouter: the amount it charged, and the additional charge of the user's own upstream key
    cost: float | None = None
    cost_details: _CostDetails | None = None
    is_byok: bool | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None
    usage: _Usage | None = None


class _Chunk(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode
_STOPS: dict[str, StopReason] = {
    "stop": "stop",
    "end": "stop",
    "length": "length",
    "tool_calls": "toolUse",
    "function_call": "toolUse",
}


class ChatReader:
    """Reads one answer: at most one text, one thinking block, any number of tool calls."""

    def __init__(
        self, draft: Draft, compat: Compat, grammars: Mapping[str, str] | None = None
    ) -> None:
        self.done = False
        self._draft = draft
        self._compat = compat
        self._text: int | None = None
        self._thinking: int | None = None
        self._calls = _Calls(draft, grammars or {})
        self._details: list[_Detail] = []
        self._has_id = False
        self._finish: str | None = None

    def take(self, events: Iterable[bytes]) -> Iterator[StreamEvent]:
        for data in events:
            chunk = read_chunk(data, _decode, _Chunk)
            if chunk is None:
                self.done = True
                return
            if chunk.usage is not None or chunk.error is not None or not self._has_id:
                self._about(chunk)
            if not chunk.choices:
                continue
            choice = chunk.choices[0]
            if choice.finish_reason:
                self._finish = choice.finish_reason
            if choice.usage is not None:
                self._count(choice.usage)
            delta = choice.delta
            if delta is None:
                continue
            words = delta.content or delta.refusal
            if words:
                if self._text is None:
                    start = self._draft.start_text()
                    self._text = start.index
                    yield start
                yield self._draft.text(self._text, words)
            thought = delta.reasoning_content or delta.reasoning or delta.reasoning_text
            if thought:
                yield from self._think(thought, delta)
            if delta.reasoning_details:
                yield from self._note(delta.reasoning_details)
            for call in delta.tool_calls or ():
                yield from self._calls.take(call)

    def finish(self) -> Iterator[StreamEvent]:
        if self._details and self._thinking is not None:
            details = [detail.whole() for detail in self._details]
            self._draft.sign(self._thinking, dumps(details).decode())
        reason = self._finish
        if reason is None and self._compat.supports_finish_reason:
            raise ProviderError("Stream ended without finish_reason")
        if reason is None:
            self._draft.stopped("toolUse" if self._draft.has_tool_calls else "stop")
        else:
            self._draft.stopped(_STOPS.get(reason, "error"), reason)
        yield from self._calls.finish()
        yield from self._draft.end_all()
        if reason is not None and reason not in _STOPS:
            text = f"Provider finish_reason: {reason}"
            raise ProviderError(text, kind="refused" if reason == "content_filter" else None)

    def _about(self, chunk: _Chunk) -> None:
        if chunk.error is not None:
            text = error_message(chunk.error) or dumps(chunk.error).decode()
            raise ProviderError(text, kind=error_kind(chunk.error, text))
        if not self._has_id and (chunk.id or chunk.model):
            self._draft.identify(chunk.id, chunk.model)
            self._has_id = True
        if chunk.usage is not None:
            self._count(chunk.usage)

    def _count(self, usage: _Usage) -> None:
        # Other servers may use another unit in a field of this name.
        charged = _charged(usage) if vendor_of(self._draft.model) == "openrouter" else None
        self._draft.count(_usage(usage), charged=charged)

    def _think(self, text: str, delta: _Delta) -> Iterator[StreamEvent]:
        if self._thinking is None:
            field = next(name for name in REASONING_FIELDS if getattr(delta, name))
            start = self._draft.start_thinking(signature=field)
            self._thinking = start.index
            yield start
        yield self._draft.thinking(self._thinking, text)

    def _note(self, details: list[dict[str, Any]]) -> Iterator[StreamEvent]:
        if self._thinking is None:
            # Encrypted reasoning needs a block to store it, even without visible text.
            start = self._draft.start_thinking()
            self._thinking = start.index
            yield start
        for detail in details:
            if not self._details or not self._details[-1].add(detail):
                self._details.append(_Detail(detail))


def _usage(usage: _Usage) -> Usage:
    details = usage.prompt_tokens_details
    counts = (
        details.cached_tokens if details else None,
        usage.prompt_cache_hit_tokens,
        usage.cached_tokens,
    )
    read = next((count for count in counts if count is not None), 0)
    write = (details.cache_write_tokens or 0) if details else 0
    sent = max(0, (usage.prompt_tokens or 0) - read - write)
    output = usage.completion_tokens or 0
    thought = usage.completion_tokens_details
    return Usage(
        input=sent,
        output=output,
        cache_read=read,
        cache_write=write,
        total_tokens=sent + output + read + write,
        reasoning=(thought.reasoning_tokens or 0) if thought else 0,
    )


def _charged(usage: _Usage) -> float | None:
    details = usage.cost_details
    upstream = details.upstream_inference_cost if details and usage.is_byok else None
    return None if usage.cost is None else usage.cost + (upstream or 0)


# ---------------------------------------------------------------- pieces that arrive in pieces


class _Detail:
    """A router's reasoning detail: text grows, encrypted data arrives complete."""

    def __init__(self, piece: dict[str, Any]) -> None:
        self._value = piece
        self._key = next((key for key in ("text", "summary") if _is_text(piece, key)), None)
        self._parts = [piece[self._key]] if self._key else []

    def add(self, piece: dict[str, Any]) -> bool:
        """Append a piece that continues this detail; False if it belongs to another."""
        mine = (self._value.get("type"), self._value.get("index"))
        if self._key is None or mine != (piece.get("type"), piece.get("index")):
            return False
        if _is_text(piece, self._key):
            self._parts.append(piece[self._key])
        self._value |= {key: value for key, value in piece.items() if value is not None}
        return True

    def whole(self) -> dict[str, Any]:
        return {**self._value, self._key: "".join(self._parts)} if self._key else self._value


def _is_text(piece: dict[str, Any], key: str) -> bool:
    return isinstance(piece.get(key), str)


class _CallState(msgspec.Struct):
    """Fields of a call that the server has sent so far."""

    id: str
    name: str
    made_id: str = ""


class _Calls:
    """Open tool calls, looked up by index, or else by id, or else the last one."""

    def __init__(self, draft: Draft, grammars: Mapping[str, str]) -> None:
        self._draft = draft
        self._grammars = grammars
        self._customs: set[int] = set()
        self._by_index: dict[int, int] = {}
        self._by_id: dict[str, int] = {}
        self._states: dict[int, _CallState] = {}
        self._last: int | None = None

    def take(self, call: _Call) -> Iterator[StreamEvent]:
        function = call.function or call.custom
        name = (function.name if function else None) or ""
        block = self._find(call, name)
        if block is None:
            # If the server sends no id, create one for the result to refer to.
            call_state = _CallState(call.id or "", name, "" if call.id else f"call_{short_id()}")
            start = self._draft.start_tool(call_state.id or call_state.made_id, name)
            block = start.index
            self._states[block] = call_state
            yield start
        elif call.id or name:
            self._complete(block, call.id or "", name)
        self._last = block
        if call.index is not None:
            self._by_index[call.index] = block
        if call.id:
            self._by_id[call.id] = block
        yield self._draft.tool_args(block, self._arguments(block, function))

    def _arguments(self, block: int, said: _Function | _Custom | None) -> str:
        if isinstance(said, _Custom):
            return self._custom_head(block) + escape(said.input or "").decode()
        arguments = said.arguments if said else None
        return dumps(arguments).decode() if isinstance(arguments, dict) else arguments or ""

    def _custom_head(self, block: int) -> str:
        if block in self._customs:
            return ""
        self._customs.add(block)
        name = self._grammars.get(self._states[block].name, "input")
        return f'{{{dumps(name).decode()}:"'

    def finish(self) -> Iterator[StreamEvent]:
        """Yield the end of the argument that contains the text of a custom tool."""
        for block in sorted(self._customs):
            yield self._draft.tool_args(block, '"}')

    def _find(self, call: _Call, name: str) -> int | None:
        if call.index is not None:
            block = self._by_index.get(call.index)
            # Some servers give every call the index 0: a new id with a name is a new call.
            known_id = self._states[block].id if block is not None else ""
            return None if known_id and name and call.id not in (None, "", known_id) else block
        if call.id:
            return self._by_id.get(call.id)
        return None if name else self._last

    def _complete(self, block: int, call_id: str, name: str) -> None:
        call_state = self._states[block]
        if call_state.id and call_state.name:
            return
        call_state.id, call_state.name = call_state.id or call_id, call_state.name or name
        self._draft.rename_tool(block, call_state.id or call_state.made_id, call_state.name)
