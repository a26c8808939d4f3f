"""Read `package.json` of a package and list the files of its resources."""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import msgspec

from ludolf.base import ConfigError, loads
from ludolf.base.project_files import Reader
from ludolf.config.packages.filters import chosen, has_wildcard, is_override
from ludolf.config.resources.ignore import IgnoreRule, is_ignored, read_rules

PackageKind = Literal["extensions", "skills", "prompts", "themes"]
KINDS: tuple[PackageKind, ...] = ("extensions", "skills", "prompts", "themes")
SCRIPTS = (".ts", ".js")
# Limits for one package and kind. Installed packages come from others.
MOST_FILES = 1000
MOST_FOLDERS = 2000
DEEPEST = 16
_SUFFIXES: dict[PackageKind, tuple[str, ...]] = {
    "extensions": (*SCRIPTS, ".py"),
    "skills": (".md",),
    "prompts": (".md",),
    "themes": (".json",),
}
_MAIN = ("index.ts", "index.js", "__init__.py", "extension.py")


class PackageManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of `package.json` that matter here; `resources` is None without the key `pi`."""

    name: str | None = None
    version: str | None = None
    description: str | None = None
    resources: dict[PackageKind, tuple[str, ...]] | None = None


def read_manifest(folder: Path, reader: Reader) -> PackageManifest:
    """Read `package.json`; a missing or invalid file is an empty manifest."""
    try:
        value: Any = loads(reader.text(folder / "package.json") or "{}")
    except (ConfigError, ValueError, RecursionError):
        return PackageManifest()
    if not isinstance(value, dict):
        return PackageManifest()
    texts = {key: value.get(key) for key in ("name", "version", "description")}
    named = value.get("pi")
    return PackageManifest(
        **{key: text if isinstance(text, str) else None for key, text in texts.items()},
        resources=_resources(named) if isinstance(named, dict) else None,
    )


def _resources(named: dict[str, Any]) -> dict[PackageKind, tuple[str, ...]]:
    lists = {kind: named.get(kind) for kind in KINDS}
    return {
        kind: tuple(entries)
        for kind, entries in lists.items()
        if isinstance(entries, list) and all(isinstance(entry, str) for entry in entries)
    }


class PackageFiles:
    """The files in the folder of a package, by kind."""

    def __init__(self, folder: Path, reader: Reader) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder, reader)
        self._reader = reader

    def listed(self, kind: PackageKind, *, conventional: bool) -> list[Path]:
        """Return the files that the manifest lists, else those of the conventional folder.

        `conventional`: the folder also counts if the manifest lists other kinds only.
        """
        resources = self.manifest.resources
        entries = None if resources is None else resources.get(kind)
        if entries is not None and (entries or not conventional):
            return self._of_manifest(kind, entries)
        if resources is not None and not conventional:
            return []
        return self._below(self.folder / kind, kind)

    def exist(self) -> bool:
        """Return whether there is a manifest for pi, or a conventional folder."""
        folders = (self.folder / kind for kind in KINDS)
        return self.manifest.resources is not None or any(os.path.isdir(place) for place in folders)

    def _of_manifest(self, kind: PackageKind, entries: Sequence[str]) -> list[Path]:
        files: dict[Path, None] = {}
        for entry in entries:
            if not is_override(entry):
                for place in self._places(entry):
                    files |= dict.fromkeys(self._below(place, kind))
        overrides = [entry for entry in entries if is_override(entry)]
        return chosen(list(files), overrides, self.folder)[:MOST_FILES]

    def _places(self, entry: str) -> list[Path]:
        if "\0" in entry:
            return []
        if not has_wildcard(entry):
            return [Path(os.path.normpath(self.folder / entry))]
        from glob import iglob

        found = islice(iglob(entry, root_dir=self.folder, recursive=True), MOST_FILES)
        return sorted(Path(os.path.normpath(self.folder / name)) for name in found)

    def _below(self, place: Path, kind: PackageKind) -> list[Path]:
        """Return a file, or the files of a kind below a folder; none outside of the package."""
        within = self._reader.within
        if within is not None and not _is_inside(place, within):
            return []
        if os.path.isfile(place):
            return [place]
        walk = _ResourceWalk(self._reader, kind)
        return list(islice(walk.files(place), MOST_FILES))


class _ResourceWalk:
    """Search one folder for the files of a kind; links into folders above are not followed."""

    def __init__(self, reader: Reader, kind: PackageKind) -> None:
        self._reader = reader
        self._kind = kind
        self._folders = 0

    def files(self, folder: Path) -> Iterator[Path]:
        if self._kind == "extensions":
            own = self._main_files(folder)
            yield from own or self._extensions(folder)
        else:
            yield from self._tree(folder, (), ())

    def _tree(
        self, folder: Path, rules: tuple[IgnoreRule, ...], above: tuple[str, ...]
    ) -> Iterator[Path]:
        self._folders += 1
        real = os.path.realpath(folder)
        if real in above or len(above) > DEEPEST or self._folders > MOST_FOLDERS:
            return
        if self._kind == "skills" and os.path.isfile(folder / "SKILL.md"):
            yield folder / "SKILL.md"
            return
        rules = (*rules, *read_rules(folder, self._reader))
        for path in self._children(folder, rules):
            if os.path.isdir(path):
                yield from self._tree(path, rules, (*above, real))
            elif self._fits(path) and not (self._kind == "skills" and above):
                yield path

    def _extensions(self, folder: Path) -> Iterator[Path]:
        for path in self._children(folder, read_rules(folder, self._reader)):
            if os.path.isdir(path):
                yield from self._main_files(path)
            elif self._fits(path):
                yield path

    def _main_files(self, folder: Path) -> list[Path]:
        resources = read_manifest(folder, self._reader).resources or {}
        named = [Path(os.path.normpath(folder / name)) for name in resources.get("extensions", ())]
        within = self._reader.within
        inside = [path for path in named if within is None or _is_inside(path, within)]
        existing = [path for path in inside if os.path.exists(path)]
        main = [folder / name for name in _MAIN if os.path.isfile(folder / name)]
        return existing or main[:1]

    def _fits(self, path: Path) -> bool:
        return path.suffix in _SUFFIXES[self._kind] and os.path.isfile(path)

    def _children(self, folder: Path, rules: tuple[IgnoreRule, ...]) -> list[Path]:
        try:
            names = self._reader.names(folder)
        except ConfigError:
            return []
        paths = [folder / name for name in names if not name.startswith(".")]
        return [
            path
            for path in paths
            if path.name != "node_modules"
            and not is_ignored(path, rules, folder=os.path.isdir(path))
        ]


def _is_inside(place: Path, within: Path) -> bool:
    try:
        return Path(os.path.realpath(place)).is_relative_to(os.path.realpath(within))
    except (OSError, ValueError):
        return False
