"""Build requests to the model from the session, and decide when to repeat a failed one."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property
from itertools import groupby
from typing import TypeVar

from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.errors import RETRYABLE, ProviderError
from ludolf.ai.messages import (
    AnyMessage,
    CustomMessage,
    Image,
    Message,
    OpaqueMessage,
    Part,
    Text,
    ToolResultMessage,
    UserMessage,
)
from ludolf.ai.models import Model
from ludolf.ai.provider import CacheRetention, ModelAnswer, Request
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.settings.home import env
from ludolf.config.settings.settings import Settings
from ludolf.engine.bundles import Bundles, Component
from ludolf.engine.workspace import Workspace
from ludolf.protocol.events import AutoRetryStart, SummaryRetryScheduled
from ludolf.session.context import view_tokens

NOTE = "Image reading is disabled."


class ImageBlock:
    """Replaces images by a note. The same message always gives the same copy, so that what a
    provider made of it can be kept."""

    def __init__(self) -> None:
        from ludolf.ai.identity_cache import IdentityCache

        self._copies: IdentityCache[AnyMessage] = IdentityCache()

    def apply(self, messages: Iterable[AnyMessage]) -> tuple[AnyMessage, ...]:
        return tuple(map(self._without, messages))

    def _without(self, message: AnyMessage) -> AnyMessage:
        if not isinstance(message, UserMessage | CustomMessage | ToolResultMessage):
            return message
        if not any(isinstance(part, Image) for part in message.content):
            return message
        content = message.content
        return self._copies.get(message, lambda: structs.replace(message, content=_noted(content)))


def _noted(content: str | tuple[Part, ...]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for is_image, run in groupby(content, lambda part: isinstance(part, Image)):
        if is_image:
            parts.append(Text(text=NOTE))
        else:
            parts += [part for part in run if isinstance(part, Text)]
    return tuple(parts)


SPARE_TOKENS = 4096
NO_TOOLS = "\n\nYou cannot call tools here: answer from what you know and what you are shown."
Renew = Callable[[str], Awaitable[None]]


class Requests(Component):
    """Requests to a model: empty ones, and those for the next answer of the conversation.

    `renew` renews a login; subagents use that of their parent, whose tasks outlive theirs.
    """

    def __init__(self, bundles: Bundles, renew: Renew) -> None:
        super().__init__(bundles)
        self.renew = renew
        retention = env("CACHE_RETENTION", self.workspace.environ)
        self._cache: CacheRetention = "long" if retention == "long" else "short"

    @cached_property
    def _image_block(self) -> ImageBlock:
        return ImageBlock()

    async def empty(self, model: Model | None = None) -> Request:
        """Return an empty request; waits until a login is renewed or a key command has run.

        Raises:
            ProviderError: no provider or no key for the model, or the login was not renewed.
        """
        registry = self.models.registry
        model = model or self.models.require()
        if registry.ends_soon(model):
            await self.renew(model.provider)
        if not registry.runs_command(model):
            return self._to(model, registry.access(model))
        return self._to(model, await asyncio.to_thread(registry.access, model))

    def _to(self, model: Model, access: Access | None) -> Request:
        models, settings = self.models, self.workspace.settings
        if access is None:
            raise ProviderError(_no_access(models.registry, model.provider), kind="auth")
        models.transport.will_ask(model)
        provider = models.providers.get(model.api)
        for feature in self.features.hooks["wrap_provider"]:
            provider = feature.wrap_provider(provider)
        return Request(
            provider=provider,
            model=model,
            access=access,
            system="",
            messages=(),
            thinking=models.level,
            fast=models.wants_fast,
            thinking_budgets=thinking_budgets(settings),
            max_wait=settings.retry.provider.max_retry_delay_ms / 1000,
            patience=settings.patience,
            cwd=str(self.workspace.cwd),
            environ=self.workspace.environ,
        )

    async def next(self) -> Request:
        """Return the request for the next answer, with the conversation as it stands.

        Raises:
            ProviderError: no provider or no key for the current model.
        """
        models = self.models
        if models.unresolved:
            await models.resolve()
        if self.resources.override is None:
            await self.resources.load()
        system = self.resources.override or self.resources.system_prompt()
        messages = self._messages()
        for feature in self.features.hooks["before_request"]:
            system, messages = await feature.before_request(system, messages)
        acts = models.require().uses_tools
        return structs.replace(
            await self.empty(),
            system=system if acts else system + NO_TOOLS,
            messages=messages,
            tools=self.toolset.specs() if acts else (),
            max_tokens=self._answer_limit(),
            session_id=self.conversation.session.id,
            cache=self._cache,
        )

    def _messages(self) -> tuple[Message | OpaqueMessage, ...]:
        messages = self.conversation.session.context.messages()
        blocked = self.workspace.settings.images.block_images
        return self._image_block.apply(messages) if blocked else tuple(messages)

    def _answer_limit(self) -> int | None:
        """Return a token limit if the conversation leaves less than the model could answer."""
        model = self.models.require()
        spare = min(SPARE_TOKENS, model.context_window // 8)
        left = model.context_window - view_tokens(self.conversation.session.context) - spare
        return max(1, left) if left < model.max_tokens else None


ScheduledT = TypeVar("ScheduledT", AutoRetryStart, SummaryRetryScheduled)


class Attempts:
    """The retry policy of one request. `count` is the number of retries so far."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._had_garbled = False
        self.count = 0

    def wants(self, answer: ModelAnswer) -> bool:
        """Return whether this failure is worth another attempt."""
        if answer.kind not in RETRYABLE or (answer.kind == "garbled" and self._had_garbled):
            return False
        retry = self._workspace.retry
        if not retry.enabled or self.count >= retry.max_retries:
            return False
        return not retry.is_too_long(answer.retry_after)

    def schedule(self, answer: ModelAnswer, event: type[ScheduledT]) -> ScheduledT:
        """Count the next attempt; returns the event that announces it and its delay."""
        retry = self._workspace.retry
        self.count += 1
        self._had_garbled |= answer.kind == "garbled"
        return event(
            attempt=self.count,
            max_attempts=retry.max_retries,
            delay_ms=retry.delay_ms(self.count, answer.retry_after),
            error_message=answer.message.error_message or "",
        )


def _no_access(registry: ModelRegistry, provider: str) -> str:
    if registry.keyring.ends_soon(provider, 0):
        return (
            f'Authentication failed for "{provider}": the login has expired. '
            f'Run "ludolf auth login {provider}" to log in again.'
        )
    text = f"No API key for provider: {provider}"
    # Why a key command or a variable gave no key.
    reason = registry.keyring.resolver.warnings[-1:]
    return f"{text} ({reason[0]})" if reason else text


def thinking_budgets(settings: Settings) -> dict[str, int]:
    """Return the user's token budgets; providers choose for levels without one."""
    budgets = structs.asdict(settings.thinking_budgets)
    budgets |= {"xhigh": budgets["high"], "max": budgets["high"]}
    return {level: budget for level, budget in budgets.items() if budget is not None}
