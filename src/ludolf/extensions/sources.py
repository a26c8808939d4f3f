"""Import modules of extensions from source, never from byte code in `__pycache__`.

Python may load a `__pycache__` file without reading the source. Users trust sources, so the import
system reads only sources in folders of extensions.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from pathlib import Path
from types import ModuleType
from typing import Any

from ludolf.config.settings.executed import NEVER_IMPORTED


class FreshSource(SourceFileLoader):
    """Loader that compiles the source at every load and stores no byte code."""

    def path_stats(self, path: Any) -> Any:
        raise OSError


_LOADERS: list[tuple[type[Any], list[str]]] = [
    (ExtensionFileLoader, EXTENSION_SUFFIXES),
    (FreshSource, SOURCE_SUFFIXES),
    (SourcelessFileLoader, BYTECODE_SUFFIXES),
]


class SourceFinder(FileFinder):
    """Finder for the modules of one folder that records their paths."""

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> ModuleSpec | None:
        spec = super().find_spec(fullname, target)
        if spec is not None and spec.origin is not None:
            _found.add(Path(os.path.realpath(spec.origin)))
        if spec is not None and "." not in fullname:
            _searched.add(Path(os.path.realpath(self.path)))
        return spec


class _Empty:
    """Finder for a folder from which nothing may be imported."""

    def find_spec(self, fullname: str, target: ModuleType | None = None) -> None:
        return None

    def invalidate_caches(self) -> None: ...


# Real paths: folders of extensions, files that they imported, folders with modules outside an
# extension's package, and the import path before any extension was loaded.
_folders: set[str] = set()
_found: set[Path] = set()
_searched: set[Path] = set()
_import_path: tuple[str, ...] = ()


def import_from_sources(folder: Path) -> None:
    """Read only sources when a module is imported from a folder of an extension.

    The same holds for folders that an extension adds to `sys.path`. Installed packages are loaded
    as Python loads them.
    """
    global _import_path
    real = os.path.realpath(folder)
    if _is_below(real, _program()):
        return
    if _finder not in sys.path_hooks:
        _import_path = tuple(map(os.path.realpath, sys.path))
        sys.path_hooks.insert(0, _finder)
    _folders.add(real)
    for path in tuple(sys.path_importer_cache):
        if _is_below(os.path.realpath(path), (real,)):
            del sys.path_importer_cache[path]


def note_imports(paths: Iterable[str], own: Path) -> None:
    """Record files that a script imported outside of this process; `own` is its first file."""
    first = os.path.realpath(own)
    for name in paths:
        real = os.path.realpath(name)
        _found.add(Path(real))
        # A description of a package is read, not run.
        if real != first and not real.endswith(".json"):
            _searched.add(_folder_of(Path(real)))


def _folder_of(path: Path) -> Path:
    """Return the folder of a module; for an installed package that of all packages."""
    parts = path.parts
    if "node_modules" in parts:
        return Path(*parts[: parts.index("node_modules") + 1])
    return path.parent


def imported_files() -> frozenset[Path]:
    """Return the real path of each file that extensions imported, their own first file excepted."""
    return frozenset(_found)


def import_folders() -> frozenset[Path]:
    """Return the folders that extensions put on the import path or imported modules from.

    A new file in one of them can take the place of any module that is imported later.
    """
    if _finder not in sys.path_hooks:
        return frozenset(_searched)
    now = {os.path.realpath(path) for path in sys.path if os.path.isdir(path)}
    added = now - set(_import_path)
    return frozenset(
        _searched.union(Path(path) for path in added if not _is_below(path, _program()))
    )


def _finder(path: str) -> "SourceFinder | _Empty":
    """Return the finder of a folder, as a hook of `sys.path_hooks`."""
    real, folder = os.path.realpath(path), _extension_folder(path)
    if not os.path.isdir(real) or (folder is None and _is_below(real, _import_path)):
        raise ImportError
    if _is_below(real, _program()):
        raise ImportError
    inside = os.path.relpath(real, folder) if folder is not None else ""
    return _Empty() if NEVER_IMPORTED & set(inside.split("/")) else SourceFinder(path, *_LOADERS)


def _extension_folder(path: str) -> str | None:
    real = os.path.realpath(path)
    return next((folder for folder in _folders if _is_below(real, (folder,))), None)


def _program() -> tuple[str, ...]:
    """Return the folders of the interpreter, its installed packages and this package."""
    places = (sys.prefix, sys.base_prefix, os.path.dirname(os.__file__))
    return tuple(map(os.path.realpath, (*places, str(Path(__file__).parents[1]))))


def _is_below(real: str, folders: Sequence[str]) -> bool:
    return any(os.path.commonpath((real, folder)) == folder for folder in folders)
