"""Install the packages of `-e npm:…`, `-e git:…` and `-e URL` to a temporary place."""

import os
import sys
from collections.abc import Sequence

from ludolf.cli.packages.install import Installer
from ludolf.config.packages.contents import temporary_package
from ludolf.config.settings.home import Home, env_flag
from ludolf.config.settings.settings import SettingsFiles


def install_temporary(home: Home, sources: Sequence[str]) -> None:
    """Install packages that are not there yet; pinned ones and those of npm are kept.

    Raises:
        LudolfError: a source is invalid, or cannot be installed.
    """
    installer = Installer(home, SettingsFiles(home), os.environ)
    for source in sources:
        package = temporary_package(home, source)
        origin = package.entry.origin
        moving = origin.kind == "git" and not origin.pinned and not env_flag("OFFLINE", os.environ)
        if package.missing or package.complaint() is not None or moving:
            sys.stderr.write(f"Installing {source} for this session ...\n")
            installer.fetch(package.entry)
