"""Stream a predefined answer into a draft piece by piece, as a server would."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from ludolf.ai.draft import BlockStart, Draft, StreamEvent
from ludolf.base import Value, dumps


class PlaybackBlock(Value, forbid_unknown_fields=True):
    """One block of an answer: exactly one of text, thinking and tool is set.

    `raw` replaces `args` if the arguments must not be the JSON of an object.
    """

    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    tool: str | None = None
    args: dict[str, Any] = msgspec.field(default_factory=dict)
    raw: str | None = None
    id: str = ""
    delay_ms: float = 0

    def __post_init__(self) -> None:
        values = [item for item in (self.text, self.thinking, self.tool) if item is not None]
        if len(values) != 1:
            raise ValueError("a block needs exactly one of text, thinking and tool")

    @property
    def body(self) -> str:
        """Return the streamed text of the block."""
        if self.tool is not None:
            return dumps(self.args).decode() if self.raw is None else self.raw
        return self.text or self.thinking or ""


class PlaybackPace(msgspec.Struct, frozen=True, kw_only=True):
    """How a block is split: characters per delta, events per read, seconds between reads."""

    cut: Callable[[str], list[str]]
    per_read: int = 1
    pause: float = 0.0


async def play(
    pieces: Iterable[PlaybackBlock], draft: Draft, pace: PlaybackPace
) -> AsyncGenerator[Iterable[StreamEvent]]:
    """Stream the pieces; each read is an iterator that changes the draft as it is consumed."""
    for piece in pieces:
        if piece.delay_ms:
            await asyncio.sleep(piece.delay_ms / 1000)
        deltas = pace.cut(piece.body)
        events = _block(piece, deltas, draft)
        for _ in range(0, len(deltas) + 2, pace.per_read):
            yield islice(events, pace.per_read)
            await asyncio.sleep(pace.pause)


def characters(size: int) -> Callable[[str], list[str]]:
    """Return a function that splits a text into pieces of `size` characters."""
    return lambda text: [text[at : at + size] for at in range(0, len(text), size)]


def _block(piece: PlaybackBlock, deltas: list[str], draft: Draft) -> Iterator[StreamEvent]:
    start = _start(piece, draft)
    yield start
    grow = draft.tool_args if piece.tool is not None else draft.text
    for delta in deltas:
        yield grow(start.index, delta)
    if piece.signature is not None:
        draft.sign(start.index, piece.signature)
    yield draft.end(start.index)


def _start(piece: PlaybackBlock, draft: Draft) -> BlockStart:
    if piece.tool is not None:
        return draft.start_tool(piece.id, piece.tool)
    if piece.thinking is not None:
        return draft.start_thinking()
    return draft.start_text()
