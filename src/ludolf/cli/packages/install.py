"""Install, update and remove packages in pi's folders, and keep the setting `packages`."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from ludolf.base import CommandError, ConfigError, LudolfError
from ludolf.cli.packages.programs import (
    NpmProgram,
    find_npm,
    git_commit,
    hide_from_git,
    make_npm_project,
    run_git,
    with_install_scripts,
)
from ludolf.config.packages.contents import FoundPackage, find_package
from ludolf.config.packages.entries import PackageEntry, RawEntry, edit_entries, parse_entry
from ludolf.config.packages.origin import PackageOrigin, identity, parse_origin, place_of
from ludolf.config.packages.places import (
    PackageScope,
    base_folder,
    git_root,
    make_private,
    node_folder,
    npm_root,
    package_folder,
    temporary_root,
    wheel_folder,
)
from ludolf.config.settings.home import Home, env_flag
from ludolf.config.settings.settings import SettingsFiles

# The loader of TypeScript that pi uses, and pi itself as a library, at tested versions.
PI_LOADER = "jiti@2.7.0"
PI_LIBRARY = "@earendil-works/pi-coding-agent@0.87.1"


class InstalledPackage(msgspec.Struct, frozen=True, kw_only=True):
    """A package after its installation, and the packages whose scripts did not run."""

    package: FoundPackage
    skipped_scripts: tuple[str, ...] = ()


class Installer:
    """Install and remove packages of one session folder; npm is looked for on first use."""

    def __init__(
        self, home: Home, files: SettingsFiles, environ: Mapping[str, str], *, scripts: bool = False
    ) -> None:
        self.home = home
        self.files = files
        self._environ = environ
        self._scripts = scripts

    def add(self, source: str, scope: PackageScope) -> InstalledPackage:
        """Install a package and enter it into the settings.

        Raises:
            LudolfError: it cannot be installed, or the settings cannot be written.
        """
        entry = parse_entry(_kept_source(source, self.home, scope), scope)
        installed = self.fetch(entry)
        edit_entries(self.home, scope, lambda old: _with_entry(old, entry, self.home))
        return installed

    def remove(self, source: str, scope: PackageScope) -> None:
        """Remove the entry of a package and its files.

        Raises:
            LudolfError: there is no such entry, or it cannot be removed.
        """
        origin = parse_origin(source)
        key = identity(origin, self.home.cwd, self.home.user)
        if not edit_entries(self.home, scope, lambda old: self._without(old, key, scope)):
            where = "the project" if scope == "project" else "the user"
            raise CommandError(f"No matching package found for {source} in the settings of {where}")
        folder = package_folder(self.home, origin, scope)
        if origin.kind == "npm" and folder.exists():
            self._npm().uninstall(origin.name, npm_root(self.home, scope))
        elif origin.kind == "git":
            _remove_tree(folder, git_root(self.home, scope))

    def fetch(self, entry: PackageEntry) -> InstalledPackage:
        """Bring the files of a package to their place; an existing one is replaced.

        Raises:
            LudolfError: the package does not exist, or a program failed.
        """
        skipped: tuple[str, ...] = ()
        match entry.origin.kind:
            case "npm":
                skipped = self._fetch_npm(entry.origin, entry.scope)
            case "git":
                skipped = self._fetch_git(entry.origin, entry.scope)
            case "path" if not entry.folder(self.home).exists():
                raise CommandError(f"Path does not exist: {entry.folder(self.home)}")
        package = find_package(entry, self.home)
        if not package.fits:
            raise CommandError(
                f"npm installed version {package.version} for {entry.source}, which is not in this "
                f"range. Remove {package.folder} and try again."
            )
        return InstalledPackage(package=package, skipped_scripts=skipped)

    def update(self, entry: PackageEntry) -> bool:
        """Update a package unless it is pinned; return whether it was not.

        Raises:
            LudolfError: a program failed.
        """
        origin = entry.origin
        if origin.pinned:
            return False
        if origin.kind == "npm" and origin.version is None:
            latest = msgspec.structs.replace(origin, version="latest")
            self._fetch_npm(latest, entry.scope)
        else:
            self.fetch(entry)
        return True

    def add_library(self, spec: str) -> Path:
        """Install the loader of scripts or pi's library; return the folder.

        Raises:
            LudolfError: it cannot be installed.
        """
        self._check_network(spec)
        prefix = node_folder(self.home)
        make_npm_project(prefix)
        self._npm().install((spec,), prefix, scripts=False)
        return prefix

    # ------------------------------------------------------------ private

    def _npm(self) -> NpmProgram:
        return find_npm(self.files.current.npm_command, self._environ, wheel_folder())

    def _check_network(self, name: str) -> None:
        if env_flag("OFFLINE", self._environ):
            raise CommandError(
                f"{name} is not installed: Ludolf is offline (--offline, PI_OFFLINE)"
            )

    def _fetch_npm(self, origin: PackageOrigin, scope: PackageScope) -> tuple[str, ...]:
        self._check_network(f"npm:{origin.npm_spec}")
        if scope == "temporary":
            make_private(temporary_root(self.home))
        prefix, npm = npm_root(self.home, scope), self._npm()
        make_npm_project(prefix)
        before = with_install_scripts(prefix)
        npm.install((origin.npm_spec,), prefix, scripts=self._scripts)
        return () if self._scripts else tuple(sorted(with_install_scripts(prefix) - before))

    def _fetch_git(self, origin: PackageOrigin, scope: PackageScope) -> tuple[str, ...]:
        self._check_network(f"git:{origin.name}")
        folder = package_folder(self.home, origin, scope)
        if scope == "temporary":
            make_private(temporary_root(self.home))
        else:
            hide_from_git(git_root(self.home, scope))
        if folder.exists():
            self._git_update(origin, folder)
        else:
            self._git_clone(origin, folder, scope)
        return () if self._scripts else tuple(sorted(with_install_scripts(folder)))

    def _git_clone(self, origin: PackageOrigin, folder: Path, scope: PackageScope) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            run_git(
                ("clone", "--quiet", "--", origin.url, str(folder)), folder.parent, self._environ
            )
            if origin.version is not None:
                run_git(("checkout", "--quiet", origin.version, "--"), folder, self._environ)
            self._install_dependencies(folder)
        except LudolfError:
            root = temporary_root(self.home) if scope == "temporary" else git_root(self.home, scope)
            _remove_tree(folder, root)
            raise

    def _git_update(self, origin: PackageOrigin, folder: Path) -> None:
        wanted = origin.version or "HEAD"
        run_git(("fetch", "--quiet", "origin", wanted), folder, self._environ)
        before = git_commit(folder, self._environ)
        after = git_commit(folder, self._environ, "FETCH_HEAD")
        if before != after:
            run_git(("reset", "--quiet", "--hard", after), folder, self._environ)
            run_git(("clean", "--quiet", "-fdx"), folder, self._environ)
        if before != after or not (folder / "node_modules").exists():
            self._install_dependencies(folder)

    def _install_dependencies(self, folder: Path) -> None:
        from ludolf.config.settings.files import read_object

        try:
            manifest = read_object(folder / "package.json")
        except ConfigError:
            return  # pi ignores it too
        if manifest.get("dependencies") or manifest.get("optionalDependencies"):
            self._npm().install_dependencies(folder, scripts=self._scripts)

    def _without(self, old: list[RawEntry], key: str, scope: PackageScope) -> list[RawEntry]:
        return [raw for raw in old if _identity_of(raw, self.home, scope) != key]


def _with_entry(old: list[RawEntry], entry: PackageEntry, home: Home) -> list[RawEntry]:
    """Add an entry, or set the source of that of the same package; its filters stay."""
    key, new = entry.identity(home), list(old)
    for at, raw in enumerate(old):
        if _identity_of(raw, home, entry.scope) == key:
            new[at] = entry.source if isinstance(raw, str) else {**raw, "source": entry.source}
            return new
    return [*new, entry.source]


def edit_entry(home: Home, entry: PackageEntry, change: Callable[[RawEntry], RawEntry]) -> bool:
    """Change the entry of one package in its settings file; return whether it changed.

    Raises:
        ConfigError: the file is invalid or locked, or cannot be written.
    """
    key = entry.identity(home)
    return edit_entries(
        home,
        entry.scope,
        lambda old: [
            change(raw) if _identity_of(raw, home, entry.scope) == key else raw for raw in old
        ],
    )


def _identity_of(raw: RawEntry, home: Home, scope: PackageScope) -> str | None:
    try:
        return parse_entry(raw, scope).identity(home)
    except ConfigError:
        return None


def _kept_source(source: str, home: Home, scope: PackageScope) -> str:
    """Return the source for the settings: a path is relative to the folder of their file."""
    origin = parse_origin(source)
    if origin.kind != "path":
        return source.strip()
    place = place_of(origin.name, home.cwd, home.user)
    relative = os.path.relpath(place, base_folder(home, scope))
    return relative if relative.startswith(".") else f"./{relative}"


def _remove_tree(folder: Path, root: Path) -> None:
    """Remove a folder, and the folders above it that become empty, up to `root`."""
    shutil.rmtree(folder, ignore_errors=True)
    for parent in folder.parents:
        if parent == root or not parent.is_relative_to(root) or any(os.scandir(parent)):
            return
        parent.rmdir()
