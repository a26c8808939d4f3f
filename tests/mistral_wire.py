"""What the tests of Mistral need: a model, chunks of an answer."""

import json
from typing import Any

from ludolf.ai.models import Model
from tests.anthropic_wire import model as claude

USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "total_tokens": 15,
    "prompt_tokens_details": {"cached_tokens": 4},
}


def model(**changes: Any) -> Model:
    fields: dict[str, Any] = {
        "id": "mistral-small-latest",
        "api": "mistral-conversations",
        "provider": "mistral",
    }
    return claude(**{**fields, **changes})


def chunk(finish: str | None = None, usage: Any = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    form = {
        "id": "r1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "mistral-small-2603",
        "choices": [choice],
    }
    return {**form, "usage": usage} if usage else form


def thought(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}], **more}


def call(index: int, call_id: str | None, name: str, arguments: Any) -> dict[str, Any]:
    form = {"index": index, "function": {"name": name, "arguments": arguments}}
    return form if call_id is None else {**form, "id": call_id}


def sse(*events: Any) -> bytes:
    return b"".join(
        b"data: %b\n\n"
        % (event if isinstance(event, bytes) else json.dumps(event, ensure_ascii=False).encode())
        for event in events
    )


# Everything that an answer may hold: thoughts, text in both forms, two calls.
RICH = sse(
    chunk(role="assistant", content=""),
    chunk(content=[thought("hm", closed=False)]),
    chunk(content=[thought(" öfter", closed=True)]),
    chunk(content="Hé"),
    chunk(content=[{"type": "text", "text": "llo 🦆"}]),
    chunk(
        content="",
        tool_calls=[call(0, "abc123def", "read", '{"pa'), call(1, "abc123deg", "ls", {"a": 1})],
    ),
    chunk(content="", tool_calls=[call(0, "null", "", 'th":"ä"}')]),
    chunk("tool_calls", USAGE, content=""),
    b"[DONE]",
)
