"""Build requests to the model from the session."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from itertools import groupby

from msgspec import structs

from ludolf.ai.access import Access
from ludolf.ai.errors import ProviderError
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
from ludolf.ai.provider import CacheRetention, Request
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.settings.home import env
from ludolf.config.settings.settings import Settings
from ludolf.engine.conversation import Conversation
from ludolf.engine.feature import Features
from ludolf.engine.models import Models
from ludolf.engine.resources import Resources
from ludolf.engine.toolset import Toolset
from ludolf.engine.workspace import Workspace
from ludolf.session.context import view_tokens

NOTE = "Image reading is disabled."


class ImageBlock:
    """Replaces images by a note. The same message always gives the same copy, so that what a
    provider made of it can be kept."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[AnyMessage, AnyMessage]] = {}

    def apply(self, messages: Iterable[AnyMessage]) -> tuple[AnyMessage, ...]:
        return tuple(map(self._without, messages))

    def _without(self, message: AnyMessage) -> AnyMessage:
        if not isinstance(message, UserMessage | CustomMessage | ToolResultMessage):
            return message
        if not any(isinstance(part, Image) for part in message.content):
            return message
        known = self._copies.get(id(message))
        if known is None or known[0] is not message:
            copy = structs.replace(message, content=_noted(message.content))
            known = self._copies[id(message)] = (message, copy)
        return known[1]


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


class EmptyRequests:
    """Requests to a model that contain no messages yet.

    `renew` renews a login; subagents use that of their parent, whose tasks outlive theirs.
    """

    def __init__(
        self, workspace: Workspace, models: Models, features: Features, renew: Renew
    ) -> None:
        self._workspace = workspace
        self._models = models
        self._features = features
        self.renew = renew

    async def fresh(self, model: Model | None = None) -> Request:
        """Return an empty request; waits until a login is renewed or a key command has run.

        Raises:
            ProviderError: no provider or no key for the model, or the login was not renewed.
        """
        registry = self._models.registry
        model = model or self._models.require()
        if registry.ends_soon(model):
            await self.renew(model.provider)
        if not registry.runs_command(model):
            return self._to(model, registry.access(model))
        return self._to(model, await asyncio.to_thread(registry.access, model))

    def _to(self, model: Model, access: Access | None) -> Request:
        models, settings = self._models, self._workspace.settings
        if access is None:
            raise ProviderError(_no_access(models.registry, model.provider), kind="auth")
        models.transport.will_ask(model)
        return Request(
            provider=self._features.wrap_provider(models.providers.get(model.api)),
            model=model,
            access=access,
            system="",
            messages=(),
            thinking=models.level,
            fast=models.wants_fast,
            thinking_budgets=thinking_budgets(settings),
            max_wait=settings.retry.provider.max_retry_delay_ms / 1000,
            patience=settings.patience,
            cwd=str(self._workspace.cwd),
        )


class Requests:
    """Requests for the next answer of the conversation."""

    def __init__(
        self,
        empty: EmptyRequests,
        conversation: Conversation,
        models: Models,
        toolset: Toolset,
        resources: Resources,
        features: Features,
    ) -> None:
        self._empty = empty
        self._conversation = conversation
        self._models = models
        self._toolset = toolset
        self._resources = resources
        self._features = features
        self._image_block = ImageBlock()
        self._cache: CacheRetention = "long" if env("CACHE_RETENTION") == "long" else "short"

    async def build(self, *, block_images: bool) -> Request:
        """Return the request for the next answer, with the conversation as it stands.

        Raises:
            ProviderError: no provider or no key for the current model.
        """
        models, session = self._models, self._conversation.session
        if models.unresolved:
            await models.resolve()
        if self._resources.override is None:
            await self._resources.load()
        system, messages = await self._features.before_request(
            self._resources.override or self._resources.system_prompt(),
            self._messages(block_images=block_images),
        )
        acts = models.require().uses_tools
        return structs.replace(
            await self._empty.fresh(),
            system=system if acts else system + NO_TOOLS,
            messages=messages,
            tools=self._toolset.specs() if acts else (),
            max_tokens=self._answer_limit(),
            session_id=session.id,
            cache=self._cache,
        )

    def _messages(self, *, block_images: bool) -> tuple[Message | OpaqueMessage, ...]:
        messages = self._conversation.session.context.messages()
        return self._image_block.apply(messages) if block_images else tuple(messages)

    def _answer_limit(self) -> int | None:
        """Return a token limit if the conversation leaves less than the model could answer."""
        model = self._models.require()
        spare = min(SPARE_TOKENS, model.context_window // 8)
        left = model.context_window - view_tokens(self._conversation.session.context) - spare
        return max(1, left) if left < model.max_tokens else None


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
    budgets = settings.thinking_budgets
    by_level = {
        "minimal": budgets.minimal,
        "low": budgets.low,
        "medium": budgets.medium,
        "high": budgets.high,
        "xhigh": budgets.high,
        "max": budgets.high,
    }
    return {level: budget for level, budget in by_level.items() if budget is not None}
