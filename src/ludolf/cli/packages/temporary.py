"""Packages of the command line: install those of `-e npm:…`, and find resources besides code."""

import os
import sys
from collections.abc import Sequence

import msgspec

from ludolf.cli.packages.install import Installer
from ludolf.config.packages.contents import temporary_package
from ludolf.config.packages.origin import is_remote
from ludolf.config.settings.home import Home, env_flag
from ludolf.config.settings.settings import SettingsFiles


class NamedResources(msgspec.Struct, frozen=True):
    """Skills and prompt templates of the packages that `-e` names: sources or paths."""

    skills: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()


def named_resources(home: Home, sources: Sequence[str]) -> NamedResources:
    """Install packages of npm and git that are missing; return the resources of all packages.

    Raises:
        LudolfError: a source is invalid, or cannot be installed.
    """
    remote = tuple(filter(is_remote, sources))
    _install(home, remote)
    local = [temporary_package(home, path) for path in sources if not is_remote(path)]
    listed = [one for one in local if (one.folder / "package.json").is_file()]
    return NamedResources(
        skills=(*remote, *(str(path) for one in listed for path in one.enabled("skills"))),
        prompts=(*remote, *(str(path) for one in listed for path in one.enabled("prompts"))),
    )


def _install(home: Home, sources: Sequence[str]) -> None:
    """Install packages that are not there yet; pinned ones and those of npm are kept."""
    installer = Installer(home, SettingsFiles(home), os.environ)
    for source in sources:
        package = temporary_package(home, source)
        origin = package.entry.origin
        moving = origin.kind == "git" and not origin.pinned and not env_flag("OFFLINE", os.environ)
        if package.missing or package.complaint() is not None or moving:
            sys.stderr.write(f"Installing {source} for this session ...\n")
            installer.fetch(package.entry)
