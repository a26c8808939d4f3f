"""Find extensions in command-line paths, settings, folders and installed packages."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from ludolf.config.resources.entry_points import installed
from ludolf.config.resources.sources import Source, find_sources
from ludolf.config.settings.home import Home
from ludolf.config.settings.settings import SettingsFiles
from ludolf.extensions.extension import ExtensionFile, LoadError

_SCRIPTS = (".ts", ".js", ".mjs", ".cjs", ".mts", ".cts")
_FOREIGN = "JavaScript and TypeScript extensions are not supported; write it in Python"


class ExtensionFiles(msgspec.Struct):
    """Extensions to load, in order; load errors; and scripts in unsupported languages."""

    origins: list[ExtensionFile] = []
    errors: list[LoadError] = []
    unsupported: list[Path] = []

    def warnings(self) -> tuple[str, ...]:
        """Return one warning for each unsupported script."""
        return tuple(f"{_FOREIGN}: {path}" for path in self.unsupported)


def find_extensions(
    home: Home, files: SettingsFiles, *, paths: Sequence[str] = (), discover: bool = True
) -> ExtensionFiles:
    """Return the extensions to load, highest precedence first; each real path once.

    `paths` come from the command line and are loaded even if `discover` is False. Extensions of
    the project are included only if the settings are those of a trusted project.
    """
    result = ExtensionFiles()
    seen: set[str] = set()
    for path in paths:
        sources = find_sources("extensions", home, files, paths=(path,), discover=False)
        _add_given(result, seen, path, sources)
    if discover:
        for source in find_sources("extensions", home, files):
            is_local = source.source == "local"
            _add(result, seen, _scan(source.path, result, as_package=is_local), source)
        for file in installed():
            _add_one(result, seen, ExtensionFile(path=file, package=_package_of(file)))
    return result


# ---------------------------------------------------------------- private


def _add_given(
    result: ExtensionFiles, seen: set[str], path: str, sources: Sequence[Source]
) -> None:
    if not sources:
        text = f"Extension path does not exist: {path}"
        result.errors.append(LoadError(path=path, error=text, explicit=True))
        return
    source = sources[0]
    if source.path.suffix in _SCRIPTS:
        result.errors.append(LoadError(path=str(source.path), error=_FOREIGN, explicit=True))
        return
    files = list(_scan(source.path, result, as_package=True))
    if not files:
        text = f"No extension in {source.path}: it needs __init__.py, extension.py or *.py files"
        result.errors.append(LoadError(path=str(source.path), error=text, explicit=True))
    _add(result, seen, files, source, explicit=True)


def _scan(
    place: Path, result: ExtensionFiles, *, as_package: bool
) -> Iterator[tuple[Path, Path | None]]:
    """Yield the files at a path, each with its package folder.

    `as_package`: the folder itself may be a package.
    """
    if place.is_file():
        yield from _file(place, result)
        return
    own = _main_file(place) if as_package else None
    if own is not None:
        yield own, place
        return
    for child in _children(place):
        if child.name.startswith((".", "_")) or child.name == "node_modules":
            continue
        if child.is_file():
            yield from _file(child, result)
        elif child.is_dir():
            main = _main_file(child)
            if main is not None:
                yield main, child
            else:
                result.unsupported += _script_of(child)


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []  # an unreadable folder contains no extensions


def _file(path: Path, result: ExtensionFiles) -> Iterator[tuple[Path, Path | None]]:
    if path.suffix == ".py":
        yield path, None
    elif path.suffix in _SCRIPTS and path not in result.unsupported:
        result.unsupported.append(path)


def _main_file(folder: Path) -> Path | None:
    names = (folder / "__init__.py", folder / "extension.py")
    return next((path for path in names if path.is_file()), None)


def _script_of(folder: Path) -> list[Path]:
    names = (folder / "package.json", *(folder / f"index{end}" for end in _SCRIPTS))
    return [path for path in names if path.is_file()][:1]


def _add(
    result: ExtensionFiles,
    seen: set[str],
    files: Iterable[tuple[Path, Path | None]],
    source: Source,
    *,
    explicit: bool = False,
) -> None:
    for path, package in files:
        if explicit or source.allow(package or path):
            origin = ExtensionFile(path=path, source=source, package=package, explicit=explicit)
            _add_one(result, seen, origin)


def _add_one(result: ExtensionFiles, seen: set[str], origin: ExtensionFile) -> None:
    if origin.real_path not in seen:
        seen.add(origin.real_path)
        result.origins.append(origin)


def _package_of(path: Path) -> Path | None:
    return path.parent if path.name == "__init__.py" else None
