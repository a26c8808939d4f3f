"""A request to the model, computed from the session each time it is asked for."""

import asyncio
from typing import TYPE_CHECKING

from msgspec import structs

from ludolf.agent.scope import Tasks
from ludolf.ai.access import Access
from ludolf.ai.errors import ProviderError
from ludolf.ai.local import uses_tools
from ludolf.ai.messages import Message, OpaqueMessage
from ludolf.ai.models import Model
from ludolf.ai.provider import Request
from ludolf.config.settings.home import env
from ludolf.engine.extension_bridge.hook_points import Hooks
from ludolf.engine.parts import Parts
from ludolf.engine.run.blocked_images import ImageBlock
from ludolf.session.estimate import view_tokens

if TYPE_CHECKING:
    from ludolf.engine.host.renewals import Renewals

SPARE_TOKENS = 4096
NO_TOOLS = "\n\nYou cannot call tools here: answer from what you know and what you are shown."


class Requests:
    """Builds requests."""

    def __init__(self, parts: Parts, tasks: Tasks) -> None:
        self._parts = parts
        self._tasks = tasks
        self._image_block = ImageBlock()
        self._renewals: Renewals | None = None
        # Agents in the background have it done by their parent, whose tasks outlive theirs.
        self.renew = self._renew

    async def build(self) -> Request:
        """The request for the next answer, with the conversation as it stands.

        Raises:
            ProviderError: no provider or no key for the current model.
        """
        parts = self._parts
        if parts.models.unsettled:
            await parts.models.settle()
        if not parts.forced_system:
            await parts.resources.load()
        system = parts.forced_system or parts.resources.system_prompt()
        messages = self._messages()
        if parts.extending.wants("context") or parts.extending.wants("context_with_system"):
            system, messages = await Hooks(parts).context(system, messages)
        acts = uses_tools(parts.models.require())
        return structs.replace(
            await self.fresh(),
            system=system if acts else system + NO_TOOLS,
            messages=messages,
            tools=parts.toolbox.specs() if acts else (),
            max_tokens=self._room(),
            session_id=parts.session.id,
            cache="long" if env("CACHE_RETENTION") == "long" else "short",
        )

    def _messages(self) -> tuple[Message | OpaqueMessage, ...]:
        messages = self._parts.session.context.messages()
        if self._parts.settings.images.block_images:
            return self._image_block.apply(messages)
        return tuple(messages)

    def _room(self) -> int | None:
        """A limit for the answer, where the conversation leaves less than the model could say."""
        model = self._parts.models.require()
        spare = min(SPARE_TOKENS, model.context_window // 8)
        left = model.context_window - view_tokens(self._parts.session.context) - spare
        return max(1, left) if left < model.max_tokens else None

    async def fresh(self, model: Model | None = None) -> Request:
        """As `bare`, but waits until a login that ends soon is renewed, or a key command has run.

        Raises:
            ProviderError: as `bare`, or the login could not be renewed.
        """
        registry = self._parts.registry
        model = model or self._parts.models.require()
        if registry.ends_soon(model):
            await self.renew(model.provider)
        if not registry.runs_command(model):
            return self.bare(model)
        return self._to(model, await asyncio.to_thread(registry.access, model))

    async def _renew(self, provider: str) -> None:
        if self._renewals is None:
            from ludolf.engine.host.renewals import Renewals

            self._renewals = Renewals(self._parts, self._tasks)
        await self._renewals.renew(provider)

    def bare(self, model: Model | None = None) -> Request:
        """A request to a model, else to the current one, that says nothing yet.

        Raises:
            ProviderError: no provider or no key for the current model.
        """
        model = model or self._parts.models.require()
        return self._to(model, self._parts.registry.access(model))

    def _to(self, model: Model, access: Access | None) -> Request:
        parts = self._parts
        if access is None:
            raise ProviderError(_no_access(parts, model.provider), kind="auth")
        parts.transport.will_ask(model)
        provider = parts.providers.get(model.api)
        return Request(
            provider=provider if parts.safety is None else parts.safety.provider(provider),
            model=model,
            access=access,
            system="",
            messages=(),
            thinking=parts.models.level,
            fast=parts.models.wants_fast,
            thinking_budgets=budgets(parts),
            max_wait=parts.settings.retry.provider.max_retry_delay_ms / 1000,
            patience=parts.settings.patience,
            cwd=str(parts.home.cwd),
        )


def _no_access(parts: Parts, provider: str) -> str:
    if parts.registry.keyring.ends_soon(provider, 0):
        return (
            f'Authentication failed for "{provider}": the login has expired. '
            f'Run "ludolf auth login {provider}" to log in again.'
        )
    text = f"No API key for provider: {provider}"
    # Why a command or a variable that should have told the key has not.
    why = parts.registry.keyring.resolver.warnings[-1:]
    return f"{text} ({why[0]})" if why else text


def budgets(parts: Parts) -> dict[str, int]:
    """The user's own; a level without one gets what its provider takes for it."""
    chosen = parts.settings.thinking_budgets
    named = {
        "minimal": chosen.minimal,
        "low": chosen.low,
        "medium": chosen.medium,
        "high": chosen.high,
        "xhigh": chosen.high,
        "max": chosen.high,
    }
    return {level: budget for level, budget in named.items() if budget is not None}
