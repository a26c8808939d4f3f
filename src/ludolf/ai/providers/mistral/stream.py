"""Read an answer of Mistral's API, chunk by chunk, into a draft."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ErrorKind, ProviderError
from ludolf.ai.messages import StopReason, Usage
from ludolf.ai.providers.openai.shared import error_message, read_chunk
from ludolf.base import dumps, uuid4

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


class MistralReader:
    """Reads one answer; text and thinking may alternate, calls may interleave."""

    def __init__(self, draft: Draft) -> None:
        self.done = False
        self._draft = draft
        self._kind = ""
        self._block = -1
        self._calls: dict[int | str, int] = {}
        self._has_id = False
        self._finish: str | None = None

    def take(self, events: Iterable[bytes]) -> Iterator[StreamEvent]:
        """Yield the events of server-sent data.

        Raises:
            ProviderError: the server reported a failure, or sent data that cannot be parsed.
        """
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
        """End all open blocks, then set the stop reason.

        Raises:
            ProviderError: the stop reason is a failure, or missing.
        """
        reason = self._finish
        if reason is not None:
            self._draft.stopped(_STOPS.get(reason, "error"), reason)
        yield from self._draft.end_all()
        if reason is None:
            raise ProviderError(NO_END)
        if reason not in _STOPS:
            raise ProviderError(f"Provider stopped with: {reason}", kind=_kind(reason))

    def _about(self, chunk: _Chunk, data: bytes) -> None:
        if chunk.error is not None or chunk.object == "error":
            text = error_message(chunk.error) or error_message({"message": chunk.message})
            raise ProviderError(text or data.decode("utf-8", "replace"))
        if not self._has_id and (chunk.id or chunk.model):
            self._draft.identify(chunk.id, chunk.model)
            self._has_id = True
        if chunk.usage is not None:
            self._draft.count(_usage(chunk.usage))

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
                yield from self._open("thinking")
                self._draft.sign(self._block, part.signature)

    def _say(self, kind: str, text: str) -> Iterator[StreamEvent]:
        if text:
            yield from self._open(kind)
            yield self._draft.text(self._block, text)

    def _open(self, kind: str) -> Iterator[StreamEvent]:
        if kind == self._kind:
            return
        yield from self._close()
        if kind == "thinking":
            start = self._draft.start_thinking(signature=None)
        else:
            start = self._draft.start_text()
        self._kind, self._block = kind, start.index
        yield start

    def _close(self) -> Iterator[StreamEvent]:
        if self._kind:
            self._kind = ""
            yield self._draft.end(self._block)

    def _call(self, call: _Call) -> Iterator[StreamEvent]:
        # Later pieces of a call have the id "null".
        call_id = "" if call.id in (None, "null") else str(call.id)
        function = call.function or _Function()
        block = self._find(call.index, call_id)
        if block is None:
            yield from self._close()
            start = self._draft.start_tool(call_id or _new_id(), function.name or "")
            block = start.index
            yield start
        for key in (call.index, call_id):
            if key not in (None, ""):
                self._calls[key] = block
        arguments = function.arguments
        if isinstance(arguments, dict):
            arguments = dumps(arguments).decode()
        yield self._draft.tool_args(block, arguments or "")

    def _find(self, index: int | None, call_id: str) -> int | None:
        """Return an open call by its id if it has one, or else by its index."""
        if call_id:
            return self._calls.get(call_id)
        return None if index is None else self._calls.get(index)


def _thought(part: _Part) -> str:
    if isinstance(part.thinking, str):
        return part.thinking
    return "".join(piece.text or "" for piece in part.thinking or ())


def _new_id() -> str:
    """Return nine random letters, the form of Mistral's ids."""
    return uuid4().replace("-", "")[:9]


def _kind(reason: str) -> ErrorKind | None:
    return "overloaded" if reason == "error" else None


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
