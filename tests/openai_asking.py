"""Samples for the tests of OpenAI's APIs: a model, a conversation, a question to a real server."""

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import (
    NO_USAGE,
    AssistantMessage,
    Block,
    Image,
    Message,
    Text,
    ToolResultMessage,
    UserMessage,
)
from ludolf.ai.models import Model, ModelCost
from ludolf.ai.provider import ModelAnswer, Provider, Request, ToolSpec
from ludolf.ai.providers.openai.completions import OpenAICompletions
from ludolf.ai.stream import respond
from tests.loopback import Canned, Loopback

READ = ToolSpec("read", "Reads a file.", {"type": "object", "properties": {}})


def model(**changes: Any) -> Model:
    plain = Model(
        id="mock-model",
        name="Mock Model",
        api="openai-completions",
        provider="mock",
        base_url="http://127.0.0.1/v1",
        reasoning=True,
        input=("text", "image"),
        cost=ModelCost(input=2, output=8, cache_read=0.5),
        context_window=128000,
        max_tokens=8192,
    )
    return structs.replace(plain, **changes)


def request(*messages: Message, **changes: Any) -> Request:
    plain = Request(
        environ=os.environ,
        provider=OpenAICompletions(Transport({})),
        model=model(),
        access=Access(key="secret"),
        system="Be brief.",
        messages=messages or (UserMessage(content="Hi", timestamp=1),),
    )
    return structs.replace(plain, **changes)


def assistant(*blocks: Block, **changes: Any) -> AssistantMessage:
    plain = AssistantMessage(
        content=blocks,
        api="openai-completions",
        provider="mock",
        model="mock-model",
        usage=NO_USAGE,
        stop_reason="stop",
        timestamp=2,
    )
    return structs.replace(plain, **changes)


def result(call_id: str, *content: Text | Image) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call_id, tool_name="read", content=content, is_error=False, timestamp=3
    )


def encoded(*events: Any) -> list[bytes]:
    """Events as JSON; bytes stay as they are."""
    return [event if isinstance(event, bytes) else msgspec.json.encode(event) for event in events]


def sse(*events: Any) -> bytes:
    return b"".join(b"data: %b\n\n" % data for data in encoded(*events))


def ask(
    make: Callable[[Transport], Provider], asked: Request, *replies: Canned
) -> tuple[Loopback, ModelAnswer, list[StreamEvent]]:
    """What a provider makes of replies: the server, the answer, the events on the way."""
    told: list[StreamEvent] = []

    async def take(events: Iterable[StreamEvent]) -> None:
        told.extend(events)

    async def run(url: str) -> ModelAnswer:
        transport = Transport({})
        here = structs.replace(
            asked,
            provider=make(transport),
            model=structs.replace(asked.model, base_url=f"{url}/v1"),
        )
        try:
            return await respond(here, Draft(here.model), take)
        finally:
            await transport.close()

    with Loopback(*replies) as server:
        return server, asyncio.run(run(server.url)), told
