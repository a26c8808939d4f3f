"""Puts the parts of an engine together; the only place that makes parts from settings."""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec import structs

from ludolf.agent.events import MessageEnd
from ludolf.ai.http.transport import Transport
from ludolf.ai.messages import CustomMessage, ThinkingLevel
from ludolf.ai.registry import Providers
from ludolf.base import ConfigError, iso_time
from ludolf.config.auth.keyring import Keyring
from ludolf.config.models.registry import LOCAL, ModelRegistry
from ludolf.config.models.selection import (
    Choice,
    Scope,
    as_level,
    choose_model,
    initial_model,
    resolve_scope,
    thinking_level,
)
from ludolf.config.settings.home import Home, expand, find_home, session_dir_override
from ludolf.config.settings.options import Options
from ludolf.config.settings.settings import SettingsFiles
from ludolf.engine.builtin import SCRIPT_VARIABLE, ensure_builtin, fallback
from ludolf.engine.engine import Engine
from ludolf.engine.features.stream_rules import StreamRules
from ludolf.engine.features.todos import Todos
from ludolf.engine.history.start_session import start_session
from ludolf.engine.hub import Hub, Record
from ludolf.engine.models import ModelState, ScopedModel
from ludolf.engine.parts import Parts
from ludolf.engine.project_trust import read_settings
from ludolf.engine.resources import Resources
from ludolf.engine.run.limits import Limits, Meter
from ludolf.engine.run.message_queue import Waiting
from ludolf.engine.toolbox import Toolbox
from ludolf.protocol.events import Event
from ludolf.session.entries import CustomMessageEntry, MessageBody
from ludolf.session.finder import Place

Warn = Callable[[str], None]


def build(
    options: Options,
    warn: Warn | None = None,
    prepare: Callable[[Parts], None] | None = None,
) -> Engine:
    """An engine as the options and the user's configuration say.

    `prepare` may make models and tools known before the model is chosen.

    Raises:
        ConfigError: it cannot start so; the text says why.
        CommandError: the session asked for cannot be opened.
    """
    warn = warn or warn_on_stderr
    parts = _parts(options, warn)
    if prepare is not None:
        prepare(parts)
    # Before the session, whose file may be of others and names a folder to work in.
    parts.safety = None
    parts.renew_safety()
    try:
        return _engine(parts, warn)
    except BaseException:
        if parts.safety is not None:
            parts.safety.close()
        raise


def _engine(parts: Parts, warn: Warn) -> Engine:
    started = start_session(parts, parts.report)
    parts.session = started.session
    _choose_model(parts, resumed=started.resumed, warn=warn)
    registry = parts.registry
    for text in (*registry.errors, *registry.keyring.warnings, *registry.warnings):
        warn(f"Warning: {text}")
    parts.transport.begin(parts.models.current, parts.models.level)
    started.finish(parts)
    return Engine(parts)


def _parts(options: Options, warn: Warn) -> Parts:
    """Everything but the session and its model."""
    parts = Parts()
    parts.options = options
    parts.home = home = _home(options)
    parts.start = home.cwd
    parts.warn = warn
    parts.settings_files = read_settings(parts)
    for text in parts.settings_files.warnings:
        warn(f"Warning: {text}")
    parts.registry = ModelRegistry(home.models_file, Keyring(home.auth_file))
    parts.registry.local_servers = parts.settings.local_servers
    parts.transport = _transport(parts)
    parts.providers = Providers(parts.transport)
    parts.hub = Hub(recorder(parts))
    parts.report_exposure(home.auth_file)
    modes = (parts.settings.steering_mode, parts.settings.follow_up_mode)
    parts.queue = Waiting(parts.hub, *modes)
    parts.meter = Meter()
    parts.meter.limits = Limits(
        max_turns=options.max_turns, max_tokens=options.max_tokens, max_cost=options.max_cost
    ).check()
    parts.place = _place(home, options, parts.settings_files)
    parts.toolbox = Toolbox(parts)
    parts.resources = Resources(parts)
    parts.todos = Todos(parts)
    parts.rules = StreamRules(parts)
    return parts


def warn_on_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")


def _home(options: Options) -> Home:
    home = find_home(options.cwd)
    return structs.replace(home, agent=options.agent_dir) if options.agent_dir else home


def _transport(parts: Parts) -> Transport:
    o = parts.options
    asked = (o.record, o.replay, o.replay_speed, o.replay_strict or None)
    if all(value is None for value in asked):
        return Transport()
    from ludolf.engine.recording_setup import make_transport

    return make_transport(parts)


def recorder(parts: Parts) -> Record:
    """Return the function that writes the messages of a run into the session."""

    def record(*events: Event) -> None:
        if len(events) > 1:
            with parts.session.together():
                for event in events:
                    record(event)
            return
        (event,) = events
        if isinstance(event, MessageEnd):
            message = event.message
            body = _custom(message) if isinstance(message, CustomMessage) else None
            stamp = iso_time(message.timestamp) if body else None
            parts.session.append(body or MessageBody(message=message), timestamp=stamp)

    return record


def _custom(message: CustomMessage) -> CustomMessageEntry:
    return CustomMessageEntry(
        custom_type=message.custom_type,
        content=message.content,
        display=message.display,
        details=message.details,
    )


def _place(home: Home, options: Options, files: SettingsFiles) -> Place:
    if options.session_dir:
        custom: Path | None = (home.cwd / expand(options.session_dir)).absolute()
    else:
        custom = session_dir_override()
        if custom is None and files.current.session_dir:
            custom = (home.cwd / expand(files.current.session_dir)).absolute()
    return Place(agent_dir=home.agent, cwd=str(home.cwd), custom=custom)


def _choose_model(parts: Parts, *, resumed: bool, warn: Warn) -> None:
    options, settings, registry = parts.options, parts.settings, parts.registry
    context = parts.session.context
    chosen = _asked_now_or_later(parts)
    scope = _scope(options, registry, settings.enabled_models, warn)
    choice = initial_model(
        registry,
        settings,
        chosen=chosen,
        scope=scope,
        resumed=context.model if resumed else None,
    )
    by_default = choice is None and not os.environ.get(SCRIPT_VARIABLE)
    choice = choice or fallback(registry)
    if parts.replayed and choice and not registry.admits(choice.model):
        raise ConfigError(
            f"The recording holds no answers of {choice.model.key}. "
            f"It begins with {parts.replayed.model.key}."
        )
    if options.api_key:
        if chosen is None:
            raise ConfigError("--api-key requires a model to be specified via --model")
        registry.keyring.use(chosen.model.provider, options.api_key)
    scoped = [ScopedModel(model=item.model, level=item.level) for item in scope.choices]
    if choice is None:
        parts.models = ModelState(parts, None, "off", scoped)
        parts.models.by_default = by_default
        return
    if choice.warning:
        warn(f"Warning: {choice.warning}")
    level = _level(parts, choice, chosen, resumed=resumed)
    parts.models = ModelState(parts, choice.model, level, scoped)
    parts.models.by_default = by_default
    parts.models.patterns = _local_patterns(options, settings.enabled_models)


def _asked_now_or_later(parts: Parts) -> Choice | None:
    """The model asked for; one that only an extension may bring is chosen when they are loaded."""
    options = parts.options
    try:
        return _asked_model(options, parts.registry) or parts.replayed
    except ConfigError:
        user_own = (parts.home.agent / "extensions").is_dir() and not options.no_extensions
        if not options.extensions and not user_own:
            raise
    parts.model_later = partial(_choose_later, parts)
    return None


def _choose_later(parts: Parts) -> None:
    choice = _asked_model(parts.options, parts.registry)
    if choice is not None:
        parts.models.set_model(choice.model.provider, choice.model.id)
        level = parts.options.thinking or choice.level
        if level is not None:
            parts.models.set_level(level)


def _asked_model(options: Options, registry: ModelRegistry) -> Choice | None:
    if not options.model:
        return None
    ensure_builtin(registry, options.provider or options.model)
    return choose_model(registry, options.model, options.provider)


def _scope(
    options: Options, registry: ModelRegistry, enabled: tuple[str, ...] | None, warn: Warn
) -> Scope:
    patterns = options.models or enabled or ()
    if not patterns:
        return Scope()
    scope = resolve_scope(patterns, registry.available())
    if _local_patterns(options, enabled):
        # What is on this machine is not known before somebody looks.
        return scope
    for text in scope.warnings:
        warn(f"Warning: {text}")
    return scope


def _local_patterns(options: Options, enabled: tuple[str, ...] | None) -> tuple[str, ...]:
    """The whole scope, if a part of it speaks of models of this machine; else nothing."""
    patterns = options.models or enabled or ()
    local = any(pattern.strip().lower().partition("/")[0] in LOCAL for pattern in patterns)
    return tuple(patterns) if local else ()


def _level(parts: Parts, choice: Choice, chosen: Choice | None, *, resumed: bool) -> ThinkingLevel:
    stored = as_level(parts.session.context.thinking_level or "") if resumed else None
    named = parts.options.thinking or (chosen.level if chosen else None)
    if parts.replayed is not None:
        named = named or parts.replayed.level
    return named or stored or thinking_level(parts.settings, choice, None)


def current_folder() -> Path:
    """The working directory as the user sees it.

    Raises:
        ConfigError: it was removed.
    """
    try:
        return Path(os.getcwd())
    except OSError as error:
        raise ConfigError(f"The working directory is gone: {error.strerror}") from error
