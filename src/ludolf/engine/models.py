"""The current model and thinking level, with the registry and the providers behind them."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from ludolf.ai.access import Access
from ludolf.ai.http.transport import Transport
from ludolf.ai.local import FILES, SERVERS
from ludolf.ai.messages import THINKING_LEVELS, ThinkingLevel
from ludolf.ai.models import BUILT_IN_PROVIDER, Model, clamp_thinking, thinking_levels
from ludolf.ai.registry import Providers
from ludolf.base import CommandError, ConfigError, Value
from ludolf.config.models.registry import LOCAL, ModelRegistry
from ludolf.config.models.selection import ModelChoice, resolve_scope
from ludolf.engine.conversation import Conversation
from ludolf.engine.feature import Features
from ludolf.engine.workspace import Workspace
from ludolf.protocol.events import ThinkingLevelChanged
from ludolf.protocol.results import CycledModel
from ludolf.session.entries import EntryBody, ModelChangeBody, ThinkingLevelChangeBody

SCRIPT_VARIABLE = "LUDOLF_SCRIPT"
OFFLINE_VARIABLE = "LUDOLF_OFFLINE_MODEL"
_OFF = ("0", "false", "no", "off")


def ensure_builtin(registry: ModelRegistry, wanted: str) -> None:
    """Register the built-in models if one of them is asked for by name."""
    if wanted == BUILT_IN_PROVIDER or wanted.startswith(f"{BUILT_IN_PROVIDER}/"):
        _register(registry, scripted=True)


def fallback(registry: ModelRegistry) -> ModelChoice | None:
    """Return the model to use when none is configured: a script if one is named, else offline."""
    environ = registry.keyring.environ
    scripted = bool(environ.get(SCRIPT_VARIABLE))
    if not scripted and environ.get(OFFLINE_VARIABLE, "").strip().lower() in _OFF:
        return None
    _register(registry, scripted=scripted)
    model = registry.find(BUILT_IN_PROVIDER, "scripted" if scripted else "offline")
    return ModelChoice(model=model) if model else None


def restored_builtin(registry: ModelRegistry, resumed: tuple[str, str] | None) -> Model | None:
    """Return the built-in model that a session used, unless it is off or has no script."""
    if resumed is None or resumed[0] != BUILT_IN_PROVIDER:
        return None
    choice = fallback(registry)
    return choice.model if choice is not None and choice.model.id == resumed[1] else None


def _register(registry: ModelRegistry, *, scripted: bool) -> None:
    # A model without a script has nothing to say: it is there for those who ask for it.
    from ludolf.ai.builtin.models import offline_model, scripted_model

    more = (scripted_model(),) if scripted else ()
    registry.register((offline_model(), *more), Access())


class ScopedModel(Value):
    """A model of the list that cycling goes through, with its own level if one was named."""

    model: Model
    level: ThinkingLevel | None = None


class ModelAccess(msgspec.Struct, frozen=True):
    """How models are found and reached; an engine shares it with its subagents.

    `recorded` is the model of the recording that is replayed.
    """

    registry: ModelRegistry
    transport: Transport
    providers: Providers
    recorded: ModelChoice | None = None


class Models:
    """The current model and thinking level; every change is written to the session."""

    def __init__(
        self,
        access: ModelAccess,
        workspace: Workspace,
        conversation: Conversation,
        features: Features,
    ) -> None:
        self.access = access
        self.registry = access.registry
        self.transport = access.transport
        self.providers = access.providers
        self._workspace = workspace
        self._conversation = conversation
        self._features = features
        # True while the user has chosen no model: a local one is used once it is found.
        self.by_default = False
        # Why the default model of the settings is not used.
        self.unusable_default: str | None = None
        # The patterns of `--models`; local models are matched with them later.
        self.patterns: tuple[str, ...] = ()
        # Whether faster answers are wanted, where the model's server sells them.
        self.wants_fast = False
        self._resolved: Model | None = None
        self.current: Model | None = None
        self.level: ThinkingLevel = "off"
        # The level to return to after a model that cannot think.
        self._chosen_level: ThinkingLevel = "off"
        self.scoped: tuple[ScopedModel, ...] = ()

    def start_with(
        self, model: Model | None, level: ThinkingLevel, scoped: Sequence[ScopedModel] = ()
    ) -> None:
        """Select the first model, without writing it to the session."""
        self.current = model
        self.level = clamp_thinking(model, level) if model else level
        self._chosen_level = level
        self.scoped = tuple(scoped)

    async def close(self) -> None:
        """Close the connections to model servers."""
        await self.providers.close()
        await self.transport.close()

    def require(self) -> Model:
        """Raises:
        CommandError: no model is selected.
        """
        if self.current is None:
            raise CommandError(
                "No model selected. Set an API key in the environment (for example "
                "ANTHROPIC_API_KEY), store one with `ludolf auth login`, add a provider to "
                "models.json, or choose another model; `ludolf models list --all` shows all.",
                code="no_model",
            )
        return self.current

    def record(self) -> None:
        """Write the present choice into a new session."""
        if self.current is not None:
            self._append_model(self.current)
        self._store(ThinkingLevelChangeBody(thinking_level=self.level))

    def restore(self, named: tuple[str, str] | None, level: ThinkingLevel | None) -> None:
        """Take over what a conversation used last, as far as it can still be had."""
        model = self._named(*named) if named is not None else None
        if model is not None and self.registry.admits(model):
            self.current = model
            self.by_default = False
        level = level or self.level
        self.level = clamp_thinking(self.current, level) if self.current else level
        self._note_level()

    def set_model(self, provider: str, model_id: str) -> Model:
        """Raises:
        CommandError: the model is unknown, or its provider has no key.
        """
        ensure_builtin(self.registry, provider)
        model = self.registry.find(provider, model_id)
        if model is None and provider == FILES:  # a GGUF file need not be found before it is named
            model = self.registry.expected(provider, model_id)
        if model is None:
            raise CommandError(f"Model not found: {provider}/{model_id}")
        if not self.registry.admits(model):
            raise CommandError(f"No API key for {provider}/{model_id}", code="no_key")
        self._use(model, self._kept_level())
        self._remark()
        return model

    def cycle(self) -> CycledModel | None:
        """Select the next model of the scope, else of all that have a key; None without another."""
        if self.patterns:
            found = resolve_scope(self.patterns, self.registry.available()).choices
            self.scoped = tuple(ScopedModel(model=item.model, level=item.level) for item in found)
        pool = self.scoped or tuple(ScopedModel(model=m) for m in self.registry.available())
        if len(pool) <= 1:
            return None
        keys = [item.model.key for item in pool]
        # From outside the pool, continue after its first model, as pi does.
        here = keys.index(self.current.key) if self.current and self.current.key in keys else 0
        chosen = pool[(here + 1) % len(pool)]
        self._use(chosen.model, chosen.level or self._kept_level(), "cycle")
        return CycledModel(
            model=chosen.model, thinking_level=self.level, is_scoped=bool(self.scoped)
        )

    # ------------------------------------------------------------ this machine

    def needs_scan(self, provider: str | None = None) -> bool:
        """Whether a command about models, or of this provider, has to wait for `look` first."""
        if provider is not None and provider not in LOCAL:
            return False
        return not self.registry.local.is_current()

    async def scan(self) -> None:
        """Find the models of this machine."""
        await self.registry.local.look()

    @property
    def unresolved(self) -> bool:
        """Whether something is still to be learnt of the model, or a better one to be found."""
        current = self.current
        if self.by_default:
            return True
        return current is not None and current.provider in SERVERS and current is not self._resolved

    async def resolve(self) -> None:
        """Before a model of this machine is asked: learn what it is like; or find one at all."""
        local, current = self.registry.local, self.current
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
            self._resolved = known if local.is_loaded(known) else None
            self._set_level(self.level)
            self._remark()

    def _wanted_level(self) -> ThinkingLevel:
        return (
            self._workspace.options.thinking
            or self._workspace.settings.default_thinking_level
            or "medium"
        )

    def _remark(self) -> None:
        model = self.current
        if model is None or model.provider not in SERVERS:
            return
        text = self.registry.local.remark(model)
        if text is not None:
            self._workspace.warn(f"Warning: {text}")

    def _named(self, provider: str, model_id: str) -> Model | None:
        registry = self.registry
        builtin = restored_builtin(registry, (provider, model_id))
        if builtin is not None:
            return builtin
        try:
            return registry.find(provider, model_id) or registry.expected(provider, model_id)
        except ConfigError:
            return None

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
        CommandError: the level is unknown.
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
        for feature in self._features.hooks["on_model"]:
            feature.on_model(model, before, source)
        self._set_level(level)

    def _append_model(self, model: Model) -> None:
        self._store(ModelChangeBody(provider=model.provider, model_id=model.id))

    def _store(self, change: EntryBody) -> None:
        # A choice counts also where it cannot be written: it goes along to the next session.
        if self._conversation.session.refusal() is None:
            self._conversation.session.append(change)

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
        self._store(ThinkingLevelChangeBody(thinking_level=level))
        self._conversation.hub.post(ThinkingLevelChanged(level=level))
        for feature in self._features.hooks["on_level"]:
            feature.on_level(level, before)
