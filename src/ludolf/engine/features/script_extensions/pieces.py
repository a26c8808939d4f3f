"""Collect pieces of answers and progress of tools, and send them in batches."""

import asyncio
from collections.abc import Callable
from typing import Any

from ludolf.agent import events
from ludolf.ai.draft import BlockDelta, BlockStart, Draft
from ludolf.base import dumps

BATCH_SECONDS = 0.016
MOST_WAITING = 256


class PieceBatch:
    """Pieces that wait to be sent, in order; deltas of one block are merged if many wait."""

    def __init__(self, send: Callable[[bytes], None], seconds: float = BATCH_SECONDS) -> None:
        self._send = send
        self._seconds = seconds
        self._pieces: list[bytes] = []
        # Type and block number of the last piece if it is a delta, and its escaped text.
        self._last: tuple[str, int] | None = None
        self._texts: list[bytes] = []
        self._draft: Draft | None = None
        self._timer: asyncio.TimerHandle | None = None

    def add_update(self, update: events.MessageUpdate) -> None:
        """Add a piece of an answer."""
        if update.draft is not self._draft:
            self._draft = update.draft
            first = update.draft.snapshot().replace(content=())
            self._add(b'{"message":%b}' % dumps(first))
        event = update.event
        if isinstance(event, BlockDelta):
            self._add_delta(event)
            return
        kind = event.kind.encode()
        if isinstance(event, BlockStart):
            call = dumps({"id": event.call_id, "name": event.tool_name})
            value = call if event.kind == "toolcall" else b"null"
            self._add(b'["%b_start",%d,%b]' % (kind, event.index, value))
        else:
            self._add(b'["%b_end",%d,%b]' % (kind, event.index, dumps(event.block)))

    def add_progress(self, update: events.ToolUpdate) -> None:
        """Add the progress of a tool; it replaces the one that waits."""
        fields: dict[str, Any] = {
            "toolCallId": update.tool_call_id,
            "toolName": update.tool_name,
            "args": update.args,
            "partialResult": update.partial_result,
        }
        self._add(b'{"tool":%b}' % dumps(fields))

    def flush(self) -> None:
        """Send what waits."""
        if not self._pieces and self._last is None:
            return
        self._end_delta()
        pieces, self._pieces = self._pieces, []
        self._stop()
        self._send(b'{"t":"pieces","l":[%b]}' % b",".join(pieces))

    def close(self) -> None:
        self._stop()
        self._pieces, self._last, self._texts = [], None, []

    # ------------------------------------------------------------ private

    def _add_delta(self, event: BlockDelta) -> None:
        key = (event.kind, event.index)
        if self._last == key and len(self._pieces) + len(self._texts) > MOST_WAITING:
            self._texts.append(event.escaped)
            return
        self._end_delta()
        self._last, self._texts = key, [event.escaped]
        self._wait()

    def _add(self, piece: bytes) -> None:
        self._end_delta()
        self._pieces.append(piece)
        self._wait()

    def _end_delta(self) -> None:
        if self._last is not None:
            kind, index = self._last
            text = b"".join(self._texts)
            self._pieces.append(b'["%b_delta",%d,"%b"]' % (kind.encode(), index, text))
            self._last, self._texts = None, []

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self.flush)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
