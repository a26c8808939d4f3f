"""The Anthropic Messages API: one request, a stream of typed events."""

from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ErrorKind, ProviderError
from ludolf.ai.http.transport import Transport, check
from ludolf.ai.messages import StopReason, Usage
from ludolf.ai.provider import Provider, Request
from ludolf.ai.providers.anthropic.events import (
    AnthropicEvent,
    AnthropicMessageStart,
    AnthropicMessageStop,
    AnthropicTextDelta,
    AnthropicThinkingDelta,
    AnthropicUsage,
    ContentBlockDelta,
    ContentBlockStart,
    ContentBlockStop,
    Error,
    InputDelta,
    MessageDelta,
    RedactedBlock,
    SignatureDelta,
    StopFields,
    TextBlock,
    ThinkingBlock,
    ToolBlock,
    read_event,
)
from ludolf.ai.providers.anthropic.request import (
    AnthropicRequestBuilder,
    fallbacks,
    flag,
    has_eager_tools,
    thinking_of,
)
from ludolf.ai.providers.gateways import all_headers, base_url, key_headers, server_headers
from ludolf.base import dumps, loads

API = "anthropic-messages"
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


def make(transport: Transport) -> Provider:
    return Anthropic(transport)


class Anthropic:
    """Provider for `/v1/messages` with server-sent events."""

    api = API
    abort_text = "This operation was aborted"

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._bodies = AnthropicRequestBuilder()

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        reading = AnthropicReader(draft)
        async with self._transport.post(
            f"{base_url(request)}/v1/messages",
            _headers(request),
            self._bodies.build(request),
            patience=request.patience,
        ) as reply:
            await check(reply, describe)
            yield ()
            async for chunks in reply.events():
                yield reading.take(chunks)
                if reading.ended:
                    await reply.finish()
                    break
        reading.conclude()


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


def describe(status: int, body: str) -> str:
    """Return the text of an HTTP failure: the status and the body, as compact JSON."""
    try:
        return f"{status} {dumps(loads(body)).decode()}"
    except ValueError:
        return f"{status} {body.strip() or 'status code (no body)'}"


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
        self.ended = False

    def take(self, chunks: Iterable[bytes]) -> Iterator[StreamEvent]:
        """Yield the events of one network read.

        Raises:
            ProviderError: the server reported a failure.
        """
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

    def conclude(self) -> None:
        """Check that the answer is complete.

        Raises:
            ProviderError: it is not, or the model ended it with a failure.
        """
        if not self.ended:
            raise ProviderError("Anthropic stream ended before message_stop", kind="network")
        if self._garbage is not None:
            start = self._garbage[:200].decode("utf-8", "replace")
            raise ProviderError(f"Malformed event in the answer: {start}", kind="garbled")
        if self._failure is not None:
            text, kind = self._failure
            raise ProviderError(text, kind=kind)
        if self._draft.stop_reason is None:
            raise ProviderError("Anthropic stream ended without a stop reason", kind="network")

    def _event(self, data: bytes) -> AnthropicEvent | None:
        if self._garbage is not None:
            # After a lost event the answer must not count as complete; only its end is recognised.
            self.ended = self.ended or b'"message_stop"' in data
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
                self.ended = True
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


if TYPE_CHECKING:
    _provider: type[Provider] = Anthropic
