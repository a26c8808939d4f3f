"""Amazon Bedrock (`bedrock-converse-stream`): provider, binary event stream, answers, errors."""

import base64
import binascii
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import msgspec

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ErrorKind, ProviderError, is_overflow, kind_of, retry_after
from ludolf.ai.http.sse import MAX_EVENT_BYTES
from ludolf.ai.http.transport import HttpResponse, Transport, check
from ludolf.ai.json_text import json_object
from ludolf.ai.messages import StopReason, Usage
from ludolf.ai.provider import Request
from ludolf.ai.providers.bedrock.identity import Identity, address, variables_of
from ludolf.ai.providers.bedrock.request import BedrockRequestBuilder
from ludolf.ai.providers.gateways import user_agent
from ludolf.ai.providers.http_provider import HttpCall, HttpProvider
from ludolf.ai.providers.openai.shared import ODD_EVENT, cut, read_odd


class Bedrock(HttpProvider["EventStreamMessage"]):
    """Provider for `model/<id>/converse-stream` with the AWS binary event stream."""

    api = "bedrock-converse-stream"

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._identity = Identity()
        self._bodies = BedrockRequestBuilder()

    async def call(self, request: Request) -> HttpCall:
        body = self._bodies.build(request, variables_of(request))
        proof = await self._identity.prove(request)
        return HttpCall(address(request, proof.region), _headers(request), body, proof.seal)

    def parser(self) -> "FrameParser":
        return FrameParser()

    def reader(self, request: Request, draft: Draft, reply: HttpResponse) -> "BedrockReader":
        return BedrockReader(draft, reply.headers.get("x-amzn-requestid"))

    async def check(self, reply: HttpResponse) -> None:
        if reply.status == 200:
            if "amazon.eventstream" not in reply.headers.get("Content-Type", ""):
                await check(reply, lambda status, body: body)
            return
        refused = _refusal(reply.status, reply.headers, await reply.text())
        if refused.kind == "auth":
            self._identity.forget()
        raise refused


make = Bedrock


def _headers(request: Request) -> dict[str, str]:
    headers = {
        "content-type": "application/json",
        "accept": "application/vnd.amazon.eventstream",
        "user-agent": user_agent(),
    }
    return {name.lower(): value for name, value in request.access.over(headers).items()}


# ---------------------------------------------------------------- frames

_PRELUDE = struct.Struct(">III")
_WORD = struct.Struct(">I")
_LENGTH = struct.Struct(">H")
_LEAST = _PRELUDE.size + _WORD.size
_TEXT = 7
_VARIABLE = (6, _TEXT)
# Sizes of the header value types with a fixed size: booleans, numbers, timestamp, UUID.
_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


class EventStreamMessage(msgspec.Struct, frozen=True):
    """One message of the stream, with its text headers."""

    headers: Mapping[str, str]
    payload: bytes


class FrameParser:
    """Parses frames from chunks that are split anywhere; verifies both checksums of each."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self.has_event = False

    def feed(self, chunk: bytes) -> Iterator[EventStreamMessage]:
        """Yield the frames that this chunk completes.

        Raises:
            ProviderError: the bytes are not an event stream.
        """
        self._rest += chunk
        while len(self._rest) >= _PRELUDE.size:
            size, header_size, checksum = _PRELUDE.unpack_from(self._rest)
            if zlib.crc32(self._rest[:8]) != checksum:
                raise _garbage("the checksum of its head is wrong")
            if size > MAX_EVENT_BYTES or size < _LEAST + header_size:
                raise _garbage(f"it claims {size} bytes")
            if len(self._rest) < size:
                return
            data = bytes(self._rest[:size])
            del self._rest[:size]
            self.has_event = True
            yield _read(data, header_size)

    def close(self) -> Iterator[EventStreamMessage]:
        """Check the end of the stream.

        Raises:
            ProviderError: the stream ended inside a frame.
        """
        if self._rest:
            raise ProviderError("Bedrock stream ended before the end of an event", kind="network")
        yield from ()


def _read(whole: bytes, header_size: int) -> EventStreamMessage:
    if zlib.crc32(whole[:-4]) != _WORD.unpack_from(whole, len(whole) - 4)[0]:
        raise _garbage("its checksum is wrong")
    start = _PRELUDE.size + header_size
    try:
        headers = _frame_headers(whole[_PRELUDE.size : start])
    except (IndexError, KeyError, UnicodeDecodeError, struct.error) as error:
        raise _garbage("its headers cannot be read") from error
    return EventStreamMessage(headers, whole[start:-4])


@lru_cache(64)
def _frame_headers(data: bytes) -> Mapping[str, str]:
    """Parse headers; cached, because a stream repeats the same few thousands of times."""
    return MappingProxyType(dict(_texts(data)))


def _texts(data: bytes) -> Iterator[tuple[str, str]]:
    offset = 0
    while offset < len(data):
        value = offset + 1 + data[offset]
        name, kind = data[offset + 1 : value].decode(), data[value]
        value += 1
        if kind in _VARIABLE:
            size = _LENGTH.unpack_from(data, value)[0]
            value += _LENGTH.size
        else:
            size = _FIXED[kind]
        offset = value + size
        if offset > len(data):
            raise IndexError(name)
        if kind == _TEXT:
            yield name, data[value:offset].decode()


def _garbage(why: str) -> ProviderError:
    return ProviderError(f"An event of the answer cannot be read: {why}", kind="garbled")


# ---------------------------------------------------------------- events


class _Wire(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of the events that are used; others are ignored."""


class ConverseToolStart(_Wire, frozen=True):
    tool_use_id: str = ""
    name: str = ""


class _Start(_Wire, frozen=True):
    tool_use: ConverseToolStart | None = None


class ToolDelta(_Wire, frozen=True):
    input: str | None = None


class Reasoning(_Wire, frozen=True):
    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class Delta(_Wire, frozen=True):
    text: str | None = None
    tool_use: ToolDelta | None = None
    reasoning_content: Reasoning | None = None


class CacheDetail(_Wire, frozen=True):
    ttl: str | None = None
    input_tokens: int | None = None


class ConverseUsage(_Wire, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_write_input_tokens: int | None = None
    cache_details: list[CacheDetail] | None = None


class ConverseEvent(_Wire, frozen=True):
    """Any event; the present fields depend on its type. An exception has a message."""

    content_block_index: int = 0
    start: _Start | None = None
    delta: Delta = Delta()
    stop_reason: str | None = None
    usage: ConverseUsage | None = None
    message: str | None = None


_decoder = msgspec.json.Decoder(ConverseEvent)


_REDACTED = "[Reasoning redacted]"
_STOPS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
}
_REFUSALS = frozenset(("guardrail_intervened", "content_filtered"))

# ---------------------------------------------------------------- failures

_PREFIXES = {
    "InternalServerException": "Internal server error",
    "ModelStreamErrorException": "Model stream error",
    "ValidationException": "Validation error",
    "ThrottlingException": "Throttling error",
    "ServiceUnavailableException": "Service unavailable",
}
_KINDS: dict[str, ErrorKind] = {
    "InternalServerException": "overloaded",
    "ModelStreamErrorException": "overloaded",
    "ModelNotReadyException": "overloaded",
    "ServiceUnavailableException": "overloaded",
    "ThrottlingException": "rate_limit",
    "ModelTimeoutException": "timeout",
    "AccessDeniedException": "auth",
    "ExpiredTokenException": "auth",
    "UnrecognizedClientException": "auth",
}
_KINDS_OF_STATUS: dict[int, ErrorKind] = {
    401: "auth",
    403: "auth",
    408: "timeout",
    429: "rate_limit",
}


class BedrockFailure(ProviderError):
    """A failure that AWS reported; `details` has status, errorCode and requestId for support."""

    def __init__(
        self,
        text: str,
        details: Mapping[str, Any],
        *,
        kind: ErrorKind | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(text, kind=kind, retry_after=retry_after)
        self.details = {name: value for name, value in details.items() if value is not None}
        self.diagnostic = ("bedrock_response_failure", self.details)


def failure(
    code: str | None,
    message: str,
    *,
    status: int | None = None,
    request_id: str | None = None,
    retry_after: float | None = None,
) -> BedrockFailure:
    """Return the error in the wording that hosts expect: a prefix by code, then the message."""
    prefix = _PREFIXES.get(code or "", code)
    if prefix is None:
        text = message if status is None else f"{status} {message}"
    else:
        text = f"{prefix}: {message}"
    details = {"status": status, "errorCode": code, "requestId": request_id}
    kind = _kind(code, status, text)
    return BedrockFailure(text, details, kind=kind, retry_after=retry_after)


def _kind(code: str | None, status: int | None, text: str) -> ErrorKind:
    if is_overflow(text):
        return "overflow"
    by_status = _KINDS_OF_STATUS.get(status or 0)
    if by_status is None and status is not None and status >= 500:
        by_status = "overloaded"
    return _KINDS.get(code or "") or by_status or kind_of(text)


def _refusal(status: int, headers: Mapping[str, str], body: str) -> BedrockFailure:
    """Convert an HTTP failure. The code is in a header or the body, with a namespace or URL."""
    fields = json_object(body)
    code = headers.get("x-amzn-errortype") or fields.get("__type") or fields.get("code")
    message = fields.get("message") or fields.get("Message") or cut(body.strip())
    return failure(
        str(code).partition(":")[0].rpartition("#")[2] if code else None,
        str(message) or "status code (no body)",
        status=status,
        request_id=headers.get("x-amzn-requestid"),
        retry_after=retry_after(headers),
    )


# ---------------------------------------------------------------- the answer


class BedrockReader:
    """Converts frames to events of the draft; text and reasoning start with their first delta."""

    def __init__(self, draft: Draft, request_id: str | None = None) -> None:
        self._draft = draft
        self._request_id = request_id
        # The server's index of an open block → its index in the draft.
        self._texts: dict[int, int] = {}
        self._thoughts: dict[int, int] = {}
        self._calls: dict[int, int] = {}
        self._hidden: dict[int, bytes] = {}
        self._stop: str | None = None
        self.done = False

    def take(self, frames: Iterable[EventStreamMessage]) -> Iterator[StreamEvent]:
        for frame in frames:
            headers, payload = frame.headers, frame.payload
            if headers.get(":message-type") != "event":
                raise self._failed(headers, payload)
            match headers.get(":event-type"):
                case "contentBlockDelta":
                    event = _decode(payload)
                    yield from self._delta(event.content_block_index, event.delta)
                case "contentBlockStart":
                    yield from self._start(_decode(payload))
                case "contentBlockStop":
                    yield from self._end(_decode(payload).content_block_index)
                case "messageStop":
                    self._stop = _decode(payload).stop_reason
                    if self._stop is not None:
                        self._draft.stopped(_STOPS.get(self._stop, "error"), self._stop)
                case "metadata":
                    if (counts := _decode(payload).usage) is not None:
                        self._draft.count(_usage(counts))
                    self.done = self._stop is not None

    def finish(self) -> Iterable[StreamEvent]:
        about = {"requestId": self._request_id}
        if self._stop is None:
            text = "Bedrock stream ended without a stop reason"
            raise BedrockFailure(text, about, kind="network")
        if self._stop not in _STOPS:
            kind: ErrorKind = "refused" if self._stop in _REFUSALS else "bad_request"
            raise BedrockFailure(f"Provider stopped with: {self._stop}", about, kind=kind)
        return ()

    def _start(self, event: ConverseEvent) -> Iterator[StreamEvent]:
        tool = event.start.tool_use if event.start else None
        if tool is not None:
            start = self._draft.start_tool(tool.tool_use_id, tool.name)
            self._calls[event.content_block_index] = start.index
            yield start

    def _delta(self, index: int, delta: Delta) -> Iterator[StreamEvent]:
        if delta.text:
            if index not in self._texts:
                yield (start := self._draft.start_text())
                self._texts[index] = start.index
            yield self._draft.text(self._texts[index], delta.text)
        if delta.tool_use is not None and index in self._calls:
            yield self._draft.tool_args(self._calls[index], delta.tool_use.input or "")
        if delta.reasoning_content is not None:
            yield from self._think(index, delta.reasoning_content)

    def _think(self, index: int, piece: Reasoning) -> Iterator[StreamEvent]:
        if piece.redacted_content:
            yield from self._hide(index, piece.redacted_content)
            return
        if index not in self._thoughts:
            yield (start := self._draft.start_thinking())
            self._thoughts[index] = start.index
        if piece.text:
            yield self._draft.thinking(self._thoughts[index], piece.text)
        if piece.signature:
            self._draft.sign(self._thoughts[index], piece.signature, append=True)

    def _hide(self, index: int, encoded: str) -> Iterator[StreamEvent]:
        """Store encrypted reasoning; its pieces form one payload."""
        try:
            data = self._hidden.get(index, b"") + base64.b64decode(encoded)
        except binascii.Error as error:
            text = "An event of the answer cannot be read: hidden reasoning is not base64"
            raise ProviderError(text, kind="garbled") from error
        self._hidden[index] = data
        signature = base64.b64encode(data).decode()
        if index in self._thoughts:
            self._draft.sign(self._thoughts[index], signature)
            return
        yield (start := self._draft.start_thinking(_REDACTED, signature, redacted=True))
        self._thoughts[index] = start.index

    def _end(self, index: int) -> Iterator[StreamEvent]:
        for places in (self._texts, self._thoughts, self._calls):
            block = places.pop(index, None)
            if block is not None:
                yield self._draft.end(block)

    def _failed(self, headers: Mapping[str, str], payload: bytes) -> ProviderError:
        code = headers.get(":exception-type")
        if code is None:
            message = headers.get(":error-message") or headers.get(":error-code") or "unknown error"
            return failure(headers.get(":error-code"), message, request_id=self._request_id)
        message = _decode(payload).message or payload.decode("utf-8", "replace")
        return failure(code[:1].upper() + code[1:], message, request_id=self._request_id)


def _decode(payload: bytes) -> ConverseEvent:
    try:
        return _decoder.decode(payload)
    except ODD_EVENT:
        return read_odd(payload, ConverseEvent)


def _usage(counts: ConverseUsage) -> Usage:
    input_tokens, output = counts.input_tokens or 0, counts.output_tokens or 0
    read, write = counts.cache_read_input_tokens or 0, counts.cache_write_input_tokens or 0
    usage = Usage(
        input=input_tokens,
        output=output,
        cache_read=read,
        cache_write=write,
        total_tokens=counts.total_tokens or input_tokens + output + read + write,
    )
    if counts.cache_details is None:
        return usage
    long = (detail.input_tokens or 0 for detail in counts.cache_details if detail.ttl == "1h")
    return usage.replace(cache_write_1h=sum(long))
