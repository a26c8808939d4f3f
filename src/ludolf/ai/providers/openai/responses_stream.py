"""Read a Responses answer, event by event, into a draft."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from ludolf.ai.draft import BlockKind, Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import Usage
from ludolf.ai.providers.openai.shared import error_message, read_chunk
from ludolf.base import dumps, escape

_NO_END = "OpenAI Responses stream ended before a terminal response event"
_PART_GAP = "\n\n"


# ---------------------------------------------------------------- what arrives


class _InputDetails(msgspec.Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OutputDetails(msgspec.Struct):
    reasoning_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _Incomplete(msgspec.Struct):
    reason: str | None = None


class _Response(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    output: list[dict[str, Any]] | None = None
    usage: _Usage | None = None
    error: Any = None
    incomplete_details: _Incomplete | None = None
    service_tier: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str = ""
    output_index: int | None = None
    delta: str | None = None
    arguments: str | None = None
    input: str | None = None
    item: dict[str, Any] | None = None
    response: _Response | None = None
    code: str | None = None
    message: str | None = None
    error: Any = None


class _Open(msgspec.Struct):
    """An open item and its block.

    The text of a custom tool is one argument of its call; `argument` is its name.
    """

    kind: BlockKind
    block: int
    parts: list[str]
    argument: str | None = None


_decode = msgspec.json.Decoder(_Event).decode
_KINDS: dict[str, BlockKind] = {
    "message": "text",
    "reasoning": "thinking",
    "function_call": "toolcall",
    "custom_tool_call": "toolcall",
}
_DELTAS: dict[str, BlockKind] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
    "response.function_call_arguments.delta": "toolcall",
    "response.custom_tool_call_input.delta": "toolcall",
}


# ---------------------------------------------------------------- reading


class ResponsesReader:
    """Reads one answer: each output item becomes a block, in order of their start."""

    def __init__(self, draft: Draft, grammars: Mapping[str, str] | None = None) -> None:
        self.done = False
        self._draft = draft
        self._grammars = grammars or {}
        self._open: dict[int, _Open] = {}
        self._last = 0
        self._unsealed: dict[str, tuple[int, dict[str, Any]]] = {}
        self._handlers: dict[str, Callable[[_Event], Iterator[StreamEvent]]] = {
            "response.output_item.added": self._begin,
            "response.reasoning_summary_part.done": self._part_done,
            "response.function_call_arguments.done": self._arguments_done,
            "response.custom_tool_call_input.done": self._arguments_done,
            "response.output_item.done": self._end,
        }

    def read(self, events: Iterator[bytes]) -> Iterator[StreamEvent]:
        """Yield the events of server-sent data; ignore unknown ones.

        Raises:
            ProviderError: the server reported a failure, or sent data that cannot be parsed.
        """
        draft = self._draft
        for data in events:
            event = read_chunk(data, _decode, _Event)
            if event is None:
                continue
            kind = _DELTAS.get(event.type)
            if kind is None:
                handler = self._handlers.get(event.type)
                if handler is not None:
                    yield from handler(event)
                elif event.response is not None or event.type == "error":
                    self._about(event)
                continue
            open_item = self._find(event)
            if open_item is None or open_item.kind != kind or event.delta is None:
                continue
            if kind == "text":
                yield draft.text(open_item.block, event.delta)
            elif kind == "thinking":
                yield draft.thinking(open_item.block, event.delta)
            else:
                yield self._argue(open_item, event.delta)

    def finish(self) -> Iterator[StreamEvent]:
        """End the blocks that the server left open.

        Raises:
            ProviderError: the terminal event is missing.
        """
        if not self.done:
            raise ProviderError(_NO_END)
        yield from self._draft.end_all()

    # ------------------------------------------------------------ items

    def _find(self, event: _Event) -> _Open | None:
        index = event.output_index
        return self._open.get(self._last if index is None else index)

    def _begin(self, event: _Event) -> Iterator[StreamEvent]:
        item = event.item or {}
        kind = _KINDS.get(item.get("type", ""))
        if kind is None:
            return
        if kind == "text":
            start = self._draft.start_text()
        elif kind == "thinking":
            start = self._draft.start_thinking(signature=None)
        else:
            name, space = _text(item, "name"), item.get("namespace")
            namespace = space if isinstance(space, str) else None
            start = self._draft.start_tool(_call_id(item), name, namespace)
        self._last = self._last + 1 if event.output_index is None else event.output_index
        open_item = self._open[self._last] = _Open(kind, start.index, [])
        if item.get("type") == "custom_tool_call":
            open_item.argument = self._grammars.get(_text(item, "name"), "input")
        yield start
        arguments = _text(item, "arguments") or _text(item, "input")
        if arguments and event.type == "response.output_item.added":
            yield self._argue(open_item, arguments)

    def _argue(self, found: _Open, text: str) -> StreamEvent:
        """Emit a piece of a call's arguments, as JSON."""
        first = not found.parts
        found.parts.append(text)
        if found.argument is not None:
            head = f'{{{dumps(found.argument).decode()}:"' if first else ""
            text = head + escape(text).decode()
        return self._draft.tool_args(found.block, text)

    def _part_done(self, event: _Event) -> Iterator[StreamEvent]:
        open_item = self._find(event)
        if open_item is not None and open_item.kind == "thinking":
            yield self._draft.thinking(open_item.block, _PART_GAP)

    def _arguments_done(self, event: _Event) -> Iterator[StreamEvent]:
        open_item = self._find(event)
        if open_item is not None and open_item.kind == "toolcall":
            yield from self._missing(open_item, event.arguments or event.input or "")

    def _missing(self, open_item: _Open, whole: str) -> Iterator[StreamEvent]:
        """Emit the part of the arguments that did not arrive as deltas."""
        received = "".join(open_item.parts)
        if whole.startswith(received) and len(whole) > len(received):
            yield self._argue(open_item, whole[len(received) :])

    def _end(self, event: _Event) -> Iterator[StreamEvent]:
        item = event.item or {}
        unseen = self._find(event) is None
        if unseen:
            yield from self._begin(event)
        open_item = self._find(event)
        if open_item is None or open_item.kind != _KINDS.get(item.get("type", "")):
            return
        if open_item.kind == "toolcall":
            yield from self._missing(open_item, _text(item, "arguments") or _text(item, "input"))
            if open_item.argument is not None:
                if not open_item.parts:
                    yield self._argue(open_item, "")
                yield self._draft.tool_args(open_item.block, '"}')
            yield self._draft.end(open_item.block)
        elif open_item.kind == "text":
            text = _joined(item, "content", "")
            if unseen and text:
                yield self._draft.text(open_item.block, text)
            self._draft.sign(open_item.block, _text_signature(item))
            yield self._draft.end(open_item.block, text or None)
        else:
            self._seal(open_item.block, item)
            text = _joined(item, "summary", _PART_GAP) or _joined(item, "content", _PART_GAP)
            yield self._draft.end(open_item.block, text or None)
        del self._open[self._last if event.output_index is None else event.output_index]

    def _seal(self, block: int, item: dict[str, Any]) -> None:
        self._draft.sign(block, dumps(item).decode())
        if not item.get("encrypted_content"):
            self._unsealed[_text(item, "id")] = (block, item)

    # ------------------------------------------------------------ the response

    def _about(self, event: _Event) -> None:
        if event.type == "error":
            raise ProviderError(_error_of(event))
        response = event.response
        assert response is not None
        if event.type == "response.created":
            self._draft.identify(response.id, response.model)
        elif event.type == "response.failed":
            self._draft.stopped("error", response.status or "failed")
            raise ProviderError(_failure_of(response))
        elif event.type in ("response.completed", "response.incomplete", "response.done"):
            self._complete(response)

    def _complete(self, response: _Response) -> None:
        self.done = True
        self._draft.identify(response.id, response.model)
        if response.usage is not None:
            factor = _tier_factor(response.service_tier, self._draft.model.id)
            self._draft.count(_usage(response.usage), factor)
        for item in response.output or ():
            block, known = self._unsealed.get(_text(item, "id"), (None, {}))
            if block is not None and item.get("encrypted_content"):
                sealed = {**known, "encrypted_content": item["encrypted_content"]}
                self._draft.sign(block, dumps(sealed).decode())
        self._stop(response)

    def _stop(self, response: _Response) -> None:
        status = response.status or "completed"
        reason = response.incomplete_details.reason if response.incomplete_details else None
        if status in ("failed", "cancelled"):
            self._draft.stopped("error", status)
            raise ProviderError(_failure_of(response))
        raw = f"{status}.{reason}" if reason else status
        if status == "incomplete" and reason != "max_output_tokens":
            self._draft.stopped("error", raw)
            text = f"Response incomplete: {reason or 'unknown'}"
            raise ProviderError(text, kind="refused" if reason == "content_filter" else None)
        if status == "incomplete":
            self._draft.stopped("length", raw)
        else:
            self._draft.stopped("toolUse" if self._draft.has_tool_calls else "stop", status)


# ---------------------------------------------------------------- helpers of reading


def _call_id(item: dict[str, Any]) -> str:
    call, item_id = _text(item, "call_id"), _text(item, "id")
    return f"{call}|{item_id}" if call and item_id else call or item_id


def _text(item: dict[str, Any], key: str) -> str:
    value = item.get(key)
    return value if isinstance(value, str) else ""


def _joined(item: dict[str, Any], key: str, gap: str) -> str:
    """Join the texts of an item's parts; a refusal counts as text."""
    parts = item.get(key)
    if not isinstance(parts, list):
        return ""
    objects = [part for part in parts if isinstance(part, dict)]
    return gap.join(_text(part, "text") or _text(part, "refusal") for part in objects)


def _text_signature(item: dict[str, Any]) -> str:
    signature: dict[str, Any] = {"v": 1, "id": _text(item, "id")}
    if _text(item, "phase"):
        signature["phase"] = item["phase"]
    return dumps(signature).decode()


def _usage(usage: _Usage) -> Usage:
    details = usage.input_tokens_details
    read = (details.cached_tokens or 0) if details else 0
    write = (details.cache_write_tokens or 0) if details else 0
    sent = max(0, (usage.input_tokens or 0) - read - write)
    output = usage.output_tokens or 0
    thought = usage.output_tokens_details
    return Usage(
        input=sent,
        output=output,
        cache_read=read,
        cache_write=write,
        total_tokens=usage.total_tokens or sent + output + read + write,
        reasoning=(thought.reasoning_tokens or 0) if thought else 0,
    )


def _tier_factor(tier: str | None, model_id: str) -> float:
    if tier == "flex":
        return 0.5
    if tier == "priority":
        return 2.5 if model_id.startswith("gpt-5.5") else 2
    return 1


def _error_of(event: _Event) -> str:
    nested = event.error if isinstance(event.error, dict) else {}
    code = event.code or _text(nested, "code") or "unknown"
    return f"Error Code {code}: {event.message or error_message(nested) or 'no message'}"


def _failure_of(response: _Response) -> str:
    error = response.error
    message = error_message(error)
    if message is not None:
        code = _text(error, "code") if isinstance(error, dict) else ""
        return f"{code or 'unknown'}: {message}"
    details = response.incomplete_details
    if details is not None and details.reason:
        return f"incomplete: {details.reason}"
    return f"The response {response.status or 'failed'} without a reason"
