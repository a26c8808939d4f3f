"""Provider for gateways with pi's own messages and events (`pi-messages`)."""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import msgspec
from msgspec import UNSET, structs

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.encoded_cache import EncodedHistory
from ludolf.ai.errors import ProviderError
from ludolf.ai.history import ModelMessage
from ludolf.ai.http.transport import HttpResponse, Transport
from ludolf.ai.json_text import json_object
from ludolf.ai.messages import AssistantMessage, StopReason, ToolResultMessage, Usage
from ludolf.ai.provider import Request, ToolSpec
from ludolf.ai.providers.gateways import all_headers, base_url, key_headers
from ludolf.ai.providers.http_provider import EventStreamProvider, HttpCall
from ludolf.ai.providers.openai.shared import ODD_EVENT, cut, read_odd
from ludolf.base import dumps, without_surrogates

_REDACTED = "[Reasoning redacted]"
_STOPS: dict[str, StopReason] = {"stop": "stop", "length": "length", "toolUse": "toolUse"}


class PiMessages(EventStreamProvider):
    """Provider for `<base>/messages` with server-sent events."""

    api = "pi-messages"

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport)
        self._history = _History()

    async def call(self, request: Request) -> HttpCall:
        headers = all_headers(request, key_headers(request, "Authorization"))
        return HttpCall(f"{base_url(request)}/messages", headers, self._history.body(request))

    def reader(self, request: Request, draft: Draft, reply: HttpResponse) -> "PiMessagesReader":
        return PiMessagesReader(draft)

    def describe(self, status: int, body: str) -> str:
        """Return the text of an HTTP failure: status and reason, then message and code."""
        from http import HTTPStatus

        try:
            name = f"{status} {HTTPStatus(status).phrase}"
        except ValueError:
            name = str(status)
        return f"{name}: {_words(body) or cut(body.strip()) or 'no body'}"


make = PiMessages


# ---------------------------------------------------------------- the request


class _History(EncodedHistory):
    def normal_id(self, call_id: str, source: AssistantMessage) -> str:
        return call_id

    def body(self, request: Request) -> bytes:
        messages = self.messages_of(request)
        pieces = [self.pieces.get(message, partial(_piece, message)) for message in messages]
        return b'{"model":%b,"context":{"messages":[%b]},"options":%b}' % (
            dumps(request.model.id),
            b",".join([*_system(request, messages), *pieces]),
            dumps(_options(request)),
        )


def _system(request: Request, messages: list[ModelMessage]) -> Iterator[bytes]:
    """Return the first message, which contains the system prompt and the tools."""
    if not request.system and not request.tools:
        return
    form: dict[str, Any] = {"role": "system", "content": without_surrogates(request.system)}
    if request.tools:
        form["toolsAdded"] = [_tool(tool) for tool in request.tools]
    yield dumps({**form, "timestamp": messages[0].timestamp if messages else 0})


def _tool(tool: ToolSpec) -> dict[str, Any]:
    text = without_surrogates(tool.description)
    form = {"name": tool.name, "description": text, "parameters": dict(tool.parameters)}
    return {**form, "constrainedSampling": tool.sampling} if tool.sampling else form


def _piece(message: ModelMessage) -> bytes:
    if isinstance(message, ToolResultMessage):
        # Details and usage are for hosts; models do not receive them.
        message = structs.replace(message, details=UNSET, usage=None)
    return dumps(message)


def _options(request: Request) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if request.max_tokens:
        options["maxTokens"] = request.max_tokens
    if request.thinking != "off":
        options["reasoning"] = request.thinking
    if request.session_id:
        options["sessionId"] = request.session_id
    if request.cache != "short":
        options["cacheRetention"] = request.cache
    return options


def _words(body: str) -> str | None:
    error = json_object(body).get("error")
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return None
    return f"{error['message']} ({error['code']})" if error.get("code") else str(error["message"])


# ---------------------------------------------------------------- what arrives


class _Call(msgspec.Struct, rename="camel"):
    id: str = ""
    name: str = ""
    arguments: Any = None
    thought_signature: str | None = None


class _Event(msgspec.Struct, rename="camel"):
    """Any event; the present fields depend on its type."""

    type: str = ""
    content_index: int = -1
    delta: str = ""
    content: str | None = None
    content_signature: str | None = None
    redacted: bool = False
    id: str = ""
    tool_name: str = ""
    tool_call: _Call | None = None
    reason: str | None = None
    usage: Usage | None = None
    error_message: str | None = None
    response_id: str | None = None


_decode = msgspec.json.Decoder(_Event).decode


class PiMessagesReader:
    """Converts the gateway's events to those of the draft."""

    def __init__(self, draft: Draft) -> None:
        self.done = False
        self._draft = draft
        # The gateway's index of an open block → its index in the draft.
        self._places: dict[int, int] = {}
        # Thinking blocks that are not started yet: only their end shows whether they are redacted.
        self._held: dict[int, str] = {}
        self._has_args: set[int] = set()

    def take(self, events: Iterable[bytes]) -> Iterator[StreamEvent]:
        for data in events:
            try:
                event = _decode(data)
            except ODD_EVENT:
                event = read_odd(data, _Event)
            kind, _, step = event.type.partition("_")
            if step == "delta":
                yield from self._grow(event)
            elif step == "start":
                yield from self._start(kind, event)
            elif step == "end":
                yield from self._end(event)
            elif event.type in ("done", "error"):
                self._terminate(event)

    def finish(self) -> Iterable[StreamEvent]:
        if not self.done:
            provider = self._draft.model.provider
            raise ProviderError(f"{provider} stream ended without a terminal event")
        return ()

    def _start(self, kind: str, event: _Event) -> Iterator[StreamEvent]:
        yield from self._release()
        if kind == "thinking":
            self._held[event.content_index] = ""
            return
        if kind == "toolcall":
            start = self._draft.start_tool(event.id, event.tool_name)
        else:
            start = self._draft.start_text()
        self._places[event.content_index] = start.index
        yield start

    def _release(self) -> Iterator[StreamEvent]:
        for index, text in self._held.items():
            yield (start := self._draft.start_thinking(signature=None))
            self._places[index] = start.index
            if text:
                yield self._draft.thinking(start.index, text)
        self._held.clear()

    def _grow(self, event: _Event) -> Iterator[StreamEvent]:
        index, delta = event.content_index, event.delta
        if index in self._held:
            if delta == _REDACTED and not self._held[index]:
                self._held[index] = delta
                return
            yield from self._release()
        block = self._places.get(index)
        if block is None:
            return
        if event.type == "toolcall_delta":
            self._has_args.add(index)
            yield self._draft.tool_args(block, delta)
        else:
            yield self._draft.text(block, delta)

    def _end(self, event: _Event) -> Iterator[StreamEvent]:
        index, signature = event.content_index, event.content_signature
        if event.redacted and index in self._held:
            text = self._held.pop(index)
            text = event.content or text or _REDACTED
            yield (start := self._draft.start_thinking(text, signature, redacted=True))
            yield self._draft.end(start.index)
            return
        yield from self._release()
        block = self._places.pop(index, None)
        if block is None:
            return
        if signature:
            self._draft.sign(block, signature)
        if event.tool_call is not None and event.type == "toolcall_end":
            yield from self._complete(index, block, event.tool_call)
        yield self._draft.end(block, event.content)

    def _complete(self, index: int, place: int, call: _Call) -> Iterator[StreamEvent]:
        if call.id and call.name:
            self._draft.rename_tool(place, call.id, call.name)
        if call.thought_signature:
            self._draft.sign(place, call.thought_signature)
        if index not in self._has_args and call.arguments:
            yield self._draft.tool_args(place, dumps(call.arguments).decode())

    def _terminate(self, event: _Event) -> None:
        self.done = True
        self._draft.identify(event.response_id)
        if event.usage is not None:
            self._draft.count(event.usage)
            if event.usage.cost.total:
                # The gateway knows which model answered, and its cost.
                self._draft.usage, self._draft.usage_json = event.usage, dumps(event.usage)
        if event.type == "error":
            provider = self._draft.model.provider
            raise ProviderError(event.error_message or f"{provider} ended with an error")
        reason = event.reason or ""
        self._draft.stopped(_STOPS.get(reason, "error"))
        if reason not in _STOPS:
            raise ProviderError(f"Provider stopped with: {reason}", kind="bad_request")
