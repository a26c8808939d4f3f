"""A request to the model, computed from the session each time it is asked for."""

from msgspec import structs

from ludolf.ai.errors import ProviderError
from ludolf.ai.messages import Message, OpaqueMessage
from ludolf.ai.models import Model
from ludolf.ai.provider import Request
from ludolf.config.home import env
from ludolf.engine.blocked_images import ImageBlock
from ludolf.engine.hook_points import Hooks
from ludolf.engine.parts import Parts
from ludolf.session.estimate import view_tokens

SPARE_TOKENS = 4096


class Requests:
    """Builds requests."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._image_block = ImageBlock()

    async def build(self) -> Request:
        """The request for the next answer, with the conversation as it stands.

        Raises:
            ProviderError: no provider or no key for the current model.
        """
        parts = self._parts
        system = parts.forced_system or parts.resources.system_prompt()
        messages = self._messages()
        if parts.extending.wants("context") or parts.extending.wants("context_with_system"):
            system, messages = await Hooks(parts).context(system, messages)
        return structs.replace(
            self.bare(),
            system=system,
            messages=messages,
            tools=parts.toolbox.specs(),
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
        left = model.context_window - view_tokens(self._parts.session.context) - SPARE_TOKENS
        return max(1, left) if left < model.max_tokens else None

    def bare(self, model: Model | None = None) -> Request:
        """A request to a model, else to the current one, that says nothing yet.

        Raises:
            ProviderError: no provider or no key for the current model.
        """
        parts = self._parts
        model = model or parts.models.require()
        access = parts.registry.access(model)
        if access is None:
            raise ProviderError(f"No API key for provider: {model.provider}", kind="auth")
        return Request(
            provider=parts.providers.get(model.api),
            model=model,
            access=access,
            system="",
            messages=(),
            thinking=parts.models.level,
            thinking_budgets=budgets(parts),
            max_wait=parts.settings.retry.provider.max_retry_delay_ms / 1000,
            idle_seconds=parts.settings.provider_timeout_ms / 1000,
            cwd=str(parts.home.cwd),
        )


def budgets(parts: Parts) -> dict[str, int]:
    chosen = parts.settings.thinking_budgets
    return {
        "minimal": chosen.minimal,
        "low": chosen.low,
        "medium": chosen.medium,
        "high": chosen.high,
    }
