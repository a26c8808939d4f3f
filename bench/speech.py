"""Answers of the benchmark model as server-sent events in Anthropic's format."""

import itertools
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

_SYLLABLES = tuple(consonant + vowel for consonant in "bcdfghjklmnprstvz" for vowel in "aeiou")
_COUNT = 40_000
# A page of Markdown; each part is a delta with a word in it.
_MARKDOWN = (
    *("## {}", " {} ", "{}\n\n"),
    *("{} ",) * 12,
    *("`{}` ", "**{}** ", "[{}](https://example.com/)", ". {}\n\n"),
    *("- {} ", "{}\n", "- {} ", "*{}*\n", "1. {}\n", "\n"),
    *("| {} | ", "{} |\n| --- | --- |\n", "| {} | ", "{} |\n", "| {} | ", "{} |\n\n"),
    *("```python\ndef {}", "({}):\n", "    return {}", "  # {}\n", "x = '{}'\n", "```\n\n{}"),
    *(" {}",) * 8,
    *("\n> {} ", "{}\n\n"),
)


@cache
def words() -> tuple[str, ...]:
    """Return words without a repeating pattern, because some agents stop a repetitive stream."""
    chance = random.Random(5)
    return tuple(
        "".join(chance.choices(_SYLLABLES, k=chance.randint(1, 4)))
        + ("\n" if chance.random() < 0.06 else " ")
        for _ in range(_COUNT)
    )


def word(number: int) -> str:
    return words()[number % _COUNT]


def event(kind: str, **fields: Any) -> bytes:
    body = json.dumps({"type": kind, **fields}, separators=(",", ":"))
    return f"event: {kind}\ndata: {body}\n\n".encode()


def said(count: int) -> bytes:
    """Return an answer of this many deltas."""
    return b"".join(pieces_of_text(count))


def pieces_of_text(count: int) -> list[bytes]:
    """Return a text answer as separate deltas."""
    return _pieces(map(word, range(count)), count)


def pieces_of_markdown(count: int) -> list[bytes]:
    """Return an answer in Markdown as separate deltas."""
    return _pieces(markdown(count), count)


def _pieces(texts: Iterable[str], count: int) -> list[bytes]:
    deltas = ({"type": "text_delta", "text": text} for text in texts)
    first, *middle, last = _block(0, {"type": "text", "text": ""}, deltas)
    return [_start() + first, *middle, last + _stop("end_turn", count)]


def markdown(count: int) -> Iterator[str]:
    """Return texts of this many deltas: headings, paragraphs, lists, tables and code."""
    parts = itertools.cycle(_MARKDOWN)
    for number in range(count):
        yield next(parts).format(word(number).strip())


def called(call_id: str, name: str, pieces: Sequence[str]) -> bytes:
    """Return an answer of one tool call with its arguments in these deltas."""
    block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    deltas = ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
    return b"".join((_start(), *_block(0, block, deltas), _stop("tool_use", len(pieces))))


def argument_pieces(count: int) -> list[str]:
    """Return the arguments of a `write` call, split into about this many deltas."""
    content = "".join(map(word, range(count)))
    whole = json.dumps({"path": "bench.txt", "content": content})
    size = max(1, len(whole) // count)
    return [whole[start : start + size] for start in range(0, len(whole), size)]


def _block(index: int, block: dict[str, Any], deltas: Iterator[dict[str, str]]) -> Iterator[bytes]:
    yield event("content_block_start", index=index, content_block=block)
    for delta in deltas:
        yield event("content_block_delta", index=index, delta=delta)
    yield event("content_block_stop", index=index)


def _start() -> bytes:
    usage = {"input_tokens": 10, "output_tokens": 1}
    cache_use = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message: dict[str, Any] = {
        "id": "msg_bench",
        "type": "message",
        "role": "assistant",
        "model": "bench",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage | cache_use,
    }
    return event("message_start", message=message)


def _stop(reason: str, tokens: int) -> bytes:
    delta = {"stop_reason": reason, "stop_sequence": None}
    end = event("message_delta", delta=delta, usage={"output_tokens": tokens})
    return end + event("message_stop")
