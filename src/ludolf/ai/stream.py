"""Call a model; failures become a final message, never an exception."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import structs

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.local import SERVERS
from ludolf.ai.messages import Diagnostic
from ludolf.ai.provider import ModelAnswer, Request
from ludolf.base import now_ms

if TYPE_CHECKING:
    from ludolf.ai.record.scrubbing import Scrubber


async def respond(
    request: Request,
    draft: Draft,
    take: Callable[[Iterable[StreamEvent]], Awaitable[None]],
) -> ModelAnswer:
    """Stream one answer; `take` is awaited for each read and must consume its iterable."""
    try:
        async with aclosing(request.provider.stream(request, draft)) as stream:
            async for events in stream:
                await take(events)
        await take(draft.end_all())
    except ProviderError as error:
        from ludolf.ai.secrets import scrubber_for

        draft.failure = error
        scrubber = scrubber_for(request.access, _url(request), request.environ)
        message = draft.finish("error", _worded(error, request, scrubber))
        if error.diagnostic is not None:
            kind, details = error.diagnostic[0], scrubber.value(error.diagnostic[1])
            noted = Diagnostic(type=kind, timestamp=now_ms(), details=details)
            message = structs.replace(message, diagnostics=(noted,))
        return ModelAnswer(message, kind=error.kind, retry_after=error.retry_after)
    return ModelAnswer(draft.finish())


def _url(request: Request) -> str:
    return request.access.base_url or request.model.base_url


def _worded(error: ProviderError, request: Request, scrubber: "Scrubber") -> str:
    """Return the error's text without keys that a server may have repeated in it.

    A requested delay above the limit is stated first.
    """
    text, url = str(error), _url(request)
    if request.model.provider in SERVERS:
        from ludolf.ai.local.kinds import explain

        text = explain(request.model.provider, url, request.model.id, text)
    text = scrubber.text(text)
    wait, max_wait = error.retry_after, request.max_wait
    if not wait or not max_wait or wait <= max_wait:
        return text
    return f"Server requested {wait:.0f}s retry delay (max: {max_wait:.0f}s). {text}"
