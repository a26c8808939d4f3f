"""Provider for Google's Gemini API (`google-generative-ai`): request, stream, errors."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import RETRYABLE, ErrorKind, ProviderError, kind_of
from ludolf.ai.http.transport import Transport, check
from ludolf.ai.messages import Usage
from ludolf.ai.provider import Provider, Request
from ludolf.ai.providers.gateways import base_url, key_headers, no_key, server_headers, user_agent
from ludolf.ai.providers.google.request import GoogleRequestBuilder
from ludolf.base import dumps, loads, now_ms

API = "google-generative-ai"
NO_END = "{} stream ended without a finish reason"
STREAM = "streamGenerateContent?alt=sse"
_KEY_HEADER: Final = "x-goog-api-key"
_REFUSALS = frozenset(
    ("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "LANGUAGE")
)


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Access to Google's models: `reach` returns the address and the headers of a request."""

    api: str
    owner: str
    reach: Callable[[Request], Awaitable[tuple[str, dict[str, str]]]]


def make(transport: Transport) -> Provider:
    return Google(transport)


class Google:
    """Provider for `models/<id>:streamGenerateContent` with server-sent events."""

    abort_text = "This operation was aborted"

    def __init__(self, transport: Transport, route: Route | None = None) -> None:
        self._route = route or Route(api=API, owner="Google", reach=_reach)
        self.api = self._route.api
        self._transport = transport
        self._bodies = GoogleRequestBuilder()

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        reading = _Reading(draft, NO_END.format(self._route.owner))
        url, headers = await self._route.reach(request)
        async with self._transport.post(
            url, headers, self._bodies.build(request), patience=request.patience
        ) as reply:
            await check(reply, describe)
            yield ()
            async for chunks in reply.events():
                yield reading.take(chunks)
        yield reading.close()
        reading.conclude()


async def _reach(request: Request) -> tuple[str, dict[str, str]]:
    name = request.model.id
    path = name if name.startswith(("models/", "tunedModels/")) else f"models/{name}"
    return f"{base_url(request)}/{path}:{STREAM}", headers_for(request)


def headers_for(request: Request, admission: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return all headers of a request; `admission` replaces the key if it is set.

    Raises:
        ProviderError: there is neither a key nor a configured header that replaces it.
    """
    way_in = key_headers(request, _KEY_HEADER) if admission is None else admission
    if not way_in and not request.access.by_header:
        raise no_key(request)
    ours = {"content-type": "application/json", "user-agent": user_agent(), **way_in}
    ours |= server_headers(request)
    return _lower(request.access.over(ours))


def _lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def describe(status: int, body: str) -> str:
    """Return the text of an HTTP failure: Google's error object, or one in its form."""
    try:
        value = loads(body)
    except ValueError:
        value = None
    if not isinstance(value, dict) or "error" not in value:
        value = {"error": {"message": body, "code": status}}
    return dumps(value).decode()


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
        return _decode_odd(data)


def _decode_odd(data: bytes) -> _Chunk:
    try:
        return msgspec.convert(loads(data), _Chunk)
    except (ValueError, RecursionError) as error:
        start = data[:200].decode("utf-8", "replace")
        raise ProviderError(f"Broken event from Google: {start}", kind="garbled") from error


class _Reading:
    """State of one answer: the open block, the used ids, the stop reason."""

    def __init__(self, draft: Draft, no_end: str) -> None:
        self._draft = draft
        self._no_end = no_end
        self._kind = ""
        self._index = -1
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
            self._draft.identify(chunk.response_id)
        if chunk.usage_metadata is not None and chunk.usage_metadata != self._counts:
            self._counts = chunk.usage_metadata
            self._draft.count(_usage(chunk.usage_metadata))
        if chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason:
            self._end = chunk.prompt_feedback.block_reason

    def _part(self, part: _Part) -> Iterator[StreamEvent]:
        if part.text is not None:
            yield from self._text(part.text, part)
        if part.function_call is not None:
            yield from self._call(part.function_call, part.thought_signature)

    def _text(self, text: str, part: _Part) -> Iterator[StreamEvent]:
        kind = "thinking" if part.thought else "text"
        if kind != self._kind:
            yield from self.close()
            start = (
                self._draft.start_thinking(signature=None)
                if part.thought
                else self._draft.start_text()
            )
            self._kind, self._index = kind, start.index
            yield start
        if part.thought_signature:
            self._draft.sign(self._index, part.thought_signature)
        yield self._draft.text(self._index, text)

    def _call(self, call: _Call, signature: str | None) -> Iterator[StreamEvent]:
        yield from self.close()
        start = self._draft.start_tool(self._free_id(call), call.name)
        yield start
        if signature:
            self._draft.sign(start.index, signature)
        yield self._draft.tool_args(start.index, dumps(call.args or {}).decode())
        yield self._draft.end(start.index)

    def _free_id(self, call: _Call) -> str:
        call_id = call.id or ""
        if not call_id or call_id in self._ids:
            call_id = f"{call.name}_{now_ms()}_{len(self._ids) + 1}"
        self._ids.add(call_id)
        return call_id

    def close(self) -> Iterator[StreamEvent]:
        """End the open block; also at the end of a stream without a stop reason."""
        if self._kind:
            self._kind = ""
            yield self._draft.end(self._index)

    def conclude(self) -> None:
        """Set the stop reason.

        Raises:
            ProviderError: there is none, or it is a failure.
        """
        match self._end:
            case None:
                raise ProviderError(self._no_end)
            case "STOP":
                self._draft.stopped("toolUse" if self._draft.has_tool_calls else "stop", self._end)
            case "MAX_TOKENS":
                self._draft.stopped("length", self._end)
            case _:
                self._draft.stopped("error", self._end)
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


if TYPE_CHECKING:
    _proof: Provider = Google(Transport())
