"""Read a Chat Completions answer, chunk by chunk, into a draft."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import StopReason, Usage
from ludolf.ai.providers.openai.compat import Compat, vendor_of
from ludolf.ai.providers.openai.shared import error_kind, error_message, read_chunk
from ludolf.base import dumps, escape, short_id

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

    def read(self, events: Iterator[bytes]) -> Iterator[StreamEvent]:
        """Yield the events of server-sent data.

        Raises:
            ProviderError: the server reported a failure, or sent data that cannot be parsed.
        """
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
        """End all blocks in order, then set the stop reason.

        Raises:
            ProviderError: the stop reason is a failure, or missing.
        """
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
            start = self._draft.start_thinking(signature=_field_of(delta))
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


def _field_of(delta: _Delta) -> str:
    if delta.reasoning_content:
        return "reasoning_content"
    return "reasoning" if delta.reasoning else "reasoning_text"


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
        self._remember(call, block)
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

    def _remember(self, call: _Call, block: int) -> None:
        self._last = block
        if call.index is not None:
            self._by_index[call.index] = block
        if call.id:
            self._by_id[call.id] = block
