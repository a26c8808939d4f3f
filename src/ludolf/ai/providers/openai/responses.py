"""Responses API of OpenAI and compatible servers."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.http.transport import HttpResponse, Transport, check
from ludolf.ai.provider import Provider, Request, ToolSpec
from ludolf.ai.providers.openai.compat import Compat, effort_of, responses_compat
from ludolf.ai.providers.openai.responses_items import Items
from ludolf.ai.providers.openai.responses_stream import ResponsesReader
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

API = "openai-responses"
_LEAST_OUTPUT = 16


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """Differences between servers of this API, except for the stream.

    `reach` returns the address and the headers of a request, `fields` its body without the input;
    `check` turns an HTTP failure into a ProviderError.
    """

    api: str
    reach: Callable[[Request, Compat], Awaitable[tuple[str, dict[str, str]]]]
    fields: Callable[[Request, Compat], dict[str, Any]]
    check: Callable[[HttpResponse], Awaitable[None]]
    prompt_in_input: bool = True


def make(transport: Transport) -> Provider:
    return OpenAIResponses(transport)


class OpenAIResponses:
    """Provider for `responses` with server-sent events; the server stores nothing."""

    abort_text = ABORT_TEXT

    def __init__(self, transport: Transport, variant: Variant | None = None) -> None:
        self._variant = variant or _openai()
        self.api = self._variant.api
        self._transport = transport
        self._items = Items()

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        variant = self._variant
        compat = responses_compat(request.model)
        url, headers = await variant.reach(request, compat)
        input_request = request if variant.prompt_in_input else structs.replace(request, system="")
        items = self._items.encode(input_request, compat)
        body = join_body(variant.fields(request, compat), "input", items)
        reader = ResponsesReader(draft, grammar_arguments(request, compat))
        async with self._transport.post(url, headers, body, patience=request.patience) as reply:
            await variant.check(reply)
            yield ()
            async for events in reply.events():
                yield reader.read(events)
                if reader.done:
                    break
            yield reader.finish()
            await reply.finish()


if TYPE_CHECKING:
    _: Provider = OpenAIResponses(Transport())


def _openai() -> Variant:
    return Variant(
        api=API,
        reach=_reach,
        fields=options_of,
        check=lambda reply: check(reply, partial(describe, "OpenAI")),
    )


async def _reach(request: Request, compat: Compat) -> tuple[str, dict[str, str]]:
    return endpoint(request, "/responses"), headers_for(request, compat)


def describe(owner: str, status: int, body: str) -> str:
    """Return the text of an HTTP failure."""
    return f"{owner} API error ({status}): {error_text(status, body)}"


# ---------------------------------------------------------------- the request


def options_of(request: Request, compat: Compat) -> dict[str, Any]:
    """Return the fields of a request's body without its input."""
    model = request.model
    fields: dict[str, Any] = {"model": model.id, "stream": True, "store": False}
    limit = request.max_tokens or model.max_tokens
    if limit and compat.supports_max_output_tokens:
        fields["max_output_tokens"] = max(_LEAST_OUTPUT, limit)
    fields |= cache_fields(request, compat)
    if request.tools:
        fields["tools"] = tools_of(request, compat)
    fields |= reasoning_fields(request, compat)
    fields |= tier_fields(request, compat)
    return fields | (model.sampling_params or {})


def tier_fields(request: Request, compat: Compat) -> dict[str, Any]:
    fast = request.fast and compat.supports_service_tier
    return {"service_tier": "priority"} if fast else {}


def tools_of(request: Request, compat: Compat) -> list[dict[str, Any]]:
    return [_tool(tool, compat) for tool in request.tools]


def _tool(tool: ToolSpec, compat: Compat) -> dict[str, Any]:
    grammar = grammar_of(tool, compat)
    if grammar is None:
        return {"type": "function", **function_of(tool, compat)}
    form = {"type": "grammar", "syntax": grammar.syntax, "definition": grammar.definition}
    return {"type": "custom", "name": tool.name, "description": tool.description, "format": form}


def cache_fields(request: Request, compat: Compat) -> dict[str, Any]:
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


def reasoning_fields(request: Request, compat: Compat) -> dict[str, Any]:
    model = request.model
    fields: dict[str, Any] = {}
    effort = effort_of(request, compat)
    thinks = model.reasoning and effort.on
    if thinks:
        fields["reasoning"] = {"effort": effort.word, "summary": "auto"}
    elif model.reasoning and effort.may_turn_off and model.provider != "github-copilot":
        fields["reasoning"] = {"effort": effort.word or "none"}
    if thinks or model.provider == "xai":
        fields["include"] = ["reasoning.encrypted_content"]
    return fields
