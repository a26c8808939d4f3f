"""The Responses API of OpenAI and of the servers that speak it."""

from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING, Any

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.provider import Provider, Request
from ludolf.ai.providers.openai_compat import Compat, effort_of, responses_compat
from ludolf.ai.providers.openai_responses_items import Items
from ludolf.ai.providers.openai_responses_stream import ResponsesReader
from ludolf.ai.providers.openai_shared import (
    ABORT_TEXT,
    cache_key,
    endpoint,
    error_text,
    function_of,
    headers_for,
    join_body,
)
from ludolf.ai.transport import Transport, check

API = "openai-responses"
_LEAST_OUTPUT = 16


def make(transport: Transport) -> Provider:
    return OpenAIResponses(transport)


class OpenAIResponses:
    """Speaks `responses` with server-sent events; nothing is stored at the server."""

    api = API
    abort_text = ABORT_TEXT

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._items = Items()

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        compat = responses_compat(request.model)
        headers = headers_for(request, compat)
        body = join_body(options_of(request, compat), "input", self._items.encode(request, compat))
        reader = ResponsesReader(draft)
        async with self._transport.post(
            endpoint(request, "/responses"), headers, body, idle_seconds=request.idle_seconds
        ) as reply:
            await check(reply, describe)
            yield ()
            async for events in reply.events():
                yield reader.read(events)
                if reader.done:
                    break
            yield reader.finish()
            await reply.finish()


if TYPE_CHECKING:
    _: Provider = OpenAIResponses(Transport())


def describe(status: int, body: str) -> str:
    """The text of an HTTP failure."""
    return f"OpenAI API error ({status}): {error_text(status, body)}"


# ---------------------------------------------------------------- the request


def options_of(request: Request, compat: Compat) -> dict[str, Any]:
    """Everything of a request's body but its input."""
    model = request.model
    fields: dict[str, Any] = {"model": model.id, "stream": True, "store": False}
    limit = request.max_tokens or model.max_tokens
    if limit and compat.supports_max_output_tokens:
        fields["max_output_tokens"] = max(_LEAST_OUTPUT, limit)
    fields |= _cache_fields(request, compat)
    if request.tools:
        fields["tools"] = [
            {"type": "function", **function_of(tool), "strict": False} for tool in request.tools
        ]
    fields |= _reasoning_fields(request, compat)
    return fields | (model.sampling_params or {})


def _cache_fields(request: Request, compat: Compat) -> dict[str, Any]:
    if request.cache == "none":
        return {}
    fields: dict[str, Any] = {}
    if request.session_id:
        fields["prompt_cache_key"] = cache_key(request)
    if request.cache == "long" and compat.supports_explicit_prompt_cache_mode:
        fields["prompt_cache_options"] = {"ttl": "30m"}
    elif request.cache == "long" and compat.supports_long_cache_retention:
        fields["prompt_cache_retention"] = "24h"
    return fields


def _reasoning_fields(request: Request, compat: Compat) -> dict[str, Any]:
    model = request.model
    fields: dict[str, Any] = {}
    effort = effort_of(model, compat, request.thinking, request.thinking_budgets)
    thinks = model.reasoning and effort.on
    if thinks:
        fields["reasoning"] = {"effort": effort.word, "summary": "auto"}
    elif model.reasoning and effort.may_turn_off:
        fields["reasoning"] = {"effort": effort.word or "none"}
    if thinks or model.provider == "xai":
        fields["include"] = ["reasoning.encrypted_content"]
    return fields
