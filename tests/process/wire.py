"""The four providers' streaming formats, spoken from a neutral script."""

from collections.abc import Iterator
from typing import Any, ClassVar, Protocol

from ludolf.base import dumps, loads
from tests.process.script import Act, Answer, Block, Cut, Kind, Reset

SIGNATURE = "c2lnbmVk"


class Format(Protocol):
    """Each method gives whole server-sent events."""

    def begin(self, answer: Answer) -> Iterator[bytes]: ...
    def open(self, index: int, block: Block) -> Iterator[bytes]: ...
    def delta(self, index: int, block: Block, text: str) -> Iterator[bytes]: ...
    def close(self, index: int, block: Block) -> Iterator[bytes]: ...
    def end(self, answer: Answer) -> Iterator[bytes]: ...


def play(answer: Answer, form: Format) -> Iterator[bytes | Act]:
    """The events of an answer; the acts of its script between them."""
    yield from form.begin(answer)
    index = 0
    for block in answer.blocks:
        if not isinstance(block, Block):
            yield block
            if isinstance(block, Cut | Reset):
                return
            continue
        yield from form.open(index, block)
        for piece in answer.cut(block):
            if isinstance(piece, str):
                yield from form.delta(index, block, piece)
                continue
            yield piece
            if isinstance(piece, Cut | Reset):
                return
        yield from form.close(index, block)
        index += 1
    yield from form.end(answer)


def format_for(path: str) -> Format | None:
    """The format that is spoken at a path."""
    if path.endswith("/v1/messages"):
        return Anthropic()
    if path.endswith("/chat/completions"):
        return Chat()
    if path.endswith("/responses"):
        return Responses()
    if ":streamGenerateContent" in path:
        return Gemini()
    return None


def _event(value: dict[str, Any]) -> bytes:
    named = b"event: %b\n" % value["type"].encode() if "type" in value else b""
    return named + b"data: " + dumps(value) + b"\n\n"


# ---------------------------------------------------------------- Anthropic Messages


class Anthropic:
    _STOPS: ClassVar = {"stop": "end_turn", "length": "max_tokens", "toolUse": "tool_use"}

    def begin(self, answer: Answer) -> Iterator[bytes]:
        tokens = answer.tokens
        usage = {
            "input_tokens": tokens.input,
            "cache_read_input_tokens": tokens.cache_read,
            "output_tokens": 1,
        }
        head = {"id": "msg_1", "type": "message", "role": "assistant", "usage": usage}
        yield _event({"type": "message_start", "message": {**head, "content": []}})

    def open(self, index: int, block: Block) -> Iterator[bytes]:
        shapes: dict[Kind, dict[str, Any]] = {
            "text": {"type": "text", "text": ""},
            "thinking": {"type": "thinking", "thinking": "", "signature": ""},
            "toolcall": {"type": "tool_use", "id": block.id, "name": block.name, "input": {}},
        }
        shape = shapes[block.kind]
        yield _event({"type": "content_block_start", "index": index, "content_block": shape})

    def delta(self, index: int, block: Block, text: str) -> Iterator[bytes]:
        shapes: dict[Kind, dict[str, Any]] = {
            "text": {"type": "text_delta", "text": text},
            "thinking": {"type": "thinking_delta", "thinking": text},
            "toolcall": {"type": "input_json_delta", "partial_json": text},
        }
        yield self._delta(index, shapes[block.kind])

    def close(self, index: int, block: Block) -> Iterator[bytes]:
        if block.kind == "thinking":
            yield self._delta(index, {"type": "signature_delta", "signature": SIGNATURE})
        yield _event({"type": "content_block_stop", "index": index})

    def end(self, answer: Answer) -> Iterator[bytes]:
        reason = self._STOPS[answer.stop_reason]
        usage = {"output_tokens": answer.tokens.output}
        yield _event({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage})
        yield _event({"type": "message_stop"})

    def _delta(self, index: int, shape: dict[str, Any]) -> bytes:
        return _event({"type": "content_block_delta", "index": index, "delta": shape})


# ---------------------------------------------------------------- Chat Completions


class Chat:
    _STOPS: ClassVar = {"stop": "stop", "length": "length", "toolUse": "tool_calls"}

    def __init__(self) -> None:
        self._calls: dict[int, int] = {}

    def begin(self, answer: Answer) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def open(self, index: int, block: Block) -> Iterator[bytes]:
        if block.kind == "toolcall":
            place = self._calls[index] = len(self._calls)
            function = {"name": block.name, "arguments": ""}
            shape = {"index": place, "id": block.id, "type": "function", "function": function}
            yield self._chunk({"tool_calls": [shape]})

    def delta(self, index: int, block: Block, text: str) -> Iterator[bytes]:
        if block.kind == "text":
            yield self._chunk({"content": text})
        elif block.kind == "thinking":
            yield self._chunk({"reasoning_content": text})
        else:
            shape = {"index": self._calls[index], "function": {"arguments": text}}
            yield self._chunk({"tool_calls": [shape]})

    def close(self, index: int, block: Block) -> Iterator[bytes]:
        yield from ()

    def end(self, answer: Answer) -> Iterator[bytes]:
        yield self._chunk({}, self._STOPS[answer.stop_reason])
        tokens = answer.tokens
        usage = {
            "prompt_tokens": tokens.input + tokens.cache_read,
            "completion_tokens": tokens.output,
            "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
        }
        yield _event({"id": "chat_1", "choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"

    def _chunk(self, delta: dict[str, Any], stop: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": stop}
        return _event({"id": "chat_1", "object": "chat.completion.chunk", "choices": [choice]})


# ---------------------------------------------------------------- Responses


class Responses:
    _DELTAS: ClassVar[dict[Kind, str]] = {
        "text": "response.output_text.delta",
        "thinking": "response.reasoning_summary_text.delta",
        "toolcall": "response.function_call_arguments.delta",
    }

    def begin(self, answer: Answer) -> Iterator[bytes]:
        head = {"id": "resp_1", "status": "in_progress"}
        yield _event({"type": "response.created", "response": head})

    def open(self, index: int, block: Block) -> Iterator[bytes]:
        item = self._item(index, block, "")
        yield _event({"type": "response.output_item.added", "output_index": index, "item": item})

    def delta(self, index: int, block: Block, text: str) -> Iterator[bytes]:
        yield _event({"type": self._DELTAS[block.kind], "output_index": index, "delta": text})

    def close(self, index: int, block: Block) -> Iterator[bytes]:
        item = self._item(index, block, block.whole)
        if block.kind == "toolcall":
            kind = "response.function_call_arguments.done"
            yield _event({"type": kind, "output_index": index, "arguments": block.whole})
        yield _event({"type": "response.output_item.done", "output_index": index, "item": item})

    def end(self, answer: Answer) -> Iterator[bytes]:
        tokens, cut = answer.tokens, answer.stop_reason == "length"
        response: dict[str, Any] = {
            "id": "resp_1",
            "status": "incomplete" if cut else "completed",
            "usage": {
                "input_tokens": tokens.input + tokens.cache_read,
                "output_tokens": tokens.output,
                "total_tokens": tokens.input + tokens.cache_read + tokens.output,
                "input_tokens_details": {"cached_tokens": tokens.cache_read},
            },
        }
        if cut:
            response["incomplete_details"] = {"reason": "max_output_tokens"}
        kind = "response.incomplete" if cut else "response.completed"
        yield _event({"type": kind, "response": response})

    def _item(self, index: int, block: Block, whole: str) -> dict[str, Any]:
        if block.kind == "text":
            content = [{"type": "output_text", "text": whole}] if whole else []
            return {"type": "message", "id": f"msg_{index}", "content": content}
        if block.kind == "thinking":
            summary = [{"type": "summary_text", "text": whole}] if whole else []
            return {"type": "reasoning", "id": f"rs_{index}", "summary": summary}
        ids = {"id": f"fc_{index}", "call_id": block.id}
        return {"type": "function_call", **ids, "name": block.name, "arguments": whole}


# ---------------------------------------------------------------- Gemini


class Gemini:
    """Has no beginnings and ends of blocks; a call comes whole."""

    _STOPS: ClassVar = {"stop": "STOP", "length": "MAX_TOKENS", "toolUse": "STOP"}

    def begin(self, answer: Answer) -> Iterator[bytes]:
        yield from ()

    def open(self, index: int, block: Block) -> Iterator[bytes]:
        yield from ()

    def delta(self, index: int, block: Block, text: str) -> Iterator[bytes]:
        if block.kind == "text":
            yield self._chunk([{"text": text}])
        elif block.kind == "thinking":
            yield self._chunk([{"text": text, "thought": True}])

    def close(self, index: int, block: Block) -> Iterator[bytes]:
        if block.kind == "toolcall":
            shape = {"name": block.name, "args": loads(block.whole), "id": block.id}
            yield self._chunk([{"functionCall": shape}])

    def end(self, answer: Answer) -> Iterator[bytes]:
        tokens = answer.tokens
        usage = {
            "promptTokenCount": tokens.input + tokens.cache_read,
            "cachedContentTokenCount": tokens.cache_read,
            "candidatesTokenCount": tokens.output,
            "totalTokenCount": tokens.input + tokens.cache_read + tokens.output,
        }
        yield self._chunk([], finishReason=self._STOPS[answer.stop_reason], usage=usage)

    def _chunk(
        self, parts: list[dict[str, Any]], usage: dict[str, int] | None = None, **about: str
    ) -> bytes:
        candidate = {"content": {"role": "model", "parts": parts}, **about}
        counts = {"usageMetadata": usage} if usage else {}
        return _event({"responseId": "gem_1", "candidates": [candidate], **counts})
