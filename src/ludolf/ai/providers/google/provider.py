"""Google's Gemini API (`google-generative-ai`): requests, answers, errors."""

import re
from collections.abc import (
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Any

import msgspec

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.encoded_cache import EncodedHistory
from ludolf.ai.errors import RETRYABLE, ErrorKind, ProviderError, kind_of
from ludolf.ai.history import ModelMessage
from ludolf.ai.http.transport import HttpResponse, Transport
from ludolf.ai.json_text import json_object
from ludolf.ai.messages import (
    AssistantMessage,
    Block,
    Image,
    Text,
    Thinking,
    ThinkingLevel,
    ToolCall,
    ToolResultMessage,
    Usage,
    text_of,
)
from ludolf.ai.models import Model
from ludolf.ai.provider import Request, ToolSpec
from ludolf.ai.providers.gateways import (
    admission_headers,
    base_url,
    server_headers,
    user_agent,
)
from ludolf.ai.providers.http_provider import AlternatingBlocks, EventStreamProvider, HttpCall
from ludolf.ai.strict_schema import sampled_schema
from ludolf.ai.tool_schema import gemini_schema
from ludolf.base import dumps, loads, now_ms, without_surrogates
from ludolf.base.patterns import lazy_pattern

STREAM = "streamGenerateContent?alt=sse"
_REFUSALS = frozenset(
    ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE")
)


class Google(EventStreamProvider):
    """Provider for `models/<id>:streamGenerateContent` with server-sent events."""

    api = "google-generative-ai"
    abort_text = "This operation was aborted"
    owner = "Google"

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._bodies = GoogleRequestBuilder()

    async def reach(self, request: Request) -> tuple[str, dict[str, str]]:
        """Return the address and the headers of a request.

        Raises:
            ProviderError: the address is incomplete, or no credentials were found.
        """
        name = request.model.id
        path = name if name.startswith(("models/", "tunedModels/")) else f"models/{name}"
        return f"{base_url(request)}/{path}:{STREAM}", headers_for(request)

    async def call(self, request: Request) -> HttpCall:
        return HttpCall(*await self.reach(request), self._bodies.build(request))

    def reader(self, request: Request, draft: Draft, reply: HttpResponse) -> "_Reading":
        return _Reading(draft, f"{self.owner} stream ended without a finish reason")

    def describe(self, status: int, body: str) -> str:
        """Return the text of an HTTP failure: Google's error object, or one in its form."""
        value = json_object(body)
        failure = value if "error" in value else {"error": {"message": body, "code": status}}
        return dumps(failure).decode()


make = Google


def headers_for(request: Request, admission: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return all headers of a request; `admission` replaces the key if it is set.

    Raises:
        ProviderError: there is neither a key nor a configured header that replaces it.
    """
    way_in = admission_headers(request, "x-goog-api-key", admission)
    ours = {"content-type": "application/json", "user-agent": user_agent(), **way_in}
    ours |= server_headers(request)
    return {name.lower(): value for name, value in request.access.over(ours).items()}


# ---------------------------------------------------------------- what arrives


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of Google's objects that are used; others are ignored."""


class _Call(_Wire, frozen=True):
    name: str = ""
    args: dict[str, Any] | None = None
    id: str | None = None


class _Part(_Wire, frozen=True):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _Call | None = None


class _Content(_Wire, frozen=True):
    parts: list[_Part] | None = None


class _Candidate(_Wire, frozen=True):
    content: _Content | None = None
    finish_reason: str | None = None


class _Counts(_Wire, frozen=True):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    total_token_count: int | None = None


class _Feedback(_Wire, frozen=True):
    block_reason: str | None = None


class _Chunk(_Wire, frozen=True):
    candidates: list[_Candidate] | None = None
    usage_metadata: _Counts | None = None
    prompt_feedback: _Feedback | None = None
    response_id: str | None = None
    error: Any = None


_decoder = msgspec.json.Decoder(_Chunk)


def _decode(data: bytes) -> _Chunk:
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        return msgspec.convert(loads(data), _Chunk)
    except (ValueError, RecursionError) as error:
        start = data[:200].decode("utf-8", "replace")
        raise ProviderError(f"Broken event from Google: {start}", kind="garbled") from error


class _Reading(AlternatingBlocks):
    """State of one answer: the open block, the used ids, the stop reason."""

    done = False  # the end of the stream is the end of the answer

    def __init__(self, draft: Draft, no_end: str) -> None:
        super().__init__(draft)
        self._no_end = no_end
        self._ids: set[str] = set()
        self._counts: _Counts | None = None
        self._end: str | None = None

    def take(self, events: Iterable[bytes]) -> Iterator[StreamEvent]:
        for data in events:
            chunk = _decode(data)
            if chunk.error is not None:
                yield from self.close()
                raise _failure(chunk.error, self._no_end)
            self._about(chunk)
            for candidate in chunk.candidates or ():
                for part in (candidate.content and candidate.content.parts) or ():
                    yield from self._part(part)
                self._end = candidate.finish_reason or self._end

    def _about(self, chunk: _Chunk) -> None:
        if chunk.response_id:
            self.draft.identify(chunk.response_id)
        if chunk.usage_metadata is not None and chunk.usage_metadata != self._counts:
            self._counts = chunk.usage_metadata
            self.draft.count(_usage(chunk.usage_metadata))
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._end = chunk.prompt_feedback.block_reason

    def _part(self, part: _Part) -> Iterator[StreamEvent]:
        if part.text is not None:
            yield from self._text(part.text, part)
        if part.function_call is not None:
            yield from self._call(part.function_call, part.thought_signature)

    def _text(self, text: str, part: _Part) -> Iterator[StreamEvent]:
        yield from self.open("thinking" if part.thought else "text")
        if part.thought_signature:
            self.draft.sign(self.block, part.thought_signature)
        yield self.draft.text(self.block, text)

    def _call(self, call: _Call, signature: str | None) -> Iterator[StreamEvent]:
        yield from self.close()
        start = self.draft.start_tool(self._free_id(call), call.name)
        yield start
        if signature:
            self.draft.sign(start.index, signature)
        yield self.draft.tool_args(start.index, dumps(call.args or {}).decode())
        yield self.draft.end(start.index)

    def _free_id(self, call: _Call) -> str:
        call_id = call.id or ""
        if not call_id or call_id in self._ids:
            call_id = f"{call.name}_{now_ms()}_{len(self._ids) + 1}"
        self._ids.add(call_id)
        return call_id

    def finish(self) -> Iterator[StreamEvent]:
        yield from self.close()
        match self._end:
            case None:
                raise ProviderError(self._no_end)
            case "STOP":
                self.draft.stopped("toolUse" if self.draft.has_tool_calls else "stop", self._end)
            case "MAX_TOKENS":
                self.draft.stopped("length", self._end)
            case _:
                self.draft.stopped("error", self._end)
                kind: ErrorKind = "refused" if self._end in _REFUSALS else "bad_request"
                raise ProviderError(f"Provider stopped with: {self._end}", kind=kind)


def _usage(counts: _Counts) -> Usage:
    cached = counts.cached_content_token_count or 0
    thoughts = counts.thoughts_token_count or 0
    return Usage(
        input=max(0, (counts.prompt_token_count or 0) - cached),
        output=(counts.candidates_token_count or 0) + thoughts,
        cache_read=cached,
        total_tokens=counts.total_token_count or 0,
        reasoning=thoughts,
    )


def _failure(error: Any, no_end: str) -> ProviderError:
    text = dumps({"error": error}).decode()
    kind = kind_of(text)
    # pi ignores an error inside the stream and reports the missing end; hosts expect that text.
    return ProviderError(no_end if kind in RETRYABLE else text, kind=kind)


SEE_IMAGE = "(see attached image)"
IMAGE_TURN = "Tool result image:"
# Gemini 3 refuses calls without a signature; Google accepts this value for foreign calls.
_UNSIGNED_CALL = "skip_thought_signature_validator"
_GEMINI_3_UP = lazy_pattern(r"gemini-(?:[3-9]|[1-9]\d)|gemini-(?:flash|flash-lite|pro)-latest")
_GEMINI_BELOW_3 = lazy_pattern(r"gemini-(?:live-)?[12](?!\d)")
_WANTS_IDS = lazy_pattern(r"(?:^|/)(?:claude-|gpt-oss-)")
_BASE64 = lazy_pattern(r"[A-Za-z0-9+/]+={0,2}")


class GoogleRequestBuilder(EncodedHistory):
    """Builds request bodies; caches the encoded form of each message."""

    def build(self, request: Request) -> bytes:
        messages = self.messages_of(request)
        head = b'{"contents":[' + b",".join(self._turns(messages, request.model)) + b"]"
        return head + b"".join(b',"%b":%b' % part for part in _options(request)) + b"}"

    def _turns(self, messages: Sequence[ModelMessage], model: Model) -> Iterator[bytes]:
        batch: list[bytes] = []
        pictures: list[bytes] = []
        for message in messages:
            if isinstance(message, ToolResultMessage):
                batch.append(self._turn(message, model))
                pictures += _pictures(message, model)
                continue
            yield from _close_batch(batch, pictures)
            turn = self._turn(message, model)
            if turn:
                yield turn
        yield from _close_batch(batch, pictures)

    def _turn(self, message: ModelMessage, model: Model) -> bytes:
        return self.pieces.get(message, partial(_encode, message, model))


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


def _encode(message: ModelMessage, model: Model) -> bytes:
    if isinstance(message, ToolResultMessage):
        return dumps(_response(message, model))
    if isinstance(message, AssistantMessage):
        blocks = (_block(block, model) for block in message.content)
        role, parts = "model", [part for part in blocks if part is not None]
    else:
        role = "user"
        parts = [
            _inline(part) if isinstance(part, Image) else {"text": part.text}
            for part in message.parts
            if isinstance(part, Image) or part.text.strip()
        ]
    return dumps({"role": role, "parts": parts}) if parts else b""


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
        "parametersJsonSchema": schema if enforced else gemini_schema(schema),
    }
    return form, enforced


# ---------------------------------------------------------------- thinking

# Models with levels and their names for minimal, low, medium, high; the first match counts.
_LEVELS: tuple[tuple[re.Pattern[str], tuple[str, str, str, str]], ...] = (
    (lazy_pattern(r"gemini-3-pro"), ("LOW", "LOW", "HIGH", "HIGH")),
    (lazy_pattern(r"gemini-[3-9][.\d]*-pro|gemini-pro-latest"), ("LOW", "LOW", "MEDIUM", "HIGH")),
    (_GEMINI_3_UP, ("MINIMAL", "LOW", "MEDIUM", "HIGH")),
    (lazy_pattern(r"gemma-?4"), ("MINIMAL", "MINIMAL", "HIGH", "HIGH")),
)
_BUDGETS: tuple[tuple[re.Pattern[str], tuple[int, int, int, int]], ...] = (
    (lazy_pattern(r"2\.5-pro"), (128, 2048, 8192, 32768)),
    (lazy_pattern(r"2\.5-flash-lite"), (512, 2048, 8192, 24576)),
    (lazy_pattern(r"2\.5-flash"), (128, 2048, 8192, 24576)),
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
