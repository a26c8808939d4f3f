"""What both test files of the Anthropic provider need: messages, events, a way to ask."""

import json
import os
from collections.abc import Iterable
from typing import Any

from ludolf.ai.access import Access
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.messages import (
    NO_USAGE,
    AssistantMessage,
    Block,
    Image,
    Text,
    ToolResultMessage,
    UserMessage,
)
from ludolf.ai.models import Model, ModelCost
from ludolf.ai.provider import ModelAnswer, Provider, Request
from ludolf.ai.stream import respond
from tests.loopback import Loopback

PING = {"type": "ping"}
STOP = {"type": "message_stop"}


def model(**changes: Any) -> Model:
    fields: dict[str, Any] = {
        "id": "claude",
        "name": "Claude",
        "api": "anthropic-messages",
        "provider": "anthropic",
        "base_url": "http://127.0.0.1:1",
        "reasoning": True,
        "input": ("text", "image"),
        "cost": ModelCost(input=3, output=15, cache_read=0.3, cache_write=3.75),
        "context_window": 200_000,
        "max_tokens": 16_384,
    }
    return Model(**{**fields, **changes})


def user(text: str = "hello") -> UserMessage:
    return UserMessage(content=(Text(text=text),), timestamp=1)


def assistant(*blocks: Block, by: str = "claude") -> AssistantMessage:
    return AssistantMessage(
        content=blocks,
        api="anthropic-messages",
        provider="anthropic",
        model=by,
        usage=NO_USAGE,
        stop_reason="stop",
        timestamp=2,
    )


def result(call_id: str, *parts: Text | Image, is_error: bool = False) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call_id, tool_name="bash", content=parts, is_error=is_error, timestamp=3
    )


def request(provider: Provider, url: str, **changes: Any) -> Request:
    fields: dict[str, Any] = {
        "provider": provider,
        "model": model(),
        "access": Access(key="sk-test", base_url=url),
        "system": "Be brief.",
        "messages": (user(),),
    }
    return Request(**{"environ": os.environ, **fields, **changes})


def sse(*events: Any) -> bytes:
    return b"".join(
        f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events
    )


def begin(**usage: Any) -> dict[str, Any]:
    counts = {"input_tokens": 100, "output_tokens": 1, **usage}
    message = {"id": "msg_1", "model": "claude", "content": [], "usage": counts}
    return {"type": "message_start", "message": message}


def open_block(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "content_block_delta",
        "index": index,
        "delta": {"type": f"{kind}_delta", **fields},
    }


def close_block(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ending(reason: str | None = "end_turn", **usage: Any) -> dict[str, Any]:
    return {
        "type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": None},
        "usage": {"output_tokens": 20, **usage},
    }


def text_answer(*words: str) -> list[dict[str, Any]]:
    pieces = (delta(0, "text", text=word) for word in words)
    return [begin(), open_block(0, type="text", text=""), *pieces, close_block(0), ending(), STOP]


class Told:
    """An answer and all events that told of it."""

    def __init__(self) -> None:
        self.events: list[StreamEvent] = []
        self.draft: Draft | None = None
        self.answer: ModelAnswer | None = None

    @property
    def message(self) -> AssistantMessage:
        assert self.answer is not None
        return self.answer.message


async def ask(provider: Provider, server: Loopback, **changes: Any) -> Told:
    told = Told()
    asked = request(provider, server.url, **changes)
    told.draft = Draft(asked.model)

    async def take(events: Iterable[StreamEvent]) -> None:
        told.events.extend(events)

    told.answer = await respond(asked, told.draft, take)
    return told
