"""The setting `packages`: read its entries, and change them under pi's lock."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ludolf.base import ConfigError
from ludolf.config.packages.manifest import KINDS, PackageKind
from ludolf.config.packages.origin import PackageOrigin, identity, parse_origin
from ludolf.config.packages.places import PackageScope, base_folder, package_folder
from ludolf.config.settings.files import read_object, read_text, replace_text
from ludolf.config.settings.home import Home
from ludolf.config.settings.settings import SettingsFiles

RawEntry = str | dict[str, Any]


class PackageEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One entry; a kind without a filter loads all, `autoload=False` loads only named files."""

    source: str
    scope: PackageScope
    origin: PackageOrigin
    filters: Mapping[PackageKind, tuple[str, ...]] | None = None
    autoload: bool = True

    def identity(self, home: Home) -> str:
        return identity(self.origin, base_folder(home, self.scope), home.user)

    def folder(self, home: Home) -> Path:
        """Return the folder or file of the package, which may be missing."""
        return package_folder(home, self.origin, self.scope)


class PackageEntries(msgspec.Struct, frozen=True):
    """Valid entries, and an error text for each of the others."""

    entries: tuple[PackageEntry, ...] = ()
    errors: tuple[str, ...] = ()


def configured_entries(files: SettingsFiles) -> PackageEntries:
    """Return the entries of the trusted project, then those of the user."""
    entries: list[PackageEntry] = []
    errors: list[str] = []
    lists: list[tuple[PackageScope, tuple[RawEntry, ...]]] = [
        ("project", files.project.packages if files.trusted else ()),
        ("user", files.user.packages),
    ]
    for scope, raw in lists:
        for value in raw:
            try:
                entries.append(parse_entry(value, scope))
            except ConfigError as error:
                name = files.project_name if scope == "project" else files.user_name
                errors.append(f"packages in {name}: {error}")
    return PackageEntries(tuple(entries), tuple(errors))


def parse_entry(raw: RawEntry, scope: PackageScope) -> PackageEntry:
    """Parse the string or the object form.

    Raises:
        ConfigError: the source is missing or invalid.
    """
    if isinstance(raw, str):
        return PackageEntry(source=raw, scope=scope, origin=parse_origin(raw))
    source = raw.get("source")
    if not isinstance(source, str):
        raise ConfigError('an object needs the key "source"')
    lists = {kind: raw[kind] for kind in KINDS if isinstance(raw.get(kind), list)}
    return PackageEntry(
        source=source,
        scope=scope,
        origin=parse_origin(source),
        filters={kind: tuple(filter(_is_text, values)) for kind, values in lists.items()},
        autoload=raw.get("autoload") is not False,
    )


def in_effect(entries: tuple[PackageEntry, ...], home: Home) -> tuple[PackageEntry, ...]:
    """Return one entry for each package: that of the project replaces that of the user.

    A project entry with `autoload: false` is kept before the user's: it only changes which files
    load.
    """
    kept: dict[tuple[str, bool], PackageEntry] = {}
    for entry in entries:
        key = entry.identity(home)
        first = kept.get((key, True))
        if first is None:
            kept[key, True] = entry
        elif first.scope == "project" and entry.scope == "user" and not first.autoload:
            kept.setdefault((key, False), entry)
    return tuple(kept.values())


def settings_path(home: Home, scope: PackageScope) -> Path:
    return home.project_settings_file if scope == "project" else home.settings_file


def edit_entries(
    home: Home, scope: PackageScope, change: Callable[[list[RawEntry]], list[RawEntry]]
) -> bool:
    """Change the list in a settings file under its lock; return whether it changed.

    Raises:
        ConfigError: the file is invalid or locked, or cannot be written.
    """
    from ludolf.config.settings.json_edit import edited
    from ludolf.config.settings.lock import settings_lock

    path = settings_path(home, scope)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with settings_lock(path) as lock:
            old = _raw_entries(path)
            new = change(list(old))
            if new == old:
                return False
            text = edited(read_text(path) or "", {"packages": new})
            lock.check()
            replace_text(path, text)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
    return True


def _raw_entries(path: Path) -> list[RawEntry]:
    try:
        raw = read_object(path).get("packages", [])
    except ConfigError as error:
        raise ConfigError(f"Invalid settings file {path}: {error}. Correct it first.") from error
    if not isinstance(raw, list) or not all(isinstance(one, str | dict) for one in raw):
        raise ConfigError(f'"packages" in {path} must be a list of sources. Correct it first.')
    return raw


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
