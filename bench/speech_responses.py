"""Answers of the benchmark model as server-sent events of OpenAI's Responses API."""

from collections.abc import Sequence
from typing import Any

from bench.speech import event, word

_ITEM = "msg_bench"
_USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 10,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 20,
}


def said(count: int) -> bytes:
    """Return an answer of this many deltas."""
    return b"".join(pieces_of_text(count))


def pieces_of_text(count: int) -> list[bytes]:
    """Return an answer as separate deltas; the first and the last piece have the events around."""
    place = {"item_id": _ITEM, "output_index": 0, "content_index": 0}
    deltas = (
        event("response.output_text.delta", **place, delta=word(number)) for number in range(count)
    )
    text = "".join(map(word, range(count)))
    whole = _message([{"type": "output_text", "text": text, "annotations": []}])
    return [_start(_message([])), *deltas, _end(whole)]


def called(call_id: str, name: str, pieces: Sequence[str]) -> bytes:
    """Return an answer of one tool call with its arguments in these deltas."""
    call = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name}
    place = {"item_id": call["id"], "output_index": 0}
    deltas = (
        event("response.function_call_arguments.delta", **place, delta=piece) for piece in pieces
    )
    whole = {**call, "arguments": "".join(pieces), "status": "completed"}
    return b"".join((_start({**call, "arguments": ""}), *deltas, _end(whole)))


def _message(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "id": _ITEM, "role": "assistant", "content": content}


def _start(item: dict[str, Any]) -> bytes:
    created = event("response.created", response={"id": "resp_bench", "status": "in_progress"})
    return created + event("response.output_item.added", output_index=0, item=item)


def _end(item: dict[str, Any]) -> bytes:
    done = {"id": "resp_bench", "status": "completed", "output": [item], "usage": _USAGE}
    whole = event("response.output_item.done", output_index=0, item=item)
    return whole + event("response.completed", response=done)
