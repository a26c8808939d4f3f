"""The resources of all configured packages, read without Node."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from ludolf.base.project_files import IsHidden, Reader
from ludolf.config.packages.entries import (
    PackageEntry,
    configured_entries,
    in_effect,
    parse_entry,
)
from ludolf.config.packages.filters import changed, chosen
from ludolf.config.packages.global_npm import global_package
from ludolf.config.packages.manifest import KINDS, SCRIPTS, PackageFiles, PackageKind
from ludolf.config.packages.version_ranges import satisfies
from ludolf.config.settings.home import OWN, Home, reader_for_named
from ludolf.config.settings.settings import SettingsFiles


class PackageFile(msgspec.Struct, frozen=True):
    """A file of a package, and whether the filters load it."""

    path: Path
    enabled: bool = True


class FoundPackage(msgspec.Struct, frozen=True, kw_only=True):
    """A configured package; `files` is empty if it is not installed."""

    entry: PackageEntry
    folder: Path
    reader: Reader = OWN
    version: str | None = None
    description: str | None = None
    files: dict[PackageKind, tuple[PackageFile, ...]] = {}

    @property
    def missing(self) -> bool:
        return not os.path.exists(self.folder)

    @property
    def base_dir(self) -> Path:
        return self.folder.parent if os.path.isfile(self.folder) else self.folder

    def enabled(self, kind: PackageKind) -> list[Path]:
        return [file.path for file in self.files.get(kind, ()) if file.enabled]

    def scripts(self) -> list[Path]:
        """Return the enabled extensions that need Node."""
        paths = self.enabled("extensions")
        return [path for path in paths if path.suffix in SCRIPTS or os.path.isdir(path)]

    def complaint(self) -> str | None:
        """Return what is wrong with the installation and the command that corrects it."""
        source, origin = self.entry.source, self.entry.origin
        local = " -l" if self.entry.scope == "project" else ""
        if self.missing and origin.kind == "path":
            return f"Package {source} is missing: {self.folder} does not exist"
        if self.missing:
            return f"Package {source} is not installed. Run: ludolf install {source}{local}"
        if not self.fits:
            return (
                f"Package {source} is installed as version {self.version}. Run: "
                f"ludolf install {source}{local}"
            )
        return None

    @property
    def fits(self) -> bool:
        """Whether the installed version is one that the entry asks for, as far as is known."""
        origin = self.entry.origin
        if origin.kind != "npm" or origin.version is None or self.version is None:
            return True
        return satisfies(self.version, origin.version) is not False


class ConfiguredPackages(msgspec.Struct, frozen=True):
    """All packages in order of precedence, and a text for each that is missing or invalid."""

    packages: tuple[FoundPackage, ...] = ()
    warnings: tuple[str, ...] = ()


def configured_packages(
    home: Home, files: SettingsFiles, is_hidden: IsHidden | None = None
) -> ConfiguredPackages:
    """Return the packages that a session here uses: those of the trusted project first."""
    found = configured_entries(files)
    entries = in_effect(found.entries, home)
    # Not that of the project, which may not be trusted yet.
    npm = files.user.npm_command or ()
    packages = tuple(
        find_package(entry, home, folder=_place(entry, entries, home, npm), is_hidden=is_hidden)
        for entry in entries
    )
    complaints = [text for one in packages if (text := one.complaint()) is not None]
    return ConfiguredPackages(packages, (*found.errors, *dict.fromkeys(complaints)))


def temporary_package(home: Home, source: str) -> FoundPackage:
    """Return a package of the command line, which may be missing.

    Raises:
        ConfigError: the source is invalid.
    """
    return find_package(parse_entry(source, "temporary"), home)


def resource_files(
    packages: Iterable[FoundPackage], kind: PackageKind
) -> Iterator[tuple[Path, FoundPackage]]:
    """Yield the enabled files of a kind; the first package that lists a file decides about it."""
    seen: set[str] = set()
    for package in packages:
        for file in package.files.get(kind, ()):
            real = os.path.realpath(file.path)
            if real not in seen:
                seen.add(real)
                if file.enabled:
                    yield file.path, package


def find_package(
    entry: PackageEntry,
    home: Home,
    *,
    folder: Path | None = None,
    is_hidden: IsHidden | None = None,
) -> FoundPackage:
    """Read one package; `folder` is where it is if not at the place of its entry."""
    place = entry.folder(home) if folder is None else folder
    reader = _reader(entry, place, home, is_hidden)
    if os.path.isfile(place):
        files: dict[PackageKind, tuple[PackageFile, ...]] = {"extensions": (PackageFile(place),)}
        return FoundPackage(entry=entry, folder=place, reader=reader, files=files)
    content = PackageFiles(place, reader)
    return FoundPackage(
        entry=entry,
        folder=place,
        reader=reader,
        version=content.manifest.version,
        description=content.manifest.description,
        files=_files(entry, content) if os.path.isdir(place) else {},
    )


def _place(
    entry: PackageEntry, entries: Iterable[PackageEntry], home: Home, npm: Sequence[str]
) -> Path | None:
    """Return where the files of an entry are, if not at its own place.

    An entry that only filters takes the files of the user's package. A package of the user that is
    missing may be installed globally.
    """
    if entry.scope == "project" and not entry.autoload:
        same = (one for one in entries if one.scope == "user")
        base = [one for one in same if one.identity(home) == entry.identity(home)]
        return (_place(base[0], (), home, npm) or base[0].folder(home)) if base else None
    is_missing = entry.origin.kind == "npm" and not os.path.exists(entry.folder(home))
    if entry.scope == "user" and is_missing:
        return global_package(entry.origin.name, npm, home.cwd)
    return None


def _files(
    entry: PackageEntry, content: PackageFiles
) -> dict[PackageKind, tuple[PackageFile, ...]]:
    if entry.filters is None:
        files = {kind: _all(content.listed(kind, conventional=False)) for kind in KINDS}
        if entry.origin.kind == "path" and not content.exist():
            files["extensions"] = (PackageFile(content.folder),)
        return files
    return {kind: _filtered(entry, content, kind) for kind in KINDS}


def _filtered(
    entry: PackageEntry, content: PackageFiles, kind: PackageKind
) -> tuple[PackageFile, ...]:
    files, patterns = content.listed(kind, conventional=True), (entry.filters or {}).get(kind)
    if not entry.autoload:
        states = changed(files, patterns or (), content.folder)
        return tuple(PackageFile(path, enabled) for path, enabled in states.items())
    if patterns is None:
        return _all(files)
    kept = set(chosen(files, patterns, content.folder)) if patterns else set()
    return tuple(PackageFile(path, path in kept) for path in files)


def _all(files: Iterable[Path]) -> tuple[PackageFile, ...]:
    return tuple(PackageFile(path) for path in files)


def _reader(entry: PackageEntry, folder: Path, home: Home, is_hidden: IsHidden | None) -> Reader:
    """Return the reader: files of npm and git come from others and must not link elsewhere."""
    hidden = is_hidden if entry.scope == "project" else None
    match entry.origin.kind:
        case "npm":
            # Resources may be those of a dependency, which npm places next to the package.
            modules = folder.parents[entry.origin.name.count("/")]
            return Reader(within=modules, is_hidden=hidden)
        case "git":
            return Reader(within=folder, is_hidden=hidden)
        case "path" if entry.scope == "project":
            return reader_for_named(home, folder, hidden, outside=Reader(is_hidden=hidden))
        case "path":
            return OWN
