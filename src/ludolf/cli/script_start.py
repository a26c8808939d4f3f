"""Start Node for script extensions before the modules of the mode are imported."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ludolf.config.settings.arguments import Arguments
from ludolf.config.settings.home import Home
from ludolf.config.settings.settings import SettingsFiles
from ludolf.extensions.loader import SCRIPT_SUFFIXES, find_extensions

if TYPE_CHECKING:
    from ludolf.engine.bundles import Bundles


def launch_scripts(arguments: Arguments, home: Home) -> "Callable[[Bundles], None] | None":
    """Start the host process if the user has a script extension; return `prepare` for `build`.

    Extensions of the project wait for trust, and in a sandbox the choice of Node depends on it.
    """
    files = SettingsFiles(home)
    if arguments.sandbox is not None or files.user.sandbox is not None or files.doubts:
        return None
    if not files.current.script_extensions or not _has_script(arguments, home, files):
        return None
    from ludolf.engine.features.script_extensions.early import launch_host

    host = launch_host(home, os.environ, files.current.node_command)
    return None if host is None else host.join


def _has_script(arguments: Arguments, home: Home, files: SettingsFiles) -> bool:
    named = (home.cwd / home.expand(path) for path in arguments.extensions)
    if any(path.suffix in SCRIPT_SUFFIXES and path.is_file() for path in named):
        return True  # without a look at the others, which are read later in any case
    discover = not arguments.no_extensions
    found = find_extensions(home, files, paths=arguments.extensions, discover=discover)
    return any(origin.script for origin in found.origins)
