"""The Anthropic Messages API: one request, a stream of typed events."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ErrorKind, ProviderError
from ludolf.ai.http.transport import HttpResponse, Transport
from ludolf.ai.messages import StopReason, Usage
from ludolf.ai.provider import Request
from ludolf.ai.providers.anthropic.request import (
    AnthropicRequestBuilder,
    fallbacks,
    flag,
    has_eager_tools,
    thinking_of,
)
from ludolf.ai.providers.gateways import all_headers, base_url, key_headers, server_headers
from ludolf.ai.providers.http_provider import EventStreamProvider, HttpCall
from ludolf.base import dumps, loads

_VERSION = "2023-06-01"
_BUDGET_BETA = "interleaved-thinking-2025-05-14"
_TOOLS_BETA = "fine-grained-tool-streaming-2025-05-14"
_FALLBACK_BETA = "server-side-fallback-2026-07-01"
_REDACTED = "[Reasoning redacted]"
_STOPS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "max_tokens": "length",
    "tool_use": "toolUse",
}


class Anthropic(EventStreamProvider):
    """Provider for `/v1/messages` with server-sent events."""

    api = "anthropic-messages"
    abort_text = "This operation was aborted"

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._bodies = AnthropicRequestBuilder()

    async def call(self, request: Request) -> HttpCall:
        url = f"{base_url(request)}/v1/messages"
        return HttpCall(url, _headers(request), self._bodies.build(request))

    def reader(self, request: Request, draft: Draft, reply: HttpResponse) -> "AnthropicReader":
        return AnthropicReader(draft)

    def describe(self, status: int, body: str) -> str:
        """Return the text of an HTTP failure: the status and the body, as compact JSON."""
        try:
            return f"{status} {dumps(loads(body)).decode()}"
        except ValueError:
            return f"{status} {body.strip() or 'status code (no body)'}"


make = Anthropic


def _headers(request: Request) -> dict[str, str]:
    headers = {"anthropic-version": _VERSION}
    if betas := _betas(request):
        headers["anthropic-beta"] = ",".join(betas)
    by_token = "sk-ant-oat" in (request.access.key or "")
    headers |= key_headers(request, "Authorization" if by_token else "x-api-key")
    return all_headers(request, headers | server_headers(request) | _session_headers(request))


def _session_headers(request: Request) -> dict[str, str]:
    model = request.model
    router = model.provider == "openrouter" or "openrouter.ai" in model.base_url
    if not request.session_id or request.cache == "none":
        return {}
    if not flag(model, "sendSessionAffinityHeaders", router):
        return {}
    as_router = (model.compat or {}).get("sessionAffinityFormat") == "openrouter" or router
    return {"x-session-id" if as_router else "x-session-affinity": request.session_id}


def _betas(request: Request) -> list[str]:
    betas = []
    if request.tools and not has_eager_tools(request.model):
        betas.append(_TOOLS_BETA)
    thinking = thinking_of(request)[1]
    if thinking is not None and thinking["type"] == "enabled":
        betas.append(_BUDGET_BETA)
    if fallbacks(request.model):
        betas.append(_FALLBACK_BETA)
    return betas


# ---------------------------------------------------------------- events


class _Wire(msgspec.Struct, frozen=True, gc=False, tag_field="type"):
    """The fields of the events that are used; others are ignored."""


class AnthropicTextDelta(_Wire, frozen=True, tag="text_delta"):
    text: str


class AnthropicThinkingDelta(_Wire, frozen=True, tag="thinking_delta"):
    thinking: str


class InputDelta(_Wire, frozen=True, tag="input_json_delta"):
    partial_json: str


class SignatureDelta(_Wire, frozen=True, tag="signature_delta"):
    signature: str


class ContentBlockDelta(_Wire, frozen=True, tag="content_block_delta"):
    index: int
    delta: AnthropicTextDelta | AnthropicThinkingDelta | InputDelta | SignatureDelta


class TextBlock(_Wire, frozen=True, tag="text"):
    text: str | None = None


class ThinkingBlock(_Wire, frozen=True, tag="thinking"):
    thinking: str | None = None
    signature: str | None = None


class RedactedBlock(_Wire, frozen=True, tag="redacted_thinking"):
    data: str


class ToolBlock(_Wire, frozen=True, tag="tool_use"):
    id: str
    name: str
    input: dict[str, Any] | None = None


class ContentBlockStart(_Wire, frozen=True, tag="content_block_start"):
    index: int
    content_block: TextBlock | ThinkingBlock | RedactedBlock | ToolBlock


class ContentBlockStop(_Wire, frozen=True, tag="content_block_stop"):
    index: int


class _CacheCreation(msgspec.Struct, frozen=True):
    ephemeral_1h_input_tokens: int | None = None


class _OutputDetails(msgspec.Struct, frozen=True):
    thinking_tokens: int | None = None


class AnthropicUsage(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _CacheCreation | None = None
    output_tokens_details: _OutputDetails | None = None


class MessageHead(msgspec.Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    usage: AnthropicUsage | None = None


class AnthropicMessageStart(_Wire, frozen=True, tag="message_start"):
    message: MessageHead


class _StopDetails(msgspec.Struct, frozen=True):
    explanation: str | None = None


class StopFields(msgspec.Struct, frozen=True):
    stop_reason: str | None = None
    stop_details: _StopDetails | None = None


class MessageDelta(_Wire, frozen=True, tag="message_delta"):
    delta: StopFields
    usage: AnthropicUsage | None = None


class AnthropicMessageStop(_Wire, frozen=True, tag="message_stop"):
    pass


class Error(_Wire, frozen=True, tag="error"):
    pass


AnthropicEvent = (
    ContentBlockDelta
    | ContentBlockStart
    | ContentBlockStop
    | AnthropicMessageStart
    | MessageDelta
    | AnthropicMessageStop
    | Error
)
_decoder: msgspec.json.Decoder[AnthropicEvent] = msgspec.json.Decoder(AnthropicEvent)
_INNER = {"content_block_delta": "delta", "content_block_start": "content_block"}
_KNOWN = frozenset(
    (
        *("content_block_delta", "content_block_start", "content_block_stop"),
        *("message_start", "message_delta", "message_stop", "error"),
        *("text_delta", "thinking_delta", "input_json_delta", "signature_delta"),
        *("text", "thinking", "redacted_thinking", "tool_use"),
    )
)


def read_event(data: bytes) -> AnthropicEvent | None:
    """Parse an event; None if its type is unknown.

    Raises:
        ValueError: the data is not JSON, or lacks a required field.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = loads(data)
    try:
        event: AnthropicEvent = msgspec.convert(value, AnthropicEvent)
    except msgspec.ValidationError:
        if _is_known(value):
            raise
        return None
    return event


def _is_known(value: Any) -> bool:
    kind = value.get("type") if isinstance(value, dict) else None
    if kind not in _INNER:
        return kind in _KNOWN
    inner = value.get(_INNER[kind])
    return not isinstance(inner, dict) or inner.get("type") in _KNOWN


# ---------------------------------------------------------------- reading it


class AnthropicReader:
    """Converts the data of server-sent events to events of the draft."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        # The server's index of an open block → its index in the draft.
        self._texts: dict[int, int] = {}
        self._calls: dict[int, int] = {}
        self._thoughts: dict[int, int] = {}
        self._inputs: dict[int, dict[str, Any]] = {}
        self._garbage: bytes | None = None
        self._failure: tuple[str, ErrorKind | None] | None = None
        self.done = False

    def take(self, chunks: Iterable[bytes]) -> Iterator[StreamEvent]:
        draft, texts, calls, thoughts = self._draft, self._texts, self._calls, self._thoughts
        for data in chunks:
            event = self._event(data)
            if type(event) is ContentBlockDelta:
                delta, index = event.delta, event.index
                if type(delta) is AnthropicTextDelta:
                    if index in texts:
                        yield draft.text(texts[index], delta.text)
                elif type(delta) is InputDelta:
                    if index in calls:
                        self._inputs.pop(index, None)
                        yield draft.tool_args(calls[index], delta.partial_json)
                elif index in thoughts:
                    if type(delta) is AnthropicThinkingDelta:
                        yield draft.thinking(thoughts[index], delta.thinking)
                    elif type(delta) is SignatureDelta:
                        draft.sign(thoughts[index], delta.signature, append=True)
            elif event is not None:
                yield from self._other(event, data)

    def finish(self) -> Iterable[StreamEvent]:
        if not self.done:
            raise ProviderError("Anthropic stream ended before message_stop", kind="network")
        if self._garbage is not None:
            start = self._garbage[:200].decode("utf-8", "replace")
            raise ProviderError(f"Malformed event in the answer: {start}", kind="garbled")
        if self._failure is not None:
            text, kind = self._failure
            raise ProviderError(text, kind=kind)
        if self._draft.stop_reason is None:
            raise ProviderError("Anthropic stream ended without a stop reason", kind="network")
        return ()

    def _event(self, data: bytes) -> AnthropicEvent | None:
        if self._garbage is not None:
            # After a lost event the answer must not count as complete; only its end is recognised.
            self.done = self.done or b'"message_stop"' in data
            return None
        try:
            return read_event(data)
        except (ValueError, RecursionError):
            self._garbage = data
            return None

    def _other(self, event: AnthropicEvent, data: bytes) -> Iterator[StreamEvent]:
        match event:
            case ContentBlockStart():
                yield from self._start(event)
            case ContentBlockStop():
                yield from self._stop(event.index)
            case AnthropicMessageStart(message=head):
                self._draft.identify(head.id, head.model)
                self._price_as(head.model)
                self._count(head.usage)
            case MessageDelta():
                self._count(event.usage)
                self._stopped(event.delta)
            case AnthropicMessageStop():
                self.done = True
            case Error():
                raise ProviderError(data.decode("utf-8", "replace"))

    def _start(self, event: ContentBlockStart) -> Iterator[StreamEvent]:
        draft, index = self._draft, event.index
        match event.content_block:
            case TextBlock(text=text):
                yield (start := draft.start_text())
                self._texts[index] = start.index
                if text:
                    yield draft.text(start.index, text)
            case ThinkingBlock(thinking=text, signature=signature):
                yield (start := draft.start_thinking(signature=signature or ""))
                self._thoughts[index] = start.index
                if text:
                    yield draft.thinking(start.index, text)
            case RedactedBlock(data=data):
                yield (start := draft.start_thinking(_REDACTED, data, redacted=True))
                self._thoughts[index] = start.index
            case ToolBlock(id=call_id, name=name, input=given):
                yield (start := draft.start_tool(call_id, name))
                self._calls[index] = start.index
                if given:
                    self._inputs[index] = given

    def _stop(self, index: int) -> Iterator[StreamEvent]:
        for places in (self._texts, self._calls, self._thoughts):
            block = places.pop(index, None)
            if block is None:
                continue
            # Some servers send the complete input at the start of the block, and no deltas.
            initial_input = self._inputs.pop(index, None)
            if initial_input is not None:
                yield self._draft.tool_args(block, dumps(initial_input).decode())
            yield self._draft.end(block)

    def _stopped(self, stop: StopFields) -> None:
        raw = stop.stop_reason
        if raw is None:
            return
        self._draft.stopped(_STOPS.get(raw, "error"), raw)
        if raw == "refusal":
            explanation = stop.stop_details.explanation if stop.stop_details else None
            self._failure = (explanation or "The model refused to complete the request", "refused")
        elif raw not in _STOPS:
            self._failure = (f"Unhandled stop reason: {raw}", None)

    def _price_as(self, name: str | None) -> None:
        """Use the prices of the fallback model that answered."""
        for other in fallbacks(self._draft.model):
            if other.model == name and other.cost is not None:
                self._draft.model = self._draft.model.replace(cost=other.cost)

    def _count(self, counts: AnthropicUsage | None) -> None:
        if counts is not None:
            self._draft.count(_usage(counts, self._draft.usage))


def _usage(counts: AnthropicUsage, old: Usage) -> Usage:
    """Merge new token counts into the counts so far."""
    read = _newer(counts.cache_read_input_tokens, old.cache_read)
    write = _newer(counts.cache_creation_input_tokens, old.cache_write)
    input_tokens = _newer(counts.input_tokens, old.input)
    output = _newer(counts.output_tokens, old.output)
    long = counts.cache_creation.ephemeral_1h_input_tokens if counts.cache_creation else None
    thought = counts.output_tokens_details.thinking_tokens if counts.output_tokens_details else None
    return Usage(
        input=input_tokens,
        output=output,
        cache_read=read,
        cache_write=write,
        total_tokens=input_tokens + output + read + write,
        cache_write_1h=_newer(long, old.cache_write_1h or 0),
        reasoning=old.reasoning if thought is None else thought,
    )


def _newer(new: int | None, old: int) -> int:
    return old if new is None else new
