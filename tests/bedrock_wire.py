"""What the tests of Bedrock need: frames of its event stream, a model, an answer."""

import json
import struct
import zlib
from typing import Any

from ludolf.ai.models import Model
from tests.anthropic_wire import model as claude

EVENT_STREAM = {
    "content-type": "application/vnd.amazon.eventstream",
    "x-amzn-requestid": "req-1",
}
USAGE = {
    "inputTokens": 10,
    "outputTokens": 5,
    "totalTokens": 60,
    "cacheReadInputTokens": 30,
    "cacheWriteInputTokens": 15,
    "cacheDetails": [{"ttl": "1h", "inputTokens": 9}, {"ttl": "5m", "inputTokens": 6}],
}


def model(**changes: Any) -> Model:
    fields: dict[str, Any] = {
        "id": "anthropic.claude-sonnet-4-5-20250929-v1:0",
        "api": "bedrock-converse-stream",
        "provider": "amazon-bedrock",
    }
    return claude(**{**fields, **changes})


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    head = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(text)) + text.encode()
        for name, text in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    whole = prelude + struct.pack(">I", zlib.crc32(prelude)) + head + payload
    return whole + struct.pack(">I", zlib.crc32(whole))


def event(name: str, **fields: Any) -> bytes:
    headers = {":event-type": name, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, json.dumps(fields).encode())


def exception(name: str, **fields: Any) -> bytes:
    headers = {
        ":exception-type": name,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return frame(headers, json.dumps(fields).encode())


def delta(index: int, **piece: Any) -> bytes:
    return event("contentBlockDelta", contentBlockIndex=index, delta=piece)


def call(index: int, call_id: str, name: str, *pieces: str) -> bytes:
    start = {"toolUse": {"toolUseId": call_id, "name": name}}
    return b"".join(
        (
            event("contentBlockStart", contentBlockIndex=index, start=start),
            *(delta(index, toolUse={"input": piece}) for piece in pieces),
            close(index),
        )
    )


def close(index: int) -> bytes:
    return event("contentBlockStop", contentBlockIndex=index)


def answer(*parts: bytes, stop: str = "end_turn", **usage: Any) -> bytes:
    return b"".join(
        (
            event("messageStart", role="assistant", p="abcdef"),
            *parts,
            event("messageStop", stopReason=stop),
            event("metadata", usage=usage or USAGE, metrics={"latencyMs": 7}),
        )
    )


def text(index: int, *pieces: str) -> bytes:
    return b"".join((*(delta(index, text=piece) for piece in pieces), close(index)))


# Everything that an answer may hold: thoughts shown and hidden, text, two calls.
RICH = answer(
    delta(0, reasoningContent={"text": "hm"}),
    delta(0, reasoningContent={"signature": "ab"}),
    delta(0, reasoningContent={"signature": "cd"}),
    close(0),
    delta(1, reasoningContent={"redactedContent": "AAEC"}),
    close(1),
    text(2, "Hé", "llo 🦆"),
    call(3, "t1", "read", '{"pa', 'th":"ä"}'),
    call(4, "t2", "ls"),
    stop="tool_use",
)
