"""`ctx.models`: list models and call them outside the conversation."""

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from typing import Any

from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.draft import Draft, StreamEvent
from ludolf.ai.messages import AssistantMessage, Message, Text, UserMessage
from ludolf.ai.models import Model
from ludolf.ai.provider import Request
from ludolf.ai.stream import respond
from ludolf.base import CommandError, now_ms, uuid7
from ludolf.extensions.actions import find_model
from ludolf.extensions.runtime import Runtime
from ludolf.functions.content import read_messages

PromptContent = str | Sequence[Any]


class ModelsView:
    """All registered models, and those with credentials."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def all(self) -> tuple[Model, ...]:
        return self._runtime.list_models(lambda models: models.all())

    def available(self) -> tuple[Model, ...]:
        return self._runtime.list_models(lambda models: models.available())

    def find(self, provider: str, model_id: str) -> Model | None:
        return self._runtime.list_models(lambda models: models.find(provider, model_id))

    def access(self, model: Model) -> Access | None:
        """Return key and headers for a direct request; None without credentials."""
        return self._runtime.do(lambda host: host.registry.access(model))

    async def complete(
        self,
        said: PromptContent,
        *,
        model: Model | str | None = None,
        system: str = "",
        max_tokens: int | None = None,
    ) -> AssistantMessage:
        """Call a model, by default the current one, and return its complete answer.

        A failed call returns an answer whose `stop_reason` is "error".

        Raises:
            ProviderError: the model has no key.
            CommandError: the model is unknown.
        """
        request = await self._request(said, model, system, max_tokens)
        answer = await respond(request, Draft(request.model), _ignore)
        return answer.message

    async def stream(
        self,
        said: PromptContent,
        *,
        model: Model | str | None = None,
        system: str = "",
        max_tokens: int | None = None,
    ) -> AsyncGenerator[StreamEvent]:
        """Call a model and yield block starts, deltas and ends as they arrive.

        Raises:
            ProviderError: the call failed.
            CommandError: the model is unknown.
        """
        request = await self._request(said, model, system, max_tokens)
        draft = Draft(request.model)
        async with aclosing(request.provider.stream(request, draft)) as reads:
            async for events in reads:
                for event in events:
                    yield event

    async def _request(
        self, said: PromptContent, model: Model | str | None, system: str, max_tokens: int | None
    ) -> Request:
        host = self._runtime.host
        target = host.model if model is None else find_model(host, model)
        if target is None:
            raise CommandError("No model selected.")
        return structs.replace(
            await host.request(target),
            system=system,
            messages=_messages(said),
            max_tokens=max_tokens,
            session_id=uuid7(),
            cache="none",
        )


def _messages(said: PromptContent) -> tuple[Any, ...]:
    if isinstance(said, str):
        question: Message = UserMessage(content=(Text(text=said),), timestamp=now_ms())
        return (question,)
    return read_messages(said, "messages")


async def _ignore(events: Iterable[StreamEvent]) -> None:
    for _ in events:
        pass
