"""Trust in the project that an engine works in: decided for each folder, checked at each load."""

import os
from collections.abc import Callable
from pathlib import Path

from ludolf.base import ConfigError
from ludolf.config.settings.settings import SettingsFiles
from ludolf.engine.bundles import Bundles
from ludolf.engine.workspace import Workspace

CHANGED = (
    "The code of {folder} has changed since it was trusted: its settings and resources are not "
    "used any more. Look at it, then trust it again with `ludolf trust`."
)
NOT_APPLIED = "Safety settings were not applied; the previous ones stay in effect: {error}"


def read_settings(workspace: Workspace) -> None:
    """Read the settings given, else the user's, and the project's if its folder is trusted."""
    home, options = workspace.home, workspace.options
    # `--approve` is about the folder of the start, not about one that a session file names.
    flag = None if home.cwd != workspace.start and options.approve else options.approve
    workspace.seal, workspace.distrust = None, None
    if options.settings is not None:
        workspace.files = SettingsFiles(home, trusted=bool(flag), given=options.settings)
        return
    workspace.files = SettingsFiles(home)
    if home.project.exists() or home.shared_mcp_file.exists() or flag is not None:
        from ludolf.config.settings.trust import decide_trust

        default = workspace.files.current.default_project_trust
        verdict = decide_trust(home, flag=flag, default=default)
        workspace.distrust = verdict.notice
        if verdict.notice:
            workspace.warn(f"Warning: {verdict.notice}")
        if verdict.trusted:
            workspace.files = SettingsFiles(home, trusted=True)
    elif os.path.isfile(home.trust_file):
        from ludolf.config.settings.trust import decide_trust

        # Stores that the folder has no code, so that code that appears later is not trusted.
        decide_trust(home)


def enter_folder(bundles: Bundles, cwd: str, refresh: Callable[[Bundles], None]) -> None:
    """Work in the folder of a session from now on, with the settings of that folder."""
    workspace = bundles.workspace
    if Path(cwd) == workspace.cwd:
        return
    bundles.conversation.move_to(cwd)
    read_settings(workspace)
    bundles.resources.invalidate()
    try:
        refresh(bundles)
    except ConfigError as error:
        workspace.use_project(trusted=False)
        workspace.distrust = NOT_APPLIED.format(error=error)
    report_distrust(bundles)


def report_distrust(bundles: Bundles) -> None:
    """Report to the host once why the project's settings are not used; stderr has it already."""
    workspace = bundles.workspace
    if workspace.distrust is not None and not workspace.files.trusted:
        bundles.conversation.hub.notify(workspace.distrust)
    workspace.distrust = None


def verify_code(bundles: Bundles) -> None:
    """Stop using the project if its code differs from the code that was trusted.

    The first call for a folder keeps a digest, and later calls compare. Trust for the whole process
    (`--approve`, `defaultProjectTrust`) covers changes, unless commands are in a sandbox.
    """
    workspace = bundles.workspace
    files, cwd = workspace.files, workspace.cwd
    always = workspace.options.approve or files.user.default_project_trust == "always"
    if not files.trusted or (always and not bundles.features.writable(cwd)):
        return
    from ludolf.config.settings.executed import digest

    try:
        now = digest(workspace.home)
    except ConfigError as error:
        text = f"{cwd} is not trusted, since its code cannot be checked: {error}"
        stop_trusting(bundles, text)
        return
    if workspace.seal is None:
        workspace.seal = now
    elif workspace.seal != now:
        stop_trusting(bundles, CHANGED.format(folder=cwd))


def stop_trusting(bundles: Bundles, reason: str) -> None:
    """Use nothing of the project from now on in this process, and report the reason."""
    bundles.workspace.use_project(trusted=False)
    bundles.workspace.distrust = reason
    bundles.resources.invalidate()
    bundles.workspace.warn(f"Warning: {reason}")
    bundles.conversation.hub.notify(reason)


def keep_imports(bundles: Bundles) -> None:
    """Store which files the extensions of a trusted project imported, so that changes count."""
    workspace = bundles.workspace
    if not workspace.files.trusted or workspace.options.approve or workspace.files.given:
        return
    from ludolf.config.settings.trust import add_imports
    from ludolf.extensions.sources import imported_files

    try:
        add_imports(workspace.home, sorted(imported_files()))
    except (ConfigError, OSError) as error:
        text = f"Changes of what extensions import will not be noticed: {error}"
        bundles.conversation.hub.report(text)
