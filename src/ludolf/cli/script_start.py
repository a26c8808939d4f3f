"""Start Node for script extensions before the modules of the mode are imported."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from ludolf.config.settings.arguments import Arguments
from ludolf.config.settings.home import Home
from ludolf.config.settings.settings import SettingsFiles
from ludolf.extensions.loader import find_extensions

if TYPE_CHECKING:
    from ludolf.engine.bundles import Bundles


def launch_scripts(arguments: Arguments, home: Home) -> "Callable[[Bundles], None] | None":
    """Start the host process if the user has a script extension; return `prepare` for `build`.

    Extensions of the project wait for trust, and in a sandbox the choice of Node depends on it.
    """
    files = SettingsFiles(home)
    if arguments.sandbox is not None or files.user.sandbox is not None or files.doubts:
        return None
    found = find_extensions(
        home,
        files,
        paths=arguments.extensions,
        discover=not arguments.no_extensions,
        scripts=files.current.script_extensions,
    )
    if not any(origin.script for origin in found.origins):
        return None
    from ludolf.engine.features.script_extensions.early import launch_host

    host = launch_host(home, os.environ, files.current.node_command)
    return None if host is None else host.join
