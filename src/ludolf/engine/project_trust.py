"""Trust in the project that an engine works in: decided for each folder, checked at each load."""

import os
from typing import TYPE_CHECKING

from ludolf.base import ConfigError
from ludolf.config.settings.home import find_home
from ludolf.config.settings.settings import SettingsFiles

if TYPE_CHECKING:
    from ludolf.engine.parts import Parts

CHANGED = (
    "The code of {folder} has changed since it was trusted: its settings and resources are no "
    "longer used. Look at it, then trust it again."
)


def read_settings(parts: "Parts") -> SettingsFiles:
    """The settings given, else the user's, and the project's if the present folder is trusted."""
    home, options = parts.home, parts.options
    # `--approve` is about the folder of the start, not about one that a session file names.
    moved = home.cwd != find_home(options.cwd).cwd
    flag = None if moved and options.approve else options.approve
    parts.seal, parts.distrust = None, None
    if options.settings is not None:
        return SettingsFiles(home, trusted=bool(flag), given=options.settings)
    files = SettingsFiles(home)
    if home.project.exists() or flag is not None:
        from ludolf.config.settings.trust import decide_trust

        verdict = decide_trust(home, flag=flag, default=files.current.default_project_trust)
        parts.distrust = verdict.notice
        if verdict.notice:
            parts.warn(f"Warning: {verdict.notice}")
        if verdict.trusted:
            return SettingsFiles(home, trusted=True)
    elif os.path.isfile(home.trust_file):
        from ludolf.config.settings.trust import decide_trust

        # Stores that the folder has no code, so that code that appears later is not trusted.
        decide_trust(home)
    return files


def verify_code(parts: "Parts") -> None:
    """Stop using the project if its code differs from the code that was trusted.

    The first call for a folder keeps a digest, and later calls compare. Trust for the whole process
    (`--approve`, `defaultProjectTrust`) covers changes, unless commands are in a sandbox.
    """
    files = parts.settings_files
    always = parts.options.approve or files.user.default_project_trust == "always"
    if not files.trusted or (always and not _in_sandbox(parts)):
        return
    from ludolf.config.settings.trust_digest import digest

    try:
        now = digest(parts.home)
    except ConfigError as error:
        text = f"{parts.home.cwd} is not trusted, since its code cannot be checked: {error}"
        stop_trusting(parts, text)
        return
    if parts.seal is None:
        parts.seal = now
    elif parts.seal != now:
        stop_trusting(parts, CHANGED.format(folder=parts.home.cwd))


def stop_trusting(parts: "Parts", reason: str) -> None:
    """Use nothing of the project from now on in this process, and report the reason."""
    given = parts.settings_files.given
    parts.settings_files = SettingsFiles(parts.home, trusted=False, given=given)
    parts.seal, parts.distrust = None, reason
    parts.resources.forget()
    parts.warn(f"Warning: {reason}")
    parts.hub.report(reason)


def keep_imports(parts: "Parts") -> None:
    """Store which files the extensions of a trusted project imported, so that changes count."""
    if not parts.settings_files.trusted or parts.options.approve or parts.settings_files.given:
        return
    from ludolf.config.settings.trust import add_imports
    from ludolf.extensions.sources import imported_files

    try:
        add_imports(parts.home, sorted(imported_files()))
    except (ConfigError, OSError) as error:
        parts.report(f"Changes of what extensions import will not be noticed: {error}")


def _in_sandbox(parts: "Parts") -> bool:
    return parts.safety is not None and parts.safety.sandbox is not None
