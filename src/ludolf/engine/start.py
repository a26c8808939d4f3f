"""Choose what an engine starts with: its session, its model and its thinking level."""

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
from msgspec import structs

from ludolf.ai.messages import ThinkingLevel
from ludolf.ai.models import BUILT_IN_PROVIDER
from ludolf.base import CommandError, ConfigError
from ludolf.config.models.registry import LOCAL, ModelRegistry
from ludolf.config.models.selection import (
    ModelChoice,
    ModelPool,
    as_level,
    choose_model,
    default_of,
    initial_model,
    resolve_scope,
    thinking_level,
    unusable_default,
)
from ludolf.config.settings.home import Home, custom_session_dir, find_home
from ludolf.config.settings.options import Options
from ludolf.config.settings.settings import Settings
from ludolf.engine.bundles import Bundles
from ludolf.engine.conversation import Conversation
from ludolf.engine.feature import Feature
from ludolf.engine.models import (
    SCRIPT_VARIABLE,
    Models,
    ScopedModel,
    ensure_builtin,
    fallback,
    restored_builtin,
)
from ludolf.engine.workspace import Workspace
from ludolf.session import finder
from ludolf.session.entries import SessionInfoBody, ThinkingLevelChangeBody
from ludolf.session.store import check_not_held
from ludolf.session.tree import LoadedSession, Session, new_session, open_session

OFFLINE = f"{BUILT_IN_PROVIDER}/offline"

# ---------------------------------------------------------------- session


def home_of(options: Options) -> Home:
    """Return the folders of configuration that the options name."""
    home = find_home(options.cwd, options.environ)
    return structs.replace(home, agent=options.agent_dir) if options.agent_dir else home


def session_place(options: Options, home: Home, settings: Settings) -> finder.SessionFolder:
    """Return where the sessions of a project are stored."""
    folder = custom_session_dir(home, options.environ, settings.session_dir, options.session_dir)
    return finder.SessionFolder(
        agent_dir=home.agent, cwd=str(home.cwd), home=home.user, custom=folder
    )


class StartedSession(msgspec.Struct):
    """The session, and whether it already held a conversation."""

    session: Session
    resumed: bool

    def finish(self, options: Options, models: Models) -> None:
        """Write the first entries, now that the model is known."""
        if options.name is not None:
            self.session.append(SessionInfoBody(name=options.name.strip()))
        if not self.resumed:
            models.record()
        elif self.session.context.thinking_level is None and not self.session.read_only:
            self.session.append(ThinkingLevelChangeBody(thinking_level=models.level))


def start_session(
    bundles: Bundles, enter_folder: Callable[[str], None], loaded: LoadedSession | None = None
) -> StartedSession:
    """Open the session that the options ask for, and enter its folder.

    Raises:
        ConfigError: flags contradict each other.
        CommandError: the session asked for cannot be found or opened.
    """
    workspace, conversation = bundles.workspace, bundles.conversation
    options, place, report = workspace.options, conversation.place, conversation.hub.report
    _check_flags(options)
    if options.no_session:
        return StartedSession(new_session(place.cwd, None, report), False)
    _tidy(workspace, place)
    if options.fork is not None:
        return _forked(conversation, options.fork)
    path = _existing(workspace, place)
    if path is not None:
        started = _opened(bundles, path, loaded)
        enter_folder(started.session.header.cwd or place.cwd)
        return started
    session = new_session(place.cwd, place.folder, report, session_id=options.session_id)
    return StartedSession(session, False)


def _check_flags(options: Options) -> None:
    if options.name is not None and not options.name.strip():
        raise ConfigError("The name of a session must not be empty.")
    others = {
        "--session": options.session is not None,
        "--continue": options.continue_last,
        "--no-session": options.no_session,
    }
    clash = [flag for flag, given in others.items() if given]
    if options.fork is not None and clash:
        raise ConfigError(f"--fork cannot be combined with {', '.join(clash)}")
    clash = [flag for flag in clash if flag != "--no-session"]
    if options.session_id is not None and clash:
        raise ConfigError(f"--session-id cannot be combined with {', '.join(clash)}")
    if options.session_id is not None:
        finder.check_session_id(options.session_id)


def _tidy(workspace: Workspace, place: finder.SessionFolder) -> None:
    options, agent = workspace.options, workspace.home.agent
    is_named = options.session or options.fork  # a path must stay valid
    if not is_named and place.folder != agent:
        for old, new in finder.move_old_sessions(agent):
            workspace.warn(f"Moved {old} to {new.parent}, where sessions belong.")


def _existing(workspace: Workspace, place: finder.SessionFolder) -> Path | None:
    options = workspace.options
    if options.session is not None:
        return finder.find(place, options.session)
    if options.continue_last:
        return finder.latest(place)
    if options.session_id is not None:
        path = finder.find_id(place, options.session_id)
        if path is None:
            text = f"no session {options.session_id} in this project; it is created."
            workspace.warn(f"Warning: {text}")
        return path
    return None


def _opened(bundles: Bundles, path: Path, loaded: LoadedSession | None) -> StartedSession:
    cwd = bundles.conversation.place.cwd
    check_not_held(path)
    session = open_session(path, cwd, bundles.conversation.hub.report, loaded=loaded)
    try:
        finder.check_cwd(session.header, path, cwd)
        bundles.features.check_folder(Path(session.header.cwd or cwd), path)
    except CommandError:
        session.close()
        raise
    return StartedSession(session, len(session.entries()) > 0)


def _forked(conversation: Conversation, wanted: str) -> StartedSession:
    from ludolf.session.branching import fork_file

    place = conversation.place
    try:
        source = finder.find(place, wanted)
    except finder.SessionElsewhere as elsewhere:
        source = elsewhere.path
    session = fork_file(source, place.cwd, place.folder, conversation.hub.report)
    return StartedSession(session, True)


# ---------------------------------------------------------------- model


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
    resumed = started.session.context.model if started.resumed else None
    late: LateModel | None = None
    named: ModelChoice | None = None
    try:
        named = _named_model(options, registry, resumed) or models.access.recorded
    except ConfigError:
        if not _may_come_later(workspace):
            raise
        late = LateModel(options, models)
    ensure_builtin(registry, settings.default_provider or "")
    pool = _model_pool(workspace, registry)
    choice = initial_model(registry, settings, chosen=named, scope=pool, resumed=resumed)
    if choice is not None and named is None:
        builtin = restored_builtin(registry, resumed)
        choice = ModelChoice(model=builtin) if builtin is not None else choice
    models.by_default = choice is None and not workspace.environ.get(SCRIPT_VARIABLE)
    choice = choice or fallback(registry)
    _check_choice(choice, named, workspace, models)
    scoped = [ScopedModel(model=item.model, level=item.level) for item in pool.choices]
    if choice is None:
        models.start_with(None, "off", scoped)
        return late
    by_settings = not (named or late or resumed or pool.choices)
    for text in _remarks(workspace, registry, choice, by_settings=by_settings):
        workspace.warn(f"Warning: {text}")
    if by_settings and not late:
        models.unusable_default = unusable_default(registry, settings)
    models.start_with(choice.model, _level(workspace, models, choice, named, started), scoped)
    models.patterns = _local_patterns(options, settings.enabled_models)
    return late


def report_unusable_default(workspace: Workspace, models: Models, mode: str) -> None:
    """Warn that another model than the default of the settings is used.

    Raises:
        ConfigError: only the offline model is left. A host may still set a model, but the user of
            print or JSON mode would take its answers for those of the default model.
    """
    text, current = models.unusable_default, models.current
    if text is None or current is None:
        return
    if mode not in ("print", "json") or current.key != OFFLINE or not models.by_default:
        workspace.warn(f"Warning: {text} {current.key} is used instead.")
        return
    cause = ""
    if models.registry.errors:
        cause = f" {workspace.home.models_file} has errors: correct them first."
    raise ConfigError(
        f"{text}{cause} No other model has credentials. Set another default with `ludolf models "
        f"default`, or choose a model for this run with --model (`ludolf models` lists them; "
        f"{OFFLINE} is built in)."
    )


def _remarks(
    workspace: Workspace, registry: ModelRegistry, choice: ModelChoice, *, by_settings: bool
) -> Iterator[str]:
    """Yield the warnings for a user who may expect another model."""
    is_builtin, key = choice.model.provider == BUILT_IN_PROVIDER, choice.model.key
    if choice.warning:
        yield choice.warning
    if by_settings and not is_builtin and workspace.environ.get(SCRIPT_VARIABLE):
        yield (
            f"{SCRIPT_VARIABLE} is set, but {key} answers, because it is configured. To play the "
            "script, pass --model ludolf/scripted."
        )
    if is_builtin and workspace.options.record is not None:
        yield f"{key} sends no requests, so --record stores none. Choose another with --model."


def _check_choice(
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
            raise ConfigError("An API key is for one model: name the model too.")
        registry.keyring.use(named.model.provider, workspace.options.api_key)


def _may_come_later(workspace: Workspace) -> bool:
    options, home = workspace.options, workspace.home
    if options.extensions or options.factories:
        return True
    settings = workspace.settings
    listed = settings.extensions or settings.packages
    folders = (home.agent / "extensions", home.project / "extensions")
    return not options.no_extensions and (bool(listed) or any(map(Path.is_dir, folders)))


def _named_model(
    options: Options, registry: ModelRegistry, resumed: tuple[str, str] | None = None
) -> ModelChoice | None:
    """Return the model of `--model`, or the default one of `--provider` alone."""
    if options.model:
        ensure_builtin(registry, options.provider or options.model)
        return choose_model(registry, options.model, options.provider)
    if not options.provider or options.models or options.replay is not None:
        return None
    ensure_builtin(registry, options.provider)
    choice = default_of(registry, options.provider)
    # A continued session keeps its model if that is one of the provider.
    return None if resumed and resumed[0] == choice.model.provider else choice


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
