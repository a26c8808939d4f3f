"""Answers of the benchmark model as server-sent events of OpenAI's Chat Completions API."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from bench.speech import word

_USAGE = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
_DONE = b"data: [DONE]\n\n"


def said(count: int) -> bytes:
    """Return an answer of this many deltas."""
    return b"".join(pieces_of_text(count))


def pieces_of_text(count: int) -> list[bytes]:
    """Return an answer as separate deltas; the first and the last piece have what is around."""
    deltas = (_chunk({"content": word(number)}) for number in range(count))
    return [_chunk({"role": "assistant", "content": ""}), *deltas, _end("stop")]


def called(call_id: str, name: str, pieces: Sequence[str]) -> bytes:
    """Return an answer of one tool call with its arguments in these deltas."""
    return b"".join((*_call(call_id, name, pieces), _end("tool_calls")))


def _call(call_id: str, name: str, pieces: Sequence[str]) -> Iterator[bytes]:
    function = {"name": name, "arguments": ""}
    head = {"index": 0, "id": call_id, "type": "function", "function": function}
    yield _chunk({"role": "assistant", "content": None, "tool_calls": [head]})
    for piece in pieces:
        yield _chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})


def _end(reason: str) -> bytes:
    usage = _frame(choices=[], usage=_USAGE)
    return _chunk({}, reason) + usage + _DONE


def _chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
    return _frame(choices=[{"index": 0, "delta": delta, "finish_reason": reason}])


def _frame(**fields: Any) -> bytes:
    frame = {"id": "chatcmpl-bench", "object": "chat.completion.chunk", "created": 1}
    body = json.dumps({**frame, "model": "bench", **fields}, separators=(",", ":"))
    return f"data: {body}\n\n".encode()
