"""Which model answers, and how hard it thinks."""

from collections.abc import Sequence
from typing import Literal

from ludolf.ai.local import FILES, SERVERS
from ludolf.ai.messages import THINKING_LEVELS, ThinkingLevel
from ludolf.ai.models import Model, clamp_thinking, thinking_levels
from ludolf.base import CommandError, ConfigError, Value
from ludolf.config.models.registry import LOCAL
from ludolf.config.models.selection import resolve_scope
from ludolf.engine.builtin import ensure_builtin
from ludolf.engine.parts import Parts
from ludolf.protocol.events import ThinkingLevelChanged
from ludolf.session.entries import EntryBody, ModelChange, ThinkingLevelChange


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
        # Nobody has chosen a model: one of this machine is taken once it is found.
        self.by_default = False
        # The scope as it was asked for; models of this machine are found in it later.
        self.patterns: tuple[str, ...] = ()
        # Answers are wanted sooner than others', where the model's server sells that.
        self.wants_fast = False
        self._settled: Model | None = None
        self.current = model
        self.level: ThinkingLevel = clamp_thinking(model, level) if model else level
        # What counts again after a model that cannot think.
        self._chosen_level = level
        self.scoped = tuple(scoped)

    def require(self) -> Model:
        """Raises:
        CommandError: no model is selected.
        """
        if self.current is None:
            raise CommandError(
                "No model selected. Set an API key in the environment (for example "
                "ANTHROPIC_API_KEY), store one with `ludolf auth login`, add a provider to "
                "models.json, or choose one with --model; `ludolf models list --all` shows all."
            )
        return self.current

    def record(self) -> None:
        """Write the present choice into a new session."""
        if self.current is not None:
            self._append_model(self.current)
        self._store(ThinkingLevelChange(thinking_level=self.level))

    def restore(self, named: tuple[str, str] | None, level: ThinkingLevel | None) -> None:
        """Take over what a conversation used last, as far as it can still be had."""
        model = self._named(*named) if named is not None else None
        if model is not None and self._parts.registry.admits(model):
            self.current = model
            self.by_default = False
        level = level or self.level
        self.level = clamp_thinking(self.current, level) if self.current else level
        self._note_level()

    def set_model(self, provider: str, model_id: str) -> Model:
        """Raises:
        CommandError: the model is unknown or there is no key for its provider.
        """
        ensure_builtin(self._parts.registry, provider)
        model = self._parts.registry.find(provider, model_id) or self._file(provider, model_id)
        if model is None:
            raise CommandError(f"Model not found: {provider}/{model_id}")
        if not self._parts.registry.admits(model):
            raise CommandError(f"No API key for {provider}/{model_id}")
        self._use(model, self._kept_level())
        self._remark()
        return model

    def cycle(self) -> Cycled | None:
        """The next model of the scope, else of all that have a key; None if there is no other."""
        if self.patterns:
            self._find_scope()
        pool = self.scoped or tuple(ScopedModel(model=m) for m in self._parts.registry.available())
        if len(pool) <= 1:
            return None
        keys = [item.model.key for item in pool]
        # From outside the pool one goes on as from its first, as in pi.
        here = keys.index(self.current.key) if self.current and self.current.key in keys else 0
        chosen = pool[(here + 1) % len(pool)]
        self._use(chosen.model, chosen.level or self._kept_level(), "cycle")
        return Cycled(model=chosen.model, thinking_level=self.level, is_scoped=bool(self.scoped))

    # ------------------------------------------------------------ this machine

    def must_look(self, provider: str | None = None) -> bool:
        """Whether a command about models, or of this provider, has to wait for `look` first."""
        if provider is not None and provider not in LOCAL:
            return False
        return not self._parts.registry.local.is_current()

    async def look(self) -> None:
        """Find the models of this machine."""
        await self._parts.registry.local.look()

    @property
    def unsettled(self) -> bool:
        """Whether something is still to be learnt of the model, or a better one to be found."""
        current = self.current
        if self.by_default:
            return True
        return current is not None and current.provider in SERVERS and current is not self._settled

    async def settle(self) -> None:
        """Before a model of this machine is asked: learn what it is like; or find one at all."""
        local, current = self._parts.registry.local, self.current
        if self.by_default:
            await local.look()
            found = local.best()
            if self.by_default and found is not None:
                self._use(found, self._wanted_level())
                self._remark()
            return
        if current is None or not local.serves(current.provider):
            return
        known = await local.known(current)
        if known is not None and self.current is current:
            self.current = known
            self._settled = known if local.is_loaded(known) else None
            self._set_level(self.level)
            self._remark()

    def _wanted_level(self) -> ThinkingLevel:
        return (
            self._parts.options.thinking or self._parts.settings.default_thinking_level or "medium"
        )

    def _remark(self) -> None:
        model = self.current
        if model is None or model.provider not in SERVERS:
            return
        text = self._parts.registry.local.remark(model)
        if text is not None:
            self._parts.warn(f"Warning: {text}")

    def _named(self, provider: str, model_id: str) -> Model | None:
        registry = self._parts.registry
        try:
            return registry.find(provider, model_id) or registry.expected(provider, model_id)
        except ConfigError:
            return None

    def _file(self, provider: str, model_id: str) -> Model | None:
        """A GGUF file need not be found before it is named."""
        return self._parts.registry.expected(provider, model_id) if provider == FILES else None

    def _find_scope(self) -> None:
        found = resolve_scope(self.patterns, self._parts.registry.available()).choices
        self.scoped = tuple(ScopedModel(model=item.model, level=item.level) for item in found)

    # ------------------------------------------------------------ fast mode

    def set_fast(self, enabled: bool) -> None:
        """Raises:
        CommandError: the current model has no such mode.
        """
        if enabled and not self._can_be_fast():
            raise CommandError("Fast mode is unavailable for the current model.")
        self.wants_fast = enabled

    @property
    def is_fast(self) -> bool:
        """Whether the current model answers in fast mode."""
        return self.wants_fast and self._can_be_fast()

    def _can_be_fast(self) -> bool:
        from ludolf.ai.providers.openai.compat import can_be_fast

        return self.current is not None and can_be_fast(self.current)

    # ------------------------------------------------------------ thinking

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
        self.by_default = False
        self._append_model(model)
        if self._parts.extending.wants("model_select"):
            from ludolf.extensions.payloads import ModelSelect

            self._parts.extending.soon(
                ModelSelect(model=model, previous_model=before, source=source)
            )
        self._set_level(level)

    def _append_model(self, model: Model) -> None:
        self._store(ModelChange(provider=model.provider, model_id=model.id))

    def _store(self, change: EntryBody) -> None:
        # A choice counts also where it cannot be written: it goes along to the next session.
        if self._parts.session.read_only is None:
            self._parts.session.append(change)

    def _kept_level(self) -> ThinkingLevel:
        return self.level if len(self.levels()) > 1 else self._chosen_level

    def _note_level(self) -> None:
        if len(self.levels()) > 1:
            self._chosen_level = self.level

    def _set_level(self, level: ThinkingLevel) -> None:
        if self.current is not None:
            level = clamp_thinking(self.current, level)
        before, self.level = self.level, level
        self._note_level()
        if level == before:
            return
        self._store(ThinkingLevelChange(thinking_level=level))
        self._parts.hub.post(ThinkingLevelChanged(level=level))
        if self._parts.extending.wants("thinking_level_select"):
            from ludolf.extensions.payloads import ThinkingLevelSelect

            self._parts.extending.soon(ThinkingLevelSelect(level=level, previous_level=before))
