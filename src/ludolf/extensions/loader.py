"""Find extensions, and load their factory functions as new private modules."""

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from ludolf.base import LudolfError
from ludolf.config.resources.entry_points import installed
from ludolf.config.resources.sources import Source, find_sources
from ludolf.config.settings.home import Home
from ludolf.config.settings.settings import SettingsFiles
from ludolf.extensions.extension import ExtensionFile, LoadError
from ludolf.functions.isolation import Failed, call_now, describe

_numbers = itertools.count(1)
_BLOCK = re.compile(r"(?m)^# /// script\s*$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SCRIPTS = (".ts", ".js", ".mjs", ".cjs", ".mts", ".cts")
_FOREIGN = "JavaScript and TypeScript extensions are not supported; write it in Python"


# ---------------------------------------------------------------- find


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


# ---------------------------------------------------------------- load


class CannotLoad(LudolfError):
    """Raised when a file is not a loadable extension; the text contains the reason."""


def private_name(origin: ExtensionFile) -> str:
    """Return a unique module name, so that loads do not share state."""
    stem = (origin.package or origin.path.with_suffix("")).name
    return f"ludolf_extension_{next(_numbers)}_{re.sub(r'[^0-9A-Za-z]', '_', stem)}"


def load_factory(origin: ExtensionFile, name: str) -> Callable[..., Any]:
    """Run the file and return its `extension` function.

    Raises:
        CannotLoad: the file cannot be read or run, needs a missing package, or has no such
            function.
    """
    check_packages(origin.path)
    try:
        module = call_now(_run_module, origin, name)
    except Failed as failed:
        forget_module(name)
        raise CannotLoad(located(failed, origin.path)) from failed
    factory: Callable[..., Any] | None = getattr(module, "extension", None)
    if not callable(factory):
        forget_module(name)
        raise CannotLoad(f"Extension does not export a valid factory function: {origin.path}")
    return factory


def forget_module(name: str) -> None:
    """Remove a private module and its submodules from `sys.modules`."""
    for module in tuple(sys.modules):
        if module == name or module.startswith(f"{name}."):
            del sys.modules[module]


def located(failed: Failed, path: Path) -> str:
    """Return the text of an error with the line of the extension that raised it."""
    error, line = failed.__cause__, None
    trace = error.__traceback__ if error is not None else None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    text = describe(error) if error is not None else str(failed)
    if isinstance(error, SyntaxError) or line is None:
        return text
    return f"{text} ({path.name}, line {line})"


def check_packages(path: Path) -> None:
    """Check that the dependencies in the file's inline metadata (PEP 723) are installed.

    Raises:
        CannotLoad: a package is missing; the text contains the command that installs it.
    """
    missing = [need for need in _needs(path) if not _is_installed(need)]
    if missing:
        quoted = " ".join(f'"{need}"' for need in missing)
        raise CannotLoad(
            f"Missing packages: {', '.join(missing)}. "
            f"Install them with: {sys.executable} -m pip install {quoted}"
        )


def _run_module(origin: ExtensionFile, name: str) -> ModuleType:
    from ludolf.extensions.sources import import_from_sources

    import_from_sources(origin.package or origin.path.parent)
    if origin.package is None:
        return _execute(name, origin.path, None)
    if origin.path.name == "__init__.py":
        return _execute(name, origin.path, origin.package)
    # A folder without __init__ becomes an empty package, so that its file can import siblings.
    package = ModuleType(name)
    package.__path__ = [str(origin.package)]
    sys.modules[name] = package
    return _execute(f"{name}.{origin.path.stem}", origin.path, None)


def _execute(name: str, path: Path, package: Path | None) -> ModuleType:
    from importlib.util import module_from_spec, spec_from_file_location

    from ludolf.extensions.sources import FreshSource

    spec = spec_from_file_location(
        name,
        path,
        loader=FreshSource(name, str(path)),
        submodule_search_locations=None if package is None else [str(package)],
    )
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _needs(path: Path) -> Iterator[str]:
    try:
        text = path.read_text("utf-8", "replace")
    except OSError as error:
        raise CannotLoad(f"Cannot read {path}: {error.strerror}") from error
    block = _BLOCK.search(text)
    if block is None:
        return
    import tomllib

    lines = block["content"].splitlines()
    try:
        data = tomllib.loads("\n".join(line[2:] for line in lines))
    except tomllib.TOMLDecodeError as error:
        raise CannotLoad(f"The script metadata of {path} is not TOML: {error}") from error
    yield from (need for need in data.get("dependencies", ()) if isinstance(need, str))


def _is_installed(need: str) -> bool:
    from importlib.metadata import PackageNotFoundError, distribution

    name = _NAME.match(need.strip())
    if name is None:
        return False
    try:
        distribution(name[0])
    except (PackageNotFoundError, ValueError):
        return False
    return True
