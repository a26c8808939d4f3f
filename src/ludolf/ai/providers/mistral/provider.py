"""Provider for Mistral (`mistral-conversations`): its chat completions with thinking."""

from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.http.transport import Transport, check
from ludolf.ai.provider import Provider, Request
from ludolf.ai.providers.gateways import all_headers, base_url, key_headers
from ludolf.ai.providers.mistral.request import MistralRequestBuilder
from ludolf.ai.providers.mistral.stream import MistralReader
from ludolf.ai.providers.openai.shared import ABORT_TEXT, cut

API = "mistral-conversations"


def make(transport: Transport) -> Provider:
    return Mistral(transport)


class Mistral:
    """Provider for `/v1/chat/completions` with server-sent events."""

    api = API
    abort_text = ABORT_TEXT

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._bodies = MistralRequestBuilder()

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        reading = MistralReader(draft)
        async with self._transport.post(
            _url(request),
            _headers(request),
            self._bodies.build(request),
            patience=request.patience,
        ) as reply:
            await check(reply, describe)
            yield ()
            async for events in reply.events():
                yield reading.take(events)
                if reading.done:
                    break
            yield reading.finish()
            await reply.finish()


def _url(request: Request) -> str:
    return f"{base_url(request).removesuffix('/v1')}/v1/chat/completions"


def _headers(request: Request) -> dict[str, str]:
    headers = key_headers(request, "Authorization")
    if request.session_id and request.cache != "none":
        headers["x-affinity"] = request.session_id
    return all_headers(request, headers)


def describe(status: int, body: str) -> str:
    """Return the text of an HTTP failure: the status and the body, truncated if it is long."""
    return f"Mistral API error ({status}): {cut(body.strip()) or 'no body'}"


if TYPE_CHECKING:
    _provider: type[Provider] = Mistral
