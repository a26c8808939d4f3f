"""Mistral (`mistral-conversations`): its chat completions with thinking."""

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Literal

import msgspec

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.encoded_cache import EncodedHistory
from ludolf.ai.errors import ErrorKind, ProviderError
from ludolf.ai.history import ModelMessage
from ludolf.ai.http.transport import HttpResponse, Transport
from ludolf.ai.messages import (
    AssistantMessage,
    Block,
    Image,
    Part,
    StopReason,
    Text,
    Thinking,
    ToolResultMessage,
    Usage,
    UserMessage,
    text_of,
)
from ludolf.ai.provider import Request
from ludolf.ai.providers.gateways import all_headers, base_url, key_headers
from ludolf.ai.providers.http_provider import AlternatingBlocks, EventStreamProvider, HttpCall
from ludolf.ai.providers.openai.shared import (
    NO_OUTPUT,
    cache_key,
    call_form,
    cut,
    data_url,
    error_message,
    function_of,
    join_body,
    read_chunk,
)
from ludolf.base import dumps, uuid4, without_surrogates
from ludolf.base.patterns import lazy_pattern

_SEE_IMAGE = "(see attached image)"
_TOOL_ERROR = "[tool error] "
# Mistral refuses a user message directly after a tool result.
_AFTER_TOOLS = dumps({"role": "assistant", "content": "The tool results have been read."})
_ID = lazy_pattern(r"[A-Za-z0-9]{9}")
_ID_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_WITH_EFFORT = lazy_pattern(r"mistral-small-(?:2603|latest)|mistral-medium-|zai-")


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


class Mistral(EventStreamProvider):
    """Provider for `/v1/chat/completions` with server-sent events."""

    api = "mistral-conversations"

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._history = _History()

    async def call(self, request: Request) -> HttpCall:
        url = f"{base_url(request).removesuffix('/v1')}/v1/chat/completions"
        headers = key_headers(request, "Authorization")
        if request.session_id and request.cache != "none":
            headers["x-affinity"] = request.session_id
        body = join_body(_options(request), "messages", self._history.encode(request))
        return HttpCall(url, all_headers(request, headers), body)

    def reader(self, request: Request, draft: Draft, reply: HttpResponse) -> "MistralReader":
        return MistralReader(draft)

    def describe(self, status: int, body: str) -> str:
        return f"Mistral API error ({status}): {cut(body.strip()) or 'no body'}"


make = Mistral


class _History(EncodedHistory):
    def __init__(self) -> None:
        self._ids = Ids()
        super().__init__()

    def normal_id(self, call_id: str, source: AssistantMessage) -> str:
        return self._ids.normal(call_id, source)

    def encode(self, request: Request) -> list[bytes]:
        out: list[bytes] = []
        if request.system.strip():
            text = without_surrogates(request.system)
            out.append(dumps({"role": "system", "content": text}))
        after_tools = False
        for message in self.messages_of(request):
            piece = self.pieces.get(message, partial(_piece, message))
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
    calls = [call_form(call) for call in message.tool_calls]
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
        functions = (function_of(tool, knows_strict=True) for tool in request.tools)
        fields["tools"] = [{"type": "function", "function": form} for form in functions]
    if limit := request.max_tokens or model.max_tokens:
        fields["max_tokens"] = limit
    fields |= _thinking(request)
    if request.session_id and request.cache != "none":
        fields["prompt_cache_key"] = cache_key(request)
    return fields | (model.sampling_params or {})


def _thinking(request: Request) -> dict[str, Any]:
    model, level = request.model, request.thinking
    if not model.reasoning or level == "off":
        return {}
    mapped = (model.thinking_level_map or {}).get(level)
    if mapped or _WITH_EFFORT.match(model.id):
        return {"reasoning_effort": mapped or "high"}
    return {"prompt_mode": "reasoning"}


NO_END = "Mistral stream ended without a finish reason"
_STOPS: dict[str, StopReason] = {
    "stop": "stop",
    "length": "length",
    "model_length": "length",
    "tool_calls": "toolUse",
}

# ---------------------------------------------------------------- what arrives


class _Part(msgspec.Struct, gc=False):
    """A content part; a thinking part contains parts."""

    type: str = ""
    text: str | None = None
    thinking: "list[_Part] | str | None" = None
    signature: str | None = None


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Counts(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    num_cached_tokens: int | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    object: str | None = None
    id: str | None = None
    model: str | None = None
    choices: list[_Choice] | None = None
    usage: _Counts | None = None
    message: Any = None
    error: Any = None


_decode = msgspec.json.Decoder(_Chunk).decode


# ---------------------------------------------------------------- reading it


class MistralReader(AlternatingBlocks):
    """Reads one answer; text and thinking may alternate, calls may interleave."""

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft)
        self.done = False
        self._calls: dict[int | str, int] = {}
        self._has_id = False
        self._finish: str | None = None

    def take(self, events: Iterable[bytes]) -> Iterator[StreamEvent]:
        for data in events:
            chunk = read_chunk(data, _decode, _Chunk)
            if chunk is None:
                self.done = True
                return
            self._about(chunk, data)
            for choice in (chunk.choices or ())[:1]:
                self._finish = choice.finish_reason or self._finish
                if choice.delta is not None:
                    yield from self._content(choice.delta.content)
                    for call in choice.delta.tool_calls or ():
                        yield from self._call(call)

    def finish(self) -> Iterator[StreamEvent]:
        reason = self._finish
        if reason is not None:
            self.draft.stopped(_STOPS.get(reason, "error"), reason)
        yield from self.draft.end_all()
        if reason is None:
            raise ProviderError(NO_END)
        if reason not in _STOPS:
            kind: ErrorKind | None = "overloaded" if reason == "error" else None
            raise ProviderError(f"Provider stopped with: {reason}", kind=kind)

    def _about(self, chunk: _Chunk, data: bytes) -> None:
        if chunk.error is not None or chunk.object == "error":
            text = error_message(chunk.error) or error_message({"message": chunk.message})
            raise ProviderError(text or data.decode("utf-8", "replace"))
        if not self._has_id and (chunk.id or chunk.model):
            self.draft.identify(chunk.id, chunk.model)
            self._has_id = True
        if chunk.usage is not None:
            self.draft.count(_usage(chunk.usage))

    def _content(self, content: str | list[_Part] | None) -> Iterator[StreamEvent]:
        if isinstance(content, str):
            yield from self._say("text", content)
            return
        for part in content or ():
            if part.type != "thinking":
                yield from self._say("text", part.text or "")
                continue
            yield from self._say("thinking", _thought(part))
            if part.signature:
                yield from self.open("thinking")
                self.draft.sign(self.block, part.signature)

    def _say(self, kind: Literal["text", "thinking"], text: str) -> Iterator[StreamEvent]:
        if text:
            yield from self.open(kind)
            yield self.draft.text(self.block, text)

    def _call(self, call: _Call) -> Iterator[StreamEvent]:
        # Later pieces of a call have the id "null".
        call_id = "" if call.id in (None, "null") else str(call.id)
        function = call.function or _Function()
        block = self._find(call.index, call_id)
        if block is None:
            yield from self.close()
            own_id = call_id or uuid4().replace("-", "")[:9]
            start = self.draft.start_tool(own_id, function.name or "")
            block = start.index
            yield start
        for key in (call.index, call_id):
            if key not in (None, ""):
                self._calls[key] = block
        arguments = function.arguments
        if isinstance(arguments, dict):
            arguments = dumps(arguments).decode()
        yield self.draft.tool_args(block, arguments or "")

    def _find(self, index: int | None, call_id: str) -> int | None:
        """Return an open call by its id if it has one, or else by its index."""
        if call_id:
            return self._calls.get(call_id)
        return None if index is None else self._calls.get(index)


def _thought(part: _Part) -> str:
    if isinstance(part.thinking, str):
        return part.thinking
    return "".join(piece.text or "" for piece in part.thinking or ())


def _usage(counts: _Counts) -> Usage:
    details = counts.prompt_tokens_details
    detail_count = details.cached_tokens if details else None
    cached = (counts.num_cached_tokens if detail_count is None else detail_count) or 0
    sent = max(0, (counts.prompt_tokens or 0) - cached)
    output = counts.completion_tokens or 0
    return Usage(
        input=sent,
        output=output,
        cache_read=cached,
        total_tokens=counts.total_tokens or sent + cached + output,
    )
