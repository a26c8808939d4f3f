"""The provider for Mistral (`mistral-conversations`): its own chat completions, with thoughts."""

from collections.abc import AsyncGenerator, Iterable
from typing import TYPE_CHECKING

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.provider import Provider, Request
from ludolf.ai.providers.mistral_request import Bodies
from ludolf.ai.providers.mistral_stream import Reading
from ludolf.ai.providers.openai_shared import ABORT_TEXT, MAX_BODY_CHARS
from ludolf.ai.transport import Transport, check

API = "mistral-conversations"


def make(transport: Transport) -> Provider:
    return Mistral(transport)


class Mistral:
    """Speaks `/v1/chat/completions` with server-sent events."""

    api = API
    abort_text = ABORT_TEXT

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._bodies = Bodies()

    async def stream(self, request: Request, draft: Draft) -> AsyncGenerator[Iterable[StreamEvent]]:
        reading = Reading(draft)
        async with self._transport.post(
            _url(request),
            _headers(request),
            self._bodies.build(request),
            idle_seconds=request.idle_seconds,
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
    base = (request.access.base_url or request.model.base_url).rstrip("/")
    return f"{base.removesuffix('/v1')}/v1/chat/completions"


def _headers(request: Request) -> dict[str, str]:
    from ludolf import __version__

    headers = {
        "content-type": "application/json",
        "accept": "text/event-stream",
        "user-agent": f"ludolf/{__version__}",
    }
    if request.access.key:
        headers["authorization"] = f"Bearer {request.access.key}"
    if request.session_id and request.cache != "none":
        headers["x-affinity"] = request.session_id
    headers = {name.lower(): value for name, value in request.access.over(headers).items()}
    if "authorization" not in headers:
        raise ProviderError(f"No API key for provider: {request.model.provider}", kind="auth")
    return headers


def describe(status: int, body: str) -> str:
    """The text of an HTTP failure: the status, and the body as it came, cut if it is long."""
    text = body.strip()
    over = len(text) - MAX_BODY_CHARS
    if over > 0:
        text = f"{text[:MAX_BODY_CHARS]}... [truncated {over} chars]"
    return f"Mistral API error ({status}): {text or 'no body'}"


if TYPE_CHECKING:
    _provider: type[Provider] = Mistral
