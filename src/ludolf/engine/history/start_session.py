"""Open the first session: a new one, the last one, a named one, or a copy."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from ludolf.base import CommandError, ConfigError
from ludolf.config.settings.options import Options
from ludolf.engine.bundles import Bundles
from ludolf.engine.conversation import Conversation
from ludolf.engine.models import Models
from ludolf.engine.workspace import Workspace
from ludolf.session.entries import SessionInfoBody, ThinkingLevelChangeBody
from ludolf.session.finder import SessionFolder, move_old_sessions
from ludolf.session.tree import Session, new_session, open_session


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


def start_session(bundles: Bundles, enter_folder: Callable[[str], None]) -> StartedSession:
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
        started = _opened(bundles, path)
        enter_folder(started.session.header.cwd or place.cwd)
        return started
    session = new_session(place.cwd, place.folder, report, session_id=options.session_id)
    return StartedSession(session, False)


def _check_flags(options: Options) -> None:
    if options.name is not None and not options.name.strip():
        raise ConfigError("--name requires a non-empty value")
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
        from ludolf.session.finder import check_session_id

        check_session_id(options.session_id)


def _tidy(workspace: Workspace, place: SessionFolder) -> None:
    options, agent = workspace.options, workspace.home.agent
    is_named = options.session or options.fork  # a path must stay valid
    if not is_named and place.folder != agent:
        for old, new in move_old_sessions(agent):
            workspace.warn(f"Moved {old} to {new.parent}, where sessions belong.")


def _existing(workspace: Workspace, place: SessionFolder) -> Path | None:
    from ludolf.session import finder

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


def _opened(bundles: Bundles, path: Path) -> StartedSession:
    from ludolf.session.finder import check_cwd

    cwd = bundles.conversation.place.cwd
    session = open_session(path, cwd, bundles.conversation.hub.report)
    bundles.conversation.report_exposure(path)
    try:
        check_cwd(session.header, path, cwd)
        bundles.features.check_folder(Path(session.header.cwd or cwd), path)
    except CommandError:
        session.close()
        raise
    return StartedSession(session, len(session.entries()) > 0)


def _forked(conversation: Conversation, wanted: str) -> StartedSession:
    from ludolf.session import finder
    from ludolf.session.branching import fork_file

    place = conversation.place
    try:
        source = finder.find(place, wanted)
    except finder.SessionElsewhere as elsewhere:
        source = elsewhere.path
    session = fork_file(source, place.cwd, place.folder, conversation.hub.report)
    return StartedSession(session, True)
