"""Answers of the benchmark model as server-sent events of OpenAI's Responses API."""

from collections.abc import Iterator
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


def answered(count: int) -> bytes:
    """Return an answer of this many deltas."""
    return b"".join(answer_pieces(count))


def answer_pieces(count: int) -> Iterator[bytes]:
    """Yield the deltas of an answer; the first and the last piece have the events around them."""
    yield event("response.created", response={"id": "resp_bench", "status": "in_progress"})
    yield event("response.output_item.added", output_index=0, item=_item([]))
    for number in range(count):
        place = {"item_id": _ITEM, "output_index": 0, "content_index": 0}
        yield event("response.output_text.delta", **place, delta=word(number))
    text = "".join(map(word, range(count)))
    whole = _item([{"type": "output_text", "text": text, "annotations": []}])
    yield event("response.output_item.done", output_index=0, item=whole)
    done = {"id": "resp_bench", "status": "completed", "output": [whole], "usage": _USAGE}
    yield event("response.completed", response=done)


def _item(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "id": _ITEM, "role": "assistant", "content": content}
