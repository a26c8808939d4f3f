"""`ludolf install`, `remove`, `update`, `list` and `config`: packages of pi. Also pi's logins."""

import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ludolf.base import CommandError
from ludolf.cli.terminal import say, say_json

if TYPE_CHECKING:
    from ludolf.cli.packages.install import InstalledPackage, Installer
    from ludolf.cli.packages.report import PackageReport
    from ludolf.config.packages.contents import ConfiguredPackages, FoundPackage
    from ludolf.config.packages.places import PackageScope
    from ludolf.config.settings.home import Home
    from ludolf.config.settings.settings import SettingsFiles

NO_UPDATE = (
    "Ludolf does not update itself. Use the program that installed it: `uv tool upgrade ludolf`, "
    "`pipx upgrade ludolf` or `pip install --upgrade`. `ludolf models refresh` fetches new models, "
    "`ludolf update --extensions` updates packages."
)
NONE_INSTALLED = "No packages installed."
_SOURCE = "npm:name[@version], git:host/owner/name[@ref], a URL of git, or a path"


def run_install(words: Sequence[str]) -> int:
    """Run `ludolf install`.

    Raises:
        LudolfError: the package cannot be installed.
    """
    arguments = _install_parser().parse_args(words)
    if arguments.source is None and not (arguments.pi_library or arguments.pi_loader):
        raise CommandError(f"Which package? Name its source: {_SOURCE}.")
    place = _Place(arguments)
    installer = place.installer(scripts=arguments.allow_scripts)
    _install_libraries(installer, arguments)
    if arguments.source is None:
        return 0
    installed = installer.add(arguments.source, place.scope)
    place.keep_trust()
    if installed.package.scripts():
        _load_scripts(installer, installed)
    _show_installed(installed, as_json=arguments.json)
    return 0


def run_remove(words: Sequence[str]) -> int:
    """Run `ludolf remove` and `ludolf uninstall`.

    Raises:
        LudolfError: the package cannot be removed.
    """
    parser = _parser("remove", "Remove a package and its entry in the settings.")
    parser.add_argument("source", metavar="SOURCE", help=_SOURCE)
    _add_local(parser)
    arguments = parser.parse_args(words)
    place = _Place(arguments)
    place.installer().remove(arguments.source, place.scope)
    place.keep_trust()
    if arguments.json:
        say_json({"source": arguments.source, "scope": place.scope, "removed": True})
    else:
        say(f"Removed {arguments.source}.")
    return 0


def run_list(words: Sequence[str]) -> int:
    """Run `ludolf list`.

    Raises:
        LudolfError: there are further words, so that this may be a prompt without quotes.
    """
    if [word for word in words if not word.startswith("-")]:
        raise CommandError(
            "`ludolf list` lists the packages of pi and takes no words. To send a prompt: "
            f'ludolf -p "list {" ".join(words)}"'
        )
    parser = _parser("list", "List the packages of the settings and what they contain.")
    _add_trust(parser)
    arguments = parser.parse_args(words)
    found = _configured(_Place(arguments))
    reports = _reports(found)
    if arguments.json:
        say_json({"packages": reports, "warnings": found.warnings})
        return 0
    if not reports:
        say(NONE_INSTALLED)
    for scope, title in (("user", "User packages:"), ("project", "Project packages:")):
        _show_scope(title, [one for one in reports if one.scope == scope])
    return 0


def run_update(words: Sequence[str]) -> int:
    """Run `ludolf update`: packages, or `--models`; Ludolf itself is updated by other programs.

    Raises:
        LudolfError: the models or a package cannot be fetched, or Ludolf is to be updated.
    """
    if "--models" in words:
        from ludolf.cli.subcommands.models import run_update as refresh

        return refresh(words)
    parser = _parser("update", "Update packages that are not pinned by a version or ref.")
    parser.add_argument("source", nargs="?", metavar="SOURCE", help=_SOURCE)
    parser.add_argument("--extensions", action="store_true", help="update all packages")
    parser.add_argument("--all", action="store_true", help="the same")
    parser.add_argument("--extension", metavar="SOURCE", help="update one package")
    parser.add_argument("--self", action="store_true", help="refused: use your installer")
    parser.add_argument("--force", action="store_true", help="of pi, without effect")
    parser.add_argument("--models", action="store_true", help="fetch new models")
    _add_trust(parser)
    arguments = parser.parse_args(words)
    source = arguments.extension or arguments.source
    every = arguments.extensions or arguments.all
    if arguments.self or (source in (None, "self", "pi") and not every):
        raise CommandError(NO_UPDATE)
    return _update(_Place(arguments), None if every else source, as_json=arguments.json)


def run_config(words: Sequence[str]) -> int:
    """Run `ludolf config`: show or choose which resources of packages load.

    Raises:
        LudolfError: the package or the resource does not exist, or the settings cannot be written.
    """
    from ludolf.cli.packages.choice import choose, show_choices

    parser = _parser("config", "Show or choose which resources of packages load.")
    parser.add_argument("source", nargs="?", metavar="SOURCE", help="a configured package")
    for name in ("enable", "disable"):
        parser.add_argument(
            f"--{name}",
            action="append",
            default=[],
            metavar="RESOURCE",
            help=f"{name} a kind (skills) or a file (skills/review)",
        )
    _add_local(parser)
    arguments = parser.parse_args(words)
    place = _Place(arguments)
    if arguments.source is not None:
        choose(place.home, _configured(place), place.scope, arguments)
        place.keep_trust()
    elif arguments.enable or arguments.disable:
        raise CommandError("--enable and --disable need the source of a package.")
    show_choices(_reports(_configured(place)), as_json=arguments.json)
    return 0


def run_login(words: Sequence[str]) -> int:
    """Run `ludolf auth login`.

    Raises:
        LudolfError: the login failed.
    """
    return _auth("login", words)


def run_logout(words: Sequence[str]) -> int:
    """Run `ludolf auth logout`.

    Raises:
        LudolfError: the credentials cannot be removed.
    """
    return _auth("logout", words)


# ---------------------------------------------------------------- private


class _Place:
    """The folders and settings that a command acts on, and the trust of the project."""

    def __init__(self, arguments: Namespace) -> None:
        from ludolf.config.settings.home import current_folder, find_home
        from ludolf.config.settings.trust import guarded_paths, trust_state

        self.home: Home = find_home(current_folder(), os.environ)
        local = getattr(arguments, "local", False)
        self.scope: PackageScope = "project" if local else "user"
        self._state = trust_state(self.home)
        fresh = self._state == "undecided" and not guarded_paths(self.home)
        self._keeps = self._state == "trusted" or fresh
        given: bool | None = arguments.approve
        self.trusted = given if given is not None else self._keeps
        if local and not self.trusted:
            raise CommandError(
                f"{self.home.cwd} is not trusted. Trust it with `ludolf trust`, or pass --approve."
            )

    def files(self) -> "SettingsFiles":
        from ludolf.config.settings.settings import SettingsFiles

        return SettingsFiles(self.home, trusted=self.trusted)

    def installer(self, *, scripts: bool = False) -> "Installer":
        from ludolf.cli.packages.install import Installer

        return Installer(self.home, self.files(), os.environ, scripts=scripts)

    def keep_trust(self) -> None:
        """Store the trust of a project again after the user changed its packages."""
        if self.scope == "project" and self._keeps:
            from ludolf.config.settings.trust import save_decision

            save_decision(self.home, trusted=True)


def _configured(place: _Place) -> "ConfiguredPackages":
    from ludolf.config.packages.contents import configured_packages

    files = place.files()
    found = configured_packages(place.home, files)
    for text in files.warnings:
        sys.stderr.write(f"Warning: {text}\n")
    return found


def _reports(found: "ConfiguredPackages") -> list["PackageReport"]:
    from ludolf.cli.packages.report import report_package

    return [report_package(package) for package in found.packages]


def _show_scope(title: str, reports: Sequence["PackageReport"]) -> None:
    from ludolf.cli.packages.report import brings, remarks

    if not reports:
        return
    say(title)
    for report in reports:
        content = "not installed" if report.missing else brings(report)
        version = f" {report.version}" if report.version else ""
        say(f"  {report.source}{version}: {content}")
        say(f"    {report.path}")
        for text in remarks(report):
            say(f"    {text}")


def _show_installed(installed: "InstalledPackage", *, as_json: bool) -> None:
    from ludolf.cli.packages.report import brings, remarks, report_package

    report = report_package(installed.package)
    if as_json:
        say_json({"package": report, "skippedScripts": installed.skipped_scripts})
        return
    version = f" {report.version}" if report.version else ""
    say(f"Installed {report.source}{version}: {brings(report)}")
    for text in remarks(report):
        say(f"  {text}")
    if installed.skipped_scripts:
        names = ", ".join(installed.skipped_scripts)
        say(f"  Install scripts of these packages did not run: {names}. Add --allow-scripts.")


def _load_scripts(installer: "Installer", installed: "InstalledPackage") -> None:
    from ludolf.cli.packages.first_load import ensure_loader, load_once

    ensure_loader(installer, os.environ)
    problem = load_once(installer.home, installed.package, os.environ)
    if problem is not None:
        source = installed.package.entry.source
        sys.stderr.write(f"Warning: {source} is installed but does not load:\n{problem}\n")


def _install_libraries(installer: "Installer", arguments: Namespace) -> None:
    from ludolf.cli.packages.install import PI_LIBRARY, PI_LOADER

    for wanted, spec in ((arguments.pi_loader, PI_LOADER), (arguments.pi_library, PI_LIBRARY)):
        if wanted:
            folder = installer.add_library(spec)
            sys.stderr.write(f"Installed {spec} into {folder}.\n")


def _update(place: _Place, source: str | None, *, as_json: bool) -> int:
    updated: dict[str, bool] = {}
    for package in _chosen_packages(place, source):
        updated[package.entry.source] = place.installer().update(package.entry)
        if package.entry.scope == "project":
            place.scope = "project"
    place.keep_trust()
    if as_json:
        say_json({"updated": [one for one in updated if updated[one]]})
    elif not updated:
        say(NONE_INSTALLED)
    for name, done in updated.items() if not as_json else ():
        say(f"{'Updated' if done else 'Pinned, not updated:'} {name}")
    return 0


def _chosen_packages(place: _Place, source: str | None) -> "tuple[FoundPackage, ...]":
    from ludolf.config.packages.origin import identity, parse_origin

    packages = _configured(place).packages
    if source is None:
        return packages
    key = identity(parse_origin(source), place.home.cwd, place.home.user)
    same = tuple(one for one in packages if one.entry.identity(place.home) == key)
    if not same:
        raise CommandError(
            f"No matching package found for {source}. `ludolf list` shows the sources."
        )
    return same


def _install_parser() -> ArgumentParser:
    parser = _parser("install", "Install a package of pi and add it to the settings.")
    parser.add_argument("source", nargs="?", metavar="SOURCE", help=_SOURCE)
    parser.add_argument(
        "--allow-scripts", action="store_true", help="run the install scripts of the packages"
    )
    parser.add_argument(
        "--pi-loader", action="store_true", help="install the loader of TypeScript extensions"
    )
    parser.add_argument(
        "--pi-library", action="store_true", help="install pi as a library for extensions (159 MB)"
    )
    _add_local(parser)
    return parser


def _parser(command: str, description: str) -> ArgumentParser:
    parser = ArgumentParser(prog=f"ludolf {command}", allow_abbrev=False, description=description)
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_local(parser: ArgumentParser) -> None:
    parser.add_argument("-l", "--local", action="store_true", help="of the project: .pi")
    _add_trust(parser)


def _add_trust(parser: ArgumentParser) -> None:
    trust = parser.add_mutually_exclusive_group()
    trust.add_argument("-a", "--approve", action="store_true", default=None, help="trust .pi now")
    trust.add_argument(
        "-na", "--no-approve", action="store_false", dest="approve", help="ignore .pi now"
    )


def _auth(command: str, words: Sequence[str]) -> int:
    from ludolf.cli.subcommands.auth import run as run_auth

    sys.stderr.write(f"Running `ludolf auth {command}`.\n")
    return run_auth([command, *words])
