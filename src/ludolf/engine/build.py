"""Build an engine from options and settings."""

import sys
from collections.abc import Callable
from typing import Any

from ludolf.ai.http.transport import Transport
from ludolf.ai.registry import Providers
from ludolf.base import ConfigError, Warn
from ludolf.config.auth.keyring import Keyring
from ludolf.config.models.registry import ModelRegistry
from ludolf.config.settings.home import (
    asks_for_telemetry,
    has_rules,
    mcp_files_exist,
)
from ludolf.config.settings.options import Options
from ludolf.engine.bundles import Bundles
from ludolf.engine.conversation import Conversation, Meter
from ludolf.engine.engine import Engine, Plugs
from ludolf.engine.feature import Features
from ludolf.engine.features.extensions import LazyExtensions
from ludolf.engine.models import ModelAccess, Models
from ludolf.engine.project_trust import enter_folder, read_settings
from ludolf.engine.resources import Resources
from ludolf.engine.start import choose_first_model, home_of, session_place, start_session
from ludolf.engine.toolset import Toolset
from ludolf.engine.workspace import Workspace
from ludolf.protocol.results import Limits
from ludolf.session.tree import LoadedSession


def build(
    options: Options,
    warn: Warn | None = None,
    prepare: Callable[[Bundles], None] | None = None,
    loaded: LoadedSession | None = None,
) -> Engine:
    """Build an engine as the options and the user's configuration say.

    `prepare` may register models and tools before the model is chosen. `loaded` is the file that
    `options.session` names, read by `load_session` in a thread, so that a large file does not block
    the event loop.

    Raises:
        ConfigError: the configuration cannot be used; the text says why.
        CommandError: the session asked for cannot be opened.
    """
    features = Features()
    workspace = _workspace(options, warn or warn_on_stderr)
    conversation = _conversation(workspace, features)
    models = Models(_model_access(workspace, conversation), workspace, conversation, features)
    toolset = Toolset(workspace, conversation, models, features)
    resources = Resources(workspace, toolset, conversation.hub, features)
    bundles = Bundles(workspace, conversation, models, toolset, resources, features)
    if prepare is not None:
        prepare(bundles)
    # Before the session, whose file may come from others and names a folder to work in.
    refresh(bundles)
    try:
        return _start(bundles, loaded)
    except BaseException:
        _release_safety(features)
        raise


def _start(bundles: Bundles, loaded: LoadedSession | None) -> Engine:
    """Open the session, choose the model and plug in the features."""
    workspace, models, features = bundles.workspace, bundles.models, bundles.features
    started = start_session(bundles, lambda cwd: enter_folder(bundles, cwd, refresh), loaded)
    bundles.conversation.replace(started.session)
    registry = models.registry
    # Before the choice, which may fail because of them.
    early = (*registry.errors, *registry.warnings)
    for text in early:
        workspace.warn(f"Warning: {text}")
    late_model = choose_first_model(workspace, models, started)
    for text in (*registry.keyring.warnings, *registry.warnings):
        if text not in early:
            workspace.warn(f"Warning: {text}")
    models.transport.begin(models.current, models.level)
    started.finish(workspace.options, models)
    engine = Engine(bundles, _PLUGS)
    features.add(LazyExtensions(engine), outermost=True)
    if late_model is not None:
        features.add(late_model)
    return engine


def refresh(bundles: Bundles) -> None:
    """Add the features that the settings ask for, and apply their settings.

    Raises:
        ConfigError: settings cannot be read or used; the features stay as they were.
    """
    for doubt in bundles.workspace.files.doubts:
        raise ConfigError(doubt)
    _refresh_telemetry(bundles)
    _refresh_rules(bundles)
    _refresh_mcp(bundles)
    if _asks_for_safety(bundles.workspace):
        from ludolf.engine.features.safety import refresh_safety

        refresh_safety(bundles)
    if (gate := bundles.workspace.options.gate) is not None:
        from ludolf.engine.features.request_gate import refresh_gate

        refresh_gate(bundles, gate)


def warn_on_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")


# ---------------------------------------------------------------- bundles


def _workspace(options: Options, warn: Warn) -> Workspace:
    workspace = Workspace(options, home_of(options), warn)
    read_settings(workspace)
    files = workspace.files
    for text in (*files.warnings, *files.remarks, *workspace.package_warnings()):
        warn(f"Warning: {text}")
    return workspace


def _conversation(workspace: Workspace, features: Features) -> Conversation:
    options, settings, home = workspace.options, workspace.settings, workspace.home
    meter = Meter()
    meter.limits = Limits(
        max_turns=options.max_turns, max_tokens=options.max_tokens, max_cost=options.max_cost
    ).check()
    place = session_place(options, home, settings)
    modes = (settings.steering_mode, settings.follow_up_mode)
    conversation = Conversation(workspace, place, features, meter, modes)
    conversation.report_exposure(home.auth_file)
    return conversation


def _model_access(workspace: Workspace, conversation: Conversation) -> ModelAccess:
    home, options = workspace.home, workspace.options
    registry = ModelRegistry(home.models_file, Keyring(home.auth_file, workspace.environ))
    registry.local_servers = workspace.settings.local_servers
    traffic = (options.record, options.replay, options.replay_speed, options.replay_strict or None)
    if all(value is None for value in traffic):
        transport = Transport(workspace.environ)
        return ModelAccess(registry, transport, Providers(transport))
    from ludolf.engine.recording_setup import make_access

    return make_access(workspace, registry, conversation.hub)


# ---------------------------------------------------------------- features


def _refresh_telemetry(bundles: Bundles) -> None:
    workspace = bundles.workspace
    chosen = workspace.settings.telemetry
    if asks_for_telemetry(workspace.options, enabled=chosen.enabled, endpoint=chosen.endpoint):
        from ludolf.engine.features.telemetry.feature import Telemetry

        if bundles.features.find(Telemetry) is None:
            bundles.features.add(Telemetry(bundles))


def _refresh_rules(bundles: Bundles) -> None:
    if has_rules(bundles.workspace.home):
        from ludolf.engine.features.stream_rules import StreamRules

        if bundles.features.find(StreamRules) is None:
            bundles.features.add(StreamRules(bundles))


def _refresh_mcp(bundles: Bundles) -> None:
    if mcp_files_exist(bundles.workspace.home, bundles.workspace.options):
        from ludolf.engine.features.mcp.feature import McpFeature

        if bundles.features.find(McpFeature) is None:
            bundles.features.add(McpFeature(bundles))


def _release_safety(features: Features) -> None:
    from ludolf.engine.features.safety import Safety

    safety = features.find(Safety)
    if safety is not None:
        safety.release()


def _asks_for_safety(workspace: Workspace) -> bool:
    options, files = workspace.options, workspace.files
    asked: list[Any] = [options.approval, options.sandbox, options.sandbox_network]
    asked += [options.default_approval, options.mask_secrets or None]
    for settings in (files.user, files.project):
        asked += [settings.approval, settings.sandbox, settings.secrets]
    return any(value is not None for value in asked)


def _offer_subagents(engine: Engine) -> None:
    from ludolf.engine.features.subagents.tool import offer_subagents

    offer_subagents(engine)


def _spawn(parent: Engine, task: Any) -> Engine:
    from ludolf.engine.spawn import spawn

    return spawn(parent, task, _PLUGS)


_PLUGS = Plugs(spawn=_spawn, offer_subagents=_offer_subagents, refresh=refresh)
