"""Choose the model and thinking level that an engine starts with."""

import os

from ludolf.ai.messages import ThinkingLevel
from ludolf.base import ConfigError
from ludolf.config.models.registry import LOCAL, ModelRegistry
from ludolf.config.models.selection import (
    ModelChoice,
    ModelPool,
    as_level,
    choose_model,
    initial_model,
    resolve_scope,
    thinking_level,
)
from ludolf.config.settings.options import Options
from ludolf.engine.builtin import SCRIPT_VARIABLE, ensure_builtin, fallback
from ludolf.engine.feature import Feature
from ludolf.engine.history.start_session import StartedSession
from ludolf.engine.models import Models, ScopedModel
from ludolf.engine.workspace import Workspace


class LateModel(Feature):
    """Chooses a model that only an extension can provide, once extensions are loaded."""

    def __init__(self, options: Options, models: Models) -> None:
        self._options = options
        self._models = models

    async def start(self) -> None:
        choice = _named_model(self._options, self._models.registry)
        if choice is not None:
            self._models.set_model(choice.model.provider, choice.model.id)
            level = self._options.thinking or choice.level
            if level is not None:
                self._models.set_level(level)


def choose_first_model(
    workspace: Workspace, models: Models, started: StartedSession
) -> LateModel | None:
    """Select the first model; returns a feature if the named one may come from an extension.

    Raises:
        ConfigError: the model asked for does not exist or cannot be used.
    """
    options, settings, registry = workspace.options, workspace.settings, models.registry
    late: LateModel | None = None
    named: ModelChoice | None = None
    try:
        named = _named_model(options, registry) or models.access.recorded
    except ConfigError:
        if not _may_come_later(workspace):
            raise
        late = LateModel(options, models)
    pool = _model_pool(workspace, registry)
    context = started.session.context
    choice = initial_model(
        registry,
        settings,
        chosen=named,
        scope=pool,
        resumed=context.model if started.resumed else None,
    )
    models.by_default = choice is None and not os.environ.get(SCRIPT_VARIABLE)
    choice = choice or fallback(registry)
    _check(choice, named, workspace, models)
    scoped = [ScopedModel(model=item.model, level=item.level) for item in pool.choices]
    if choice is None:
        models.start_with(None, "off", scoped)
        return late
    if choice.warning:
        workspace.warn(f"Warning: {choice.warning}")
    models.start_with(choice.model, _level(workspace, models, choice, named, started), scoped)
    models.patterns = _local_patterns(options, settings.enabled_models)
    return late


def _check(
    choice: ModelChoice | None, named: ModelChoice | None, workspace: Workspace, models: Models
) -> None:
    recorded, registry = models.access.recorded, models.registry
    if recorded and choice and not registry.admits(choice.model):
        raise ConfigError(
            f"The recording has no answers of {choice.model.key}. "
            f"It begins with {recorded.model.key}."
        )
    if workspace.options.api_key:
        if named is None:
            raise ConfigError("--api-key requires a model to be specified via --model")
        registry.keyring.use(named.model.provider, workspace.options.api_key)


def _may_come_later(workspace: Workspace) -> bool:
    options = workspace.options
    has_own = (workspace.home.agent / "extensions").is_dir() and not options.no_extensions
    return bool(options.extensions) or has_own


def _named_model(options: Options, registry: ModelRegistry) -> ModelChoice | None:
    if not options.model:
        return None
    ensure_builtin(registry, options.provider or options.model)
    return choose_model(registry, options.model, options.provider)


def _model_pool(workspace: Workspace, registry: ModelRegistry) -> ModelPool:
    """Return the models that cycling goes through."""
    options, enabled = workspace.options, workspace.settings.enabled_models
    patterns = options.models or enabled or ()
    if not patterns:
        return ModelPool()
    pool = resolve_scope(patterns, registry.available())
    if not _local_patterns(options, enabled):  # local models are found later
        for text in pool.warnings:
            workspace.warn(f"Warning: {text}")
    return pool


def _local_patterns(options: Options, enabled: tuple[str, ...] | None) -> tuple[str, ...]:
    """Return all patterns if one of them names local models, else none."""
    patterns = options.models or enabled or ()
    has_local = any(pattern.strip().lower().partition("/")[0] in LOCAL for pattern in patterns)
    return tuple(patterns) if has_local else ()


def _level(
    workspace: Workspace,
    models: Models,
    choice: ModelChoice,
    named: ModelChoice | None,
    started: StartedSession,
) -> ThinkingLevel:
    level = workspace.options.thinking or (named.level if named else None)
    if models.access.recorded is not None:
        level = level or models.access.recorded.level
    stored = started.session.context.thinking_level if started.resumed else None
    return level or as_level(stored or "") or thinking_level(workspace.settings, choice, None)
