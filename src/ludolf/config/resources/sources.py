"""Find the files and folders of skills, templates and extensions."""

import os
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

import msgspec

from ludolf.base import Value
from ludolf.base.project_files import IsHidden, Reader
from ludolf.config.packages.origin import is_remote
from ludolf.config.settings.home import (
    OWN,
    Home,
    project_agents_skills,
    reader_for_named,
)
from ludolf.config.settings.settings import SettingsFiles

if TYPE_CHECKING:
    from ludolf.config.packages.contents import FoundPackage

ResourceKind = Literal["skills", "prompts", "extensions"]
ScopeName = Literal["user", "project", "temporary"]
# Maximum matches of one list entry in the settings.
MOST_MATCHES = 1000
_GLOB = frozenset("*?[")


class SourceDetails(Value, kw_only=True):
    """The source of a command, as sent to hosts.

    `source` is `auto`, `local`, `cli`, or that of a package, such as `npm:name`.
    """

    path: str
    source: str
    scope: ScopeName
    origin: Literal["top-level", "package"]
    base_dir: str | None = None

    @property
    def location(self) -> Literal["user", "project", "path"]:
        # Named on the command line or in settings of any scope.
        named = self.source != "auto" and self.origin != "package"
        if named or self.scope == "temporary":
            return "path"
        return "project" if self.scope == "project" else "user"


class ResourceCommandItem(Value, kw_only=True):
    """One item of `get_commands`."""

    name: str
    description: str | None = None
    source: Literal["prompt", "skill"]
    source_info: SourceDetails
    path: str
    location: Literal["user", "project", "path"]


class Picks(msgspec.Struct, frozen=True, kw_only=True):
    """Filters in a settings list: `!glob` and `-path` exclude, `+path` includes."""

    base: Path
    excluded: tuple[str, ...] = ()
    forced_in: tuple[Path, ...] = ()
    forced_out: tuple[Path, ...] = ()

    def allow(self, path: Path) -> bool:
        """Return whether a file passes; a skill may be named by its file or its directory."""
        names = (path, path.parent) if path.name == "SKILL.md" else (path,)
        if any(name in self.forced_out for name in names):
            return False
        if any(name in self.forced_in for name in names):
            return True
        return not any(self._matches(name, glob) for name in names for glob in self.excluded)

    def _matches(self, path: Path, glob: str) -> bool:
        from fnmatch import fnmatchcase

        inside = path.relative_to(self.base).as_posix() if self.base in path.parents else ""
        return any(fnmatchcase(text, glob) for text in (inside, path.name, path.as_posix()))


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A file or directory to load from."""

    path: Path
    scope: ScopeName
    source: str
    origin: Literal["top-level", "package"] = "top-level"
    base_dir: Path | None = None
    picks: Picks | None = None
    reader: Reader = OWN

    def info(self, path: Path) -> SourceDetails:
        """Return the wire form for a file of this source."""
        return SourceDetails(
            path=str(path),
            source=self.source,
            scope=self.scope,
            origin=self.origin,
            base_dir=str(self.base_dir) if self.base_dir is not None else None,
        )

    def allow(self, path: Path) -> bool:
        return self.picks is None or self.picks.allow(path)


class Resource(msgspec.Struct, frozen=True, kw_only=True):
    """A skill or a template."""

    name: str
    description: str
    path: Path
    info: SourceDetails


T = TypeVar("T")
AnyResource = TypeVar("AnyResource", bound=Resource)


class LoadedItems(msgspec.Struct, Generic[T], frozen=True):
    """What was loaded, and reports of files that cannot be used."""

    items: tuple[T, ...] = ()
    warnings: tuple[str, ...] = ()


def keep_first(
    items: Iterable[AnyResource | None], warnings: list[str]
) -> LoadedItems[AnyResource]:
    """Collect the first item of each name in the order of `get_commands`: named paths last.

    `warnings` may grow while the items are loaded.
    """
    first: dict[str, AnyResource] = {}
    for item in filter(None, items):
        winner = first.setdefault(item.name, item)
        if winner is not item:
            warnings.append(f'{item.path}: the name "{item.name}" is taken by {winner.path}')
    ordered = sorted(first.values(), key=lambda one: one.info.scope == "temporary")
    return LoadedItems(tuple(ordered), tuple(warnings))


def command_items(
    resources: Iterable[Resource], source: Literal["prompt", "skill"]
) -> tuple[ResourceCommandItem, ...]:
    """Return templates or skills as items of `get_commands`."""
    prefix = "skill:" if source == "skill" else ""
    return tuple(
        ResourceCommandItem(
            name=f"{prefix}{one.name}",
            description=one.description,
            source=source,
            source_info=one.info,
            path=one.info.path,
            location=one.info.location,
        )
        for one in resources
    )


def find_sources(
    kind: ResourceKind,
    home: Home,
    files: SettingsFiles,
    *,
    paths: Sequence[str] = (),
    discover: bool = True,
    is_hidden: IsHidden | None = None,
) -> tuple[Source, ...]:
    """Return the existing sources in order of precedence: the first of a name is used.

    `paths` are from the command line and count even if `discover` is off. `is_hidden` asks
    the sandbox about files of the project.
    """
    sources = [source for path in paths for source in _named(kind, home, path, is_hidden)]
    if discover:
        discovered = _discovered(kind, home, files, roots=False)
        sources += [_supplied(source, home, is_hidden) for source in discovered]
        sources += _packaged(kind, home, files, is_hidden)
    return tuple(source for source in sources if source.path.exists())


def find_places(
    kind: ResourceKind, home: Home, files: SettingsFiles, *, paths: Sequence[str] = ()
) -> tuple[Source, ...]:
    """Return the sources of `find_sources`, and paths where a source can appear later.

    A path may be missing. A glob of the settings gives the folder above its first wildcard, and
    its current matches.
    """
    sources = [source for path in paths for source in _named(kind, home, path)]
    sources += _discovered(kind, home, files, roots=True)
    return (*sources, *_packaged(kind, home, files, None))


def missing_paths(home: Home, paths: Iterable[str]) -> tuple[str, ...]:
    """Return an error text for each missing path of the command line."""
    places = [_given(home, path).path for path in paths if not is_remote(path)]
    return tuple(f"Path does not exist: {place}" for place in places if not place.exists())


def missing_package(home: Home, source: str) -> str | None:
    """Return an error text if a package of the command line is not installed for the session."""
    from ludolf.config.packages.contents import temporary_package

    package = temporary_package(home, source)
    return f"{source} is not installed in {package.folder}" if package.missing else None


def _named(
    kind: ResourceKind, home: Home, path: str, is_hidden: IsHidden | None = None
) -> list[Source]:
    """Return the source at a path, or those of a package on the command line."""
    if not is_remote(path):
        return [_given(home, path, is_hidden)]
    from ludolf.config.packages.contents import resource_files, temporary_package

    package = temporary_package(home, path)
    return [_of_package(file, package) for file, _ in resource_files((package,), kind)]


def _packaged(
    kind: ResourceKind, home: Home, files: SettingsFiles, is_hidden: IsHidden | None
) -> list[Source]:
    if not files.user.packages and not files.project.packages:
        return []
    # Not at the start: few users have packages.
    from ludolf.config.packages.contents import configured_packages, resource_files

    packages = configured_packages(home, files, is_hidden).packages
    return [_of_package(file, package) for file, package in resource_files(packages, kind)]


def _of_package(file: Path, package: "FoundPackage") -> Source:
    return Source(
        path=file,
        scope=package.entry.scope,
        source=package.entry.source,
        origin="package",
        base_dir=package.base_dir,
        reader=package.reader,
    )


def _given(home: Home, path: str, is_hidden: IsHidden | None = None) -> Source:
    place = home.cwd / home.expand(path)
    base = place if place.is_dir() else place.parent
    reader = reader_for_named(home, place, is_hidden)
    return Source(path=place, scope="temporary", source="local", base_dir=base, reader=reader)


def _supplied(source: Source, home: Home, is_hidden: IsHidden | None) -> Source:
    """Return a source of the trusted project with its reader; the user's are unchanged."""
    if source.scope != "project":
        return source
    outside = Reader(is_hidden=is_hidden)
    reader = reader_for_named(home, source.path, is_hidden, outside=outside)
    return msgspec.structs.replace(source, reader=reader)


def _discovered(
    kind: ResourceKind, home: Home, files: SettingsFiles, *, roots: bool
) -> list[Source]:
    sources: list[Source] = []
    if files.trusted:
        # pi's documentation also has a folder `agent` below the project's configuration folder.
        folders = [home.project / kind, home.project / "agent" / kind]
        if kind == "skills":
            folders += project_agents_skills(home)
        picks, listed = _listed(home, home.project, getattr(files.project, kind), roots=roots)
        sources += _of_scope("project", picks, listed, folders)
    folders = [home.agent / kind]
    if kind == "skills":
        folders.append(home.user / ".agents" / kind)
    picks, listed = _listed(home, home.agent, getattr(files.user, kind), roots=roots)
    return sources + _of_scope("user", picks, listed, folders)


def _of_scope(
    scope: ScopeName, picks: Picks, listed: Iterable[Path], folders: Iterable[Path]
) -> list[Source]:
    named = [Source(path=p, scope=scope, source="local", picks=picks) for p in listed]
    return named + [
        Source(path=p, scope=scope, source="auto", base_dir=p.parent, picks=picks) for p in folders
    ]


def _listed(
    home: Home, base: Path, entries: tuple[str, ...], *, roots: bool
) -> tuple[Picks, Iterable[Path]]:
    """Return the filters and the paths of a list in the settings."""

    def marked(mark: str) -> list[str]:
        return [entry[1:] for entry in entries if entry.startswith(mark)]

    forced_in = tuple(_place(home, base, entry) for entry in marked("+"))
    picks = Picks(
        base=base,
        excluded=tuple(marked("!")),
        forced_in=forced_in,
        forced_out=tuple(_place(home, base, entry) for entry in marked("-")),
    )
    plain = [entry for entry in entries if not entry.startswith(("!", "+", "-"))]
    places = [path for entry in plain for path in _matches(home, base, entry, roots=roots)]
    return picks, dict.fromkeys((*places, *forced_in))


def _matches(home: Home, base: Path, entry: str, *, roots: bool) -> list[Path]:
    """Return the matches of an entry; with `roots` also the folder above its first wildcard."""
    place = _place(home, base, entry)
    if not _GLOB & set(entry) or place.exists():
        return [place]
    from glob import iglob

    matches = sorted(islice(iglob(str(place), recursive=True), MOST_MATCHES))
    above = (up for up in (place, *place.parents) if not _GLOB & set(str(up)))
    return [*([next(above, place)] if roots else []), *map(Path, matches)]


def _place(home: Home, base: Path, entry: str) -> Path:
    return Path(os.path.normpath(base / home.expand(entry)))
