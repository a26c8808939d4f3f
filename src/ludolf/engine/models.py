"""Which model answers, and how hard it thinks."""

from collections.abc import Sequence
from typing import Literal

from ludolf.ai.messages import THINKING_LEVELS, ThinkingLevel
from ludolf.ai.models import Model, clamp_thinking, thinking_levels
from ludolf.base import CommandError, Value
from ludolf.engine.builtin import ensure_builtin
from ludolf.engine.parts import Parts
from ludolf.protocol.events import ThinkingLevelChanged
from ludolf.session.entries import ModelChange, ThinkingLevelChange


class ScopedModel(Value):
    """A model of the list that cycling goes through, with its own level if one was named."""

    model: Model
    level: ThinkingLevel | None = None


class Cycled(Value):
    model: Model
    thinking_level: ThinkingLevel
    is_scoped: bool


class ModelState:
    """The current model and thinking level; every change is written to the session."""

    def __init__(
        self,
        parts: Parts,
        model: Model | None,
        level: ThinkingLevel,
        scoped: Sequence[ScopedModel] = (),
    ) -> None:
        self._parts = parts
        self.current = model
        self.level: ThinkingLevel = clamp_thinking(model, level) if model else level
        self.scoped = tuple(scoped)

    def require(self) -> Model:
        """Raises:
        CommandError: no model is selected.
        """
        if self.current is None:
            raise CommandError(
                "No model selected. Set an API key in the environment (for example "
                "ANTHROPIC_API_KEY), add a provider to models.json, or choose one with --model; "
                "--list-models shows what is known."
            )
        return self.current

    def record(self) -> None:
        """Write the present choice into a new session."""
        if self.current is not None:
            self._append_model(self.current)
        self._parts.session.append(ThinkingLevelChange(thinking_level=self.level))

    def restore(self, named: tuple[str, str] | None, level: ThinkingLevel | None) -> None:
        """Take over what a conversation used last, as far as it can still be had."""
        model = self._parts.registry.find(*named) if named is not None else None
        if model is not None and self._parts.registry.admits(model):
            self.current = model
        level = level or self.level
        self.level = clamp_thinking(self.current, level) if self.current else level

    def set_model(self, provider: str, model_id: str) -> Model:
        """Raises:
        CommandError: the model is unknown or there is no key for its provider.
        """
        ensure_builtin(self._parts.registry, provider)
        model = self._parts.registry.find(provider, model_id)
        if model is None:
            raise CommandError(f"Model not found: {provider}/{model_id}")
        if not self._parts.registry.admits(model):
            raise CommandError(f"No API key for {provider}/{model_id}")
        self._use(model, self.level)
        return model

    def cycle(self) -> Cycled | None:
        """The next model of the scope, else of all that have a key; None if there is no other."""
        pool = self.scoped or tuple(ScopedModel(model=m) for m in self._parts.registry.available())
        if len(pool) <= 1:
            return None
        keys = [item.model.key for item in pool]
        here = keys.index(self.current.key) if self.current and self.current.key in keys else -1
        chosen = pool[(here + 1) % len(pool)]
        self._use(chosen.model, chosen.level or self.level, "cycle")
        return Cycled(model=chosen.model, thinking_level=self.level, is_scoped=bool(self.scoped))

    def set_level(self, level: str) -> None:
        """Raises:
        CommandError: there is no such level.
        """
        if level not in THINKING_LEVELS:
            raise CommandError(f"Invalid thinking level: {level}")
        self._set_level(level)

    def cycle_level(self) -> ThinkingLevel | None:
        levels = self.levels()
        if len(levels) <= 1:
            return None
        place = levels.index(self.level) if self.level in levels else -1
        self._set_level(levels[(place + 1) % len(levels)])
        return self.level

    def levels(self) -> tuple[ThinkingLevel, ...]:
        return thinking_levels(self.current) if self.current else ("off",)

    # ------------------------------------------------------------ private

    def _use(
        self, model: Model, level: ThinkingLevel, source: Literal["set", "cycle"] = "set"
    ) -> None:
        before, self.current = self.current, model
        self._append_model(model)
        if self._parts.extending.wants("model_select"):
            from ludolf.extensions.payloads import ModelSelect

            self._parts.extending.soon(
                ModelSelect(model=model, previous_model=before, source=source)
            )
        self._set_level(level)

    def _append_model(self, model: Model) -> None:
        self._parts.session.append(ModelChange(provider=model.provider, model_id=model.id))

    def _set_level(self, level: ThinkingLevel) -> None:
        if self.current is not None:
            level = clamp_thinking(self.current, level)
        if level == self.level:
            return
        before, self.level = self.level, level
        self._parts.session.append(ThinkingLevelChange(thinking_level=level))
        self._parts.hub.post(ThinkingLevelChanged(level=level))
        if self._parts.extending.wants("thinking_level_select"):
            from ludolf.extensions.payloads import ThinkingLevelSelect

            self._parts.extending.soon(ThinkingLevelSelect(level=level, previous_level=before))
