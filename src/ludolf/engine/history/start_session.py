"""Which session a start begins with: a new one, the last one, a named one, or a copy."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from ludolf.base import CommandError, ConfigError
from ludolf.config.settings.options import Options
from ludolf.engine.parts import Parts
from ludolf.session.entries import SessionInfo, ThinkingLevelChange
from ludolf.session.finder import move_old_sessions
from ludolf.session.tree import Session, new_session, open_session

Warn = Callable[[str], None]


class Started(msgspec.Struct):
    """The session, and whether it already held a conversation."""

    session: Session
    resumed: bool

    def finish(self, parts: Parts) -> None:
        """Write what a session begins with, now that the model is known."""
        if parts.options.name is not None:
            self.session.append(SessionInfo(name=parts.options.name.strip()))
        if not self.resumed:
            parts.models.record()
        elif parts.session.context.thinking_level is None and not self.session.read_only:
            self.session.append(ThinkingLevelChange(thinking_level=parts.models.level))


def start_session(parts: Parts, warn: Warn) -> Started:
    """Raises:
    ConfigError: flags contradict each other.
    CommandError: the session asked for cannot be found or opened.
    """
    options = parts.options
    _check_flags(options)
    if options.no_session:
        return Started(new_session(parts.place.cwd, None, warn), False)
    _tidy(parts)
    if options.fork is not None:
        return _forked(parts, options.fork, warn)
    path = _existing(parts)
    if path is not None:
        return _opened(parts, path, warn)
    session = new_session(parts.place.cwd, parts.place.folder, warn, session_id=options.session_id)
    return Started(session, False)


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


def _tidy(parts: Parts) -> None:
    named = parts.options.session or parts.options.fork  # as a path it must stay what it is
    if not named and parts.place.folder != parts.home.agent:
        for old, new in move_old_sessions(parts.home.agent):
            parts.warn(f"Moved {old} to {new.parent}, where sessions belong.")


def _existing(parts: Parts) -> Path | None:
    from ludolf.session import finder

    options, place = parts.options, parts.place
    if options.session is not None:
        return finder.find(place, options.session)
    if options.continue_last:
        return finder.latest(place)
    if options.session_id is not None:
        found = finder.find_id(place, options.session_id)
        if found is None:
            parts.warn(f"Warning: no session {options.session_id} in this project; it is created.")
        return found
    return None


def _opened(parts: Parts, path: Path, warn: Warn) -> Started:
    from ludolf.session.finder import check_cwd

    session = open_session(path, parts.place.cwd, warn)
    parts.report_exposure(path)
    cwd = session.header.cwd or parts.place.cwd
    try:
        check_cwd(session.header, path, parts.place.cwd)
        parts.check_folder(cwd, path)
    except CommandError:
        session.close()
        raise
    parts.move_to(cwd)
    return Started(session, len(session.entries()) > 0)


def _forked(parts: Parts, wanted: str, warn: Warn) -> Started:
    from ludolf.session import finder
    from ludolf.session.branching import fork_file

    try:
        source = finder.find(parts.place, wanted)
    except finder.SessionElsewhere as elsewhere:
        source = elsewhere.path
    session = fork_file(source, parts.place.cwd, parts.place.folder, warn)
    return Started(session, True)
