"""Describe configured packages for `ludolf list` and `ludolf config`."""

import re
from pathlib import Path

from ludolf.base import ConfigError, Value
from ludolf.base.project_files import read_text
from ludolf.config.packages.contents import FoundPackage
from ludolf.config.packages.manifest import KINDS, PackageKind
from ludolf.config.settings.executed import CannotCheck, files_below

# Limits of the search for imports of pi's library.
MOST_SOURCES = 500
LARGEST_SOURCE = 1024 * 1024
_IMPORT = re.compile(
    r"import\s+(?!type\b)(?:[\w$]+\s*,\s*)?\{([^}]*)\}\s*from\s*[\"']"
    r"(?:@(?:earendil-works|mariozechner)/)?(pi-[\w-]+|typebox|@sinclair/typebox)(/[\w/-]+)?[\"']"
)
_SINGULAR: dict[PackageKind, str] = {
    "extensions": "extension",
    "skills": "skill",
    "prompts": "prompt template",
    "themes": "theme",
}


class PackageResource(Value):
    """A file of a package, relative to it, and whether it loads."""

    path: str
    enabled: bool


class PackageReport(Value, kw_only=True):
    """One configured package."""

    source: str
    scope: str
    path: str
    version: str | None = None
    description: str | None = None
    missing: bool
    filtered: bool
    disabled: bool
    needs_node: bool
    problem: str | None = None
    needs_pi_library: tuple[str, ...] = ()
    resources: dict[str, tuple[PackageResource, ...]]


def report_package(package: FoundPackage) -> PackageReport:
    """Return the report of a package; reads its scripts to find the imports of pi's library."""
    files = {kind: package.files.get(kind, ()) for kind in KINDS}
    every = [file for kind in KINDS for file in files[kind]]
    scripts = package.scripts()
    return PackageReport(
        source=package.entry.source,
        scope=package.entry.scope,
        path=str(package.folder),
        version=package.version,
        description=package.description,
        missing=package.missing,
        filtered=package.entry.filters is not None,
        disabled=bool(every) and not any(file.enabled for file in every),
        needs_node=bool(scripts),
        problem=package.complaint(),
        needs_pi_library=library_names(package.base_dir) if scripts else (),
        resources={
            kind: tuple(
                PackageResource(path=shown_path(file.path, package), enabled=file.enabled)
                for file in found
            )
            for kind, found in files.items()
            if found
        },
    )


def shown_path(path: Path, package: FoundPackage) -> str:
    """Return the path of a file as patterns of the settings name it."""
    base = package.base_dir
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix()


def brings(report: PackageReport) -> str:
    """Return the enabled resources in words."""
    parts = []
    for kind in KINDS:
        count = sum(one.enabled for one in report.resources.get(kind, ()))
        if count:
            parts.append(f"{count} {_SINGULAR[kind]}{'s' if count > 1 else ''}")
    return ", ".join(parts) or "nothing that loads"


def remarks(report: PackageReport) -> list[str]:
    """Return what a user should know about a package."""
    texts = [report.problem] if report.problem else []
    if report.disabled:
        texts.append("disabled by the filters of its entry")
    elif report.filtered:
        texts.append("filtered")
    if report.needs_node:
        texts.append("needs Node")
    if report.needs_pi_library:
        names = ", ".join(report.needs_pi_library)
        texts.append(f"needs pi's library (ludolf install --pi-library): {names}")
    return texts


def library_names(folder: Path) -> tuple[str, ...]:
    """Return the names of pi's packages that scripts import and Ludolf does not provide."""
    ours = provided_names()
    found: dict[str, None] = {}
    for path in _sources(folder):
        try:
            text = read_text(path, within=folder, limit=LARGEST_SOURCE) or ""
        except ConfigError:
            continue
        for names, module, below in _IMPORT.findall(text):
            module = module.removeprefix("@sinclair/") + below
            known = ours.get(module, frozenset())
            for name in names.split(","):
                word = name.split(" as ")[0].strip()
                if word and not word.startswith(("type ", "//")) and word not in known:
                    found[f"{module}:{word}"] = None
    return tuple(found)


def provided_names() -> dict[str, frozenset[str]]:
    """Return the names that Ludolf's own modules export, by module."""
    import json

    text = (Path(__file__).parents[2] / "pi_host/modules/names.json").read_text("utf-8")
    return {module: frozenset(names) for module, names in json.loads(text).items()}


def _sources(folder: Path) -> list[Path]:
    try:
        files = [path for path in files_below(folder) if path.suffix in (".ts", ".js", ".mjs")]
    except CannotCheck:
        return []
    return [path for path in files if not path.name.endswith(".d.ts")][:MOST_SOURCES]
