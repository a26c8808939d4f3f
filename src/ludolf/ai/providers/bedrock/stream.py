"""Read an answer of Bedrock's ConverseStream, frame by frame, into a draft."""

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ErrorKind, ProviderError, is_overflow, kind_of
from ludolf.ai.messages import StopReason, Usage
from ludolf.ai.providers.bedrock.events import (
    Complaint,
    ConverseBlockDelta,
    ConverseBlockStart,
    ConverseBlockStop,
    ConverseMessageStop,
    ConverseUsage,
    Delta,
    EventStreamMessage,
    Metadata,
    Reasoning,
)
from ludolf.ai.providers.openai.shared import ODD_EVENT, read_odd

_REDACTED = "[Reasoning redacted]"
_STOPS: dict[str, StopReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "toolUse",
}
_REFUSALS = frozenset(("guardrail_intervened", "content_filtered"))

T = TypeVar("T")


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
        self.ended = False

    def take(self, frames: Iterable[EventStreamMessage]) -> Iterator[StreamEvent]:
        """Yield the events of one network read.

        Raises:
            ProviderError: the server reported a failure, or sent data that cannot be parsed.
        """
        for frame in frames:
            headers, payload = frame.headers, frame.payload
            if headers.get(":message-type") != "event":
                raise self._failed(headers, payload)
            match headers.get(":event-type"):
                case "contentBlockDelta":
                    event = _decode(payload, ConverseBlockDelta)
                    yield from self._delta(event.content_block_index, event.delta)
                case "contentBlockStart":
                    yield from self._start(_decode(payload, ConverseBlockStart))
                case "contentBlockStop":
                    yield from self._end(_decode(payload, ConverseBlockStop).content_block_index)
                case "messageStop":
                    self._stopped(_decode(payload, ConverseMessageStop).stop_reason)
                case "metadata":
                    self._count(_decode(payload, Metadata).usage)

    def conclude(self) -> None:
        """Check that the answer is complete.

        Raises:
            ProviderError: it is not, or the model ended it with a failure.
        """
        about = {"requestId": self._request_id}
        if self._stop is None:
            text = "Bedrock stream ended without a stop reason"
            raise BedrockFailure(text, about, kind="network")
        if self._stop not in _STOPS:
            kind: ErrorKind = "refused" if self._stop in _REFUSALS else "bad_request"
            raise BedrockFailure(f"Provider stopped with: {self._stop}", about, kind=kind)

    def _start(self, event: ConverseBlockStart) -> Iterator[StreamEvent]:
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

    def _stopped(self, reason: str | None) -> None:
        self._stop = reason
        if reason is not None:
            self._draft.stopped(_STOPS.get(reason, "error"), reason)

    def _count(self, counts: ConverseUsage | None) -> None:
        if counts is not None:
            self._draft.count(_usage(counts))
        self.ended = self._stop is not None

    def _failed(self, headers: Mapping[str, str], payload: bytes) -> ProviderError:
        code = headers.get(":exception-type")
        if code is None:
            message = headers.get(":error-message") or headers.get(":error-code") or "unknown error"
            return failure(headers.get(":error-code"), message, request_id=self._request_id)
        message = _decode(payload, Complaint).message or payload.decode("utf-8", "replace")
        return failure(code[:1].upper() + code[1:], message, request_id=self._request_id)


def _decode(payload: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(payload, type=kind)
    except ODD_EVENT:
        return read_odd(payload, kind)


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
