"""Ask a model and always get an answer: failures become a final message, never an exception."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing

from msgspec import structs

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.local import SERVERS
from ludolf.ai.messages import Diagnostic
from ludolf.ai.provider import Answer, Request
from ludolf.base import now_ms


async def respond(
    request: Request,
    draft: Draft,
    take: Callable[[Iterable[StreamEvent]], Awaitable[None]],
) -> Answer:
    """Stream one answer; `take` is awaited for each read and must consume its iterable."""
    try:
        async with aclosing(request.provider.stream(request, draft)) as stream:
            async for events in stream:
                await take(events)
        await take(draft.end_all())
    except ProviderError as error:
        message = draft.finish("error", _worded(error, request))
        if error.diagnostic is not None:
            kind, details = error.diagnostic
            noted = Diagnostic(type=kind, timestamp=now_ms(), details=details)
            message = structs.replace(message, diagnostics=(noted,))
        return Answer(message, kind=error.kind, retry_after=error.retry_after)
    return Answer(draft.finish())


def _worded(error: ProviderError, request: Request) -> str:
    """The error's text without the keys that a server may have sent back in it.

    A wait that is longer than we would wait is named first.
    """
    from ludolf.ai.secrets import redact, secrets_in

    text, url = str(error), request.access.base_url or request.model.base_url
    if request.model.provider in SERVERS:
        from ludolf.ai.local.kinds import explain

        text = explain(request.model.provider, url, request.model.id, text)
    text = redact(text, secrets_in(request.access, url))
    wait, max_wait = error.retry_after, request.max_wait
    if not wait or not max_wait or wait <= max_wait:
        return text
    return f"Server requested {wait:.0f}s retry delay (max: {max_wait:.0f}s). {text}"
