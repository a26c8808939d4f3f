"""Chat Completions API of OpenAI and compatible servers."""

from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING, Any

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.http.transport import Transport, check
from ludolf.ai.provider import Provider, Request, ToolSpec
from ludolf.ai.providers.openai.chat_messages import ChatMessages, cache_mark
from ludolf.ai.providers.openai.chat_stream import ChatReader
from ludolf.ai.providers.openai.compat import Compat, chat_compat, effort_of, thinking_fields
from ludolf.ai.providers.openai.shared import (
    ABORT_TEXT,
    cache_key,
    endpoint,
    error_text,
    function_of,
    grammar_arguments,
    grammar_of,
    headers_for,
    join_body,
)

API = "openai-completions"


def make(transport: Transport) -> Provider:
    return OpenAICompletions(transport)


class OpenAICompletions:
    """Provider for `chat/completions` with server-sent events."""

    api = API
    abort_text = ABORT_TEXT

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._conversation = ChatMessages()

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        compat = chat_compat(request.model)
        headers = headers_for(request, compat)
        body = join_body(
            options_of(request, compat),
            "messages",
            self._conversation.encode(request, compat),
        )
        reader = ChatReader(draft, compat, grammar_arguments(request, compat))
        async with self._transport.post(
            endpoint(request, "/chat/completions"),
            headers,
            body,
            patience=request.patience,
        ) as reply:
            await check(reply, error_text)
            yield ()
            async for events in reply.events():
                yield reader.read(events)
                if reader.done:
                    break
            yield reader.finish()
            await reply.finish()


if TYPE_CHECKING:
    _: Provider = OpenAICompletions(Transport())


# ---------------------------------------------------------------- the request


def options_of(request: Request, compat: Compat) -> dict[str, Any]:
    """Return the fields of a request's body without its messages."""
    model = request.model
    fields: dict[str, Any] = {"model": model.id, "stream": True}
    if compat.supports_usage_in_streaming:
        fields["stream_options"] = {"include_usage": True}
    if compat.supports_store:
        fields["store"] = False
    limit = request.max_tokens or model.max_tokens
    if limit:
        fields[compat.max_tokens_field] = limit
    fields |= _cache_fields(request, compat)
    fields |= _tool_fields(request, compat)
    fields |= thinking_fields(model, compat, effort_of(request, compat))
    if compat.open_router_routing:
        fields["provider"] = compat.open_router_routing
    if compat.vercel_gateway_routing:
        routing = compat.vercel_gateway_routing
        gateway = {name: routing[name] for name in ("only", "order") if routing.get(name)}
        fields["providerOptions"] = {"gateway": gateway}
    if compat.vllm_priority is not None:
        fields["priority"] = compat.vllm_priority
    return fields | (model.sampling_params or {})


def _cache_fields(request: Request, compat: Compat) -> dict[str, Any]:
    long = request.cache == "long" and compat.supports_long_cache_retention
    at_openai = request.cache != "none" and "api.openai.com" in request.model.base_url
    fields: dict[str, Any] = {}
    if request.session_id and (at_openai or long):
        fields["prompt_cache_key"] = cache_key(request)
    if long:
        fields["prompt_cache_retention"] = "24h"
    return fields


def _tool(tool: ToolSpec, compat: Compat) -> dict[str, Any]:
    grammar = grammar_of(tool, compat)
    if grammar is None:
        return {"type": "function", "function": function_of(tool, compat)}
    rules = {"syntax": grammar.syntax, "definition": grammar.definition}
    custom = {
        "name": tool.name,
        "description": tool.description,
        "format": {"type": "grammar", "grammar": rules},
    }
    return {"type": "custom", "custom": custom}


def _tool_fields(request: Request, compat: Compat) -> dict[str, Any]:
    tools = [_tool(tool, compat) for tool in request.tools]
    if not tools:
        called = any(getattr(message, "tool_calls", ()) for message in request.messages)
        return {"tools": []} if called else {}
    mark = cache_mark(request, compat)
    if mark is not None:
        tools[-1]["cache_control"] = mark
    return {"tools": tools, **({"tool_stream": True} if compat.zai_tool_stream else {})}
