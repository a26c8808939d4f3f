"""Questions through the registry of APIs to a real server: short answers, and what was asked."""

import asyncio
from collections.abc import Callable, Iterable

from msgspec import structs

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.http.transport import Transport
from ludolf.ai.provider import ModelAnswer, Request
from ludolf.ai.registry import Providers
from ludolf.ai.stream import respond
from tests.loopback import Asked, Canned, Loopback
from tests.openai_asking import sse

CHAT = sse({"choices": [{"delta": {"content": "Yes"}, "finish_reason": "stop"}]}, b"[DONE]")
RESPONSES = sse(
    {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}},
    {"type": "response.output_text.delta", "output_index": 0, "delta": "Yes"},
    {"type": "response.completed", "response": {"id": "r1", "status": "completed"}},
)
ANTHROPIC = sse(
    {"type": "message_start", "message": {"id": "m1", "usage": {}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Yes"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    {"type": "message_stop"},
)
GOOGLE = sse({"candidates": [{"content": {"parts": [{"text": "Yes"}]}, "finishReason": "STOP"}]})
ANSWERS = {
    "openai-completions": CHAT,
    "openai-responses": RESPONSES,
    "azure-openai-responses": RESPONSES,
    "openai-codex-responses": RESPONSES,
    "anthropic-messages": ANTHROPIC,
    "google-generative-ai": GOOGLE,
    "google-vertex": GOOGLE,
}


def at_model(request: Request, url: str) -> Request:
    """The same request for a server at another origin; the path of its address stays."""
    parts = request.model.base_url.split("/", 3)
    path = f"/{parts[3]}" if len(parts) > 3 else ""
    return structs.replace(request, access=request.access.replace(base_url=url + path))


def ask(
    asked: Request,
    *replies: Canned,
    place: Callable[[Request, str], Request] = at_model,
    times: int = 1,
) -> tuple[list[Asked], ModelAnswer]:
    """What the server was asked, and the last answer; by default it says yes."""
    api = asked.model.api

    async def take(events: Iterable[StreamEvent]) -> None:
        list(events)

    async def run(url: str) -> ModelAnswer:
        transport = Transport({})
        here = structs.replace(place(asked, url), provider=Providers(transport).get(api))
        try:
            for _ in range(times - 1):
                await respond(here, Draft(here.model), take)
            return await respond(here, Draft(here.model), take)
        finally:
            await transport.close()

    with Loopback(*(replies or (Canned(chunks=[ANSWERS[api]]),))) as server:
        answer = asyncio.run(run(server.url))
        return server.requests, answer
