"""Lines of bounded length, for hosts with small buffers: long ones are shrunk, or cut in pieces.

Version 1 shrinks: long texts and lists lose their ends and say so; a reply that does not fit
becomes an error. Version 2 loses nothing: a long line is cut into consecutive `rpc_chunk` records.
"""

from typing import Any

from ludolf.base import dumps, loads
from ludolf.protocol.framing import Frame

MAX_FRAME = 1 << 20
MAX_REASSEMBLED = 64 << 20
VERSIONS = (1, 2)
SLICE = 256 << 10
TOO_LONG = "RPC response exceeded the transport limit"
_SHORTEST_TEXT = 256
_SHORTEST_LIST = 8


class Bounds:
    """The limit of one connection, and how it is kept."""

    def __init__(self, limit: int = MAX_FRAME, version: int = 1) -> None:
        self.limit = limit
        self.version = version
        self._chunked = 0

    def fit(self, frame: Frame) -> Frame:
        """Return the frame if its lines are short enough, else its replacement."""
        if size_of(frame) <= self.limit:
            return frame
        whole = frame if isinstance(frame, bytes) else b"".join(frame)
        return [self._fit_line(line) for line in whole.splitlines(keepends=True)]

    def _fit_line(self, line: bytes) -> bytes:
        if len(line) <= self.limit:
            return line
        if self.version == 1 or len(line) > MAX_REASSEMBLED:
            return shrink(loads(line), self.limit)
        self._chunked += 1
        return cut(line.rstrip(b"\n"), f"rpc-{self._chunked}")


def size_of(frame: Frame) -> int:
    return len(frame) if isinstance(frame, bytes) else sum(map(len, frame))


def cut(line: bytes, chunk_id: str) -> bytes:
    """The line as consecutive records that each hold a slice of it."""
    import base64

    slices = [line[start : start + SLICE] for start in range(0, len(line), SLICE)]
    return b"".join(
        dumps(
            {
                "type": "rpc_chunk",
                "chunkId": chunk_id,
                "index": index,
                "count": len(slices),
                "byteLength": len(line),
                "data": base64.b64encode(piece).decode(),
            }
        )
        + b"\n"
        for index, piece in enumerate(slices)
    )


def shrink(record: dict[str, Any], limit: int) -> bytes:
    """The record with its texts, then its lists cut until it fits."""
    if record.get("type") == "response":
        kept = {key: record[key] for key in ("id", "type", "command") if key in record}
        return dumps({**kept, "success": False, "error": TOO_LONG}) + b"\n"
    if record.get("type") == "agent_end":
        record = {**record, "messageCount": len(record["messages"])}
    text, items = limit // 4, 1 << 30
    while True:
        line = dumps(_cut_value(record, text, items)) + b"\n"
        if len(line) <= limit or items <= _SHORTEST_LIST:
            return line
        if text > _SHORTEST_TEXT:
            text //= 2
        else:
            items = min(items, 4096) // 2


def _cut_value(value: Any, text: int, items: int) -> Any:
    if isinstance(value, str):
        left = len(value) - text
        return value if left <= 0 else f"{value[:text]}\n…[{left} chars elided for RPC frame]"
    if isinstance(value, dict):
        return {key: _cut_value(item, text, items) for key, item in value.items()}
    if isinstance(value, list):
        kept = [_cut_value(item, text, items) for item in value[:items]]
        left = len(value) - items
        return kept if left <= 0 else [*kept, f"…[{left} items elided for RPC frame]"]
    return value
