"""Ask a model and always get an answer: failures become a final message, never an exception."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing

from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.errors import ProviderError
from ludolf.ai.provider import Answer, Request


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
        message = draft.finish("error", _worded(error, request.max_wait))
        return Answer(message, kind=error.kind, retry_after=error.retry_after)
    return Answer(draft.finish())


def _worded(error: ProviderError, max_wait: float) -> str:
    """The error's text; a wait that is longer than we would wait is named first."""
    wait = error.retry_after
    if not wait or not max_wait or wait <= max_wait:
        return str(error)
    return f"Server requested {wait:.0f}s retry delay (max: {max_wait:.0f}s). {error}"
