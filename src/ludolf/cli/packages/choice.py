"""Choose which resources of a package load: the object form of the setting `packages`."""

from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from typing import Any

from ludolf.base import CommandError
from ludolf.cli.packages.install import edit_entry
from ludolf.cli.packages.report import PackageReport, remarks, shown_path
from ludolf.cli.terminal import say, say_json
from ludolf.config.packages.contents import ConfiguredPackages, FoundPackage
from ludolf.config.packages.entries import RawEntry
from ludolf.config.packages.filters import is_named
from ludolf.config.packages.manifest import KINDS, PackageKind
from ludolf.config.packages.origin import identity, parse_origin
from ludolf.config.packages.places import PackageScope
from ludolf.config.settings.home import Home


def choose(
    home: Home, found: ConfiguredPackages, scope: PackageScope, arguments: Namespace
) -> None:
    """Enable and disable resources of one package in the settings of a scope.

    Raises:
        LudolfError: the package or the resource does not exist, or the settings cannot be written.
    """
    key = identity(parse_origin(arguments.source), home.cwd, home.user)
    same = [one for one in found.packages if one.entry.identity(home) == key]
    package = next((one for one in same if one.entry.scope == scope), None)
    if package is None:
        raise CommandError(
            f"No matching package found for {arguments.source} in the settings of the {scope}. "
            "`ludolf list` shows the sources."
        )
    for names, enabled in ((arguments.enable, True), (arguments.disable, False)):
        for name in names:
            kind, path = _resource(package, name)
            edit_entry(home, package.entry, partial(_changed, kind, path, enabled))


def show_choices(reports: Sequence[PackageReport], *, as_json: bool) -> None:
    """Print each resource of each package and whether it loads."""
    if as_json:
        say_json({"packages": reports})
        return
    if not reports:
        say("No packages installed.")
    for report in reports:
        say(f"{report.source} ({report.scope})")
        for text in remarks(report):
            say(f"  {text}")
        for kind, files in report.resources.items():
            say(f"  {kind}")
            for file in files:
                say(f"    [{'x' if file.enabled else ' '}] {file.path}")


def _resource(package: FoundPackage, name: str) -> tuple[PackageKind, str | None]:
    """Return the kind that a name means, and the path of the file; None for the whole kind."""
    for kind in KINDS:
        if name == kind:
            return kind, None
        for file in package.files.get(kind, ()):
            path = shown_path(file.path, package)
            if is_named(file.path, (name,), package.base_dir) or path == name:
                return kind, path
    raise CommandError(
        f"{package.entry.source} has no resource {name}. `ludolf config` lists its resources."
    )


def _changed(kind: PackageKind, path: str | None, enabled: bool, raw: RawEntry) -> RawEntry:
    entry: dict[str, Any] = {"source": raw} if isinstance(raw, str) else dict(raw)
    if path is None:
        entry.pop(kind, None)
        if not enabled:
            entry[kind] = []
    else:
        entry[kind] = _patterns(entry.get(kind), path, enabled=enabled)
        if not entry[kind] and enabled:
            del entry[kind]
    source: str = entry["source"]
    return source if entry.keys() == {"source"} else entry


def _patterns(old: Any, path: str, *, enabled: bool) -> list[str]:
    """Return the patterns of a kind with one file enabled or disabled."""
    if not isinstance(old, list):
        return [] if enabled else [f"-{path}"]
    if enabled and not old:
        return [path]  # an empty list loads nothing; a plain pattern loads only what it names
    kept = [text for text in old if text not in (f"+{path}", f"-{path}")]
    if enabled:
        return [*kept, f"+{path}"] if kept else kept
    return [*kept, f"-{path}"]
