"""Find extensions, and load their factory functions as new private modules."""

import itertools
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from ludolf.base import ConfigError, LudolfError, Value
from ludolf.base.patterns import lazy_pattern
from ludolf.config.packages.origin import is_remote
from ludolf.config.resources.entry_points import installed
from ludolf.config.resources.sources import (
    Source,
    SourceDetails,
    find_sources,
    missing_package,
)
from ludolf.config.settings.files import read_object
from ludolf.config.settings.home import Home
from ludolf.config.settings.settings import SettingsFiles
from ludolf.functions.isolation import Failed, call_now, describe

_numbers = itertools.count(1)
_BLOCK = lazy_pattern(r"(?m)^# /// script\s*$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
_NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]*")
SCRIPT_SUFFIXES = (".ts", ".js", ".mjs", ".cjs", ".mts", ".cts")
# Scripts that a folder may contain; others are loaded if they are named.
_FOUND_SCRIPTS = (".ts", ".js")


# ---------------------------------------------------------------- find


class ExtensionFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file or function to load.

    `package` is the folder of an extension that is a package or has a separate folder; `explicit`
    is set if the command line named the extension. A `script` is written in JavaScript or
    TypeScript; `connect` loads it into an `Extension` of a `Registry`.
    """

    path: Path
    source: Source | None = None
    package: Path | None = None
    explicit: bool = False
    factory: Callable[..., Any] | None = None
    script: bool = False
    connect: Callable[[Any, Any], Awaitable[None]] | None = None

    @property
    def real_path(self) -> str:
        return os.path.realpath(self.path) if self.factory is None else str(self.path)

    def info(self) -> SourceDetails:
        if self.source is not None:
            info = self.source.info(self.path)
            # As in pi: hosts recognise commands of `-e` by this source.
            if self.explicit and info.origin == "top-level":
                return info.replace(path=str(self._named_path()), source="cli", base_dir=None)
            return info
        return SourceDetails(path=str(self.path), source="auto", scope="user", origin="package")

    def _named_path(self) -> Path:
        """Return the path that pi gives for `-e`: for a script found as index, its folder."""
        folder = self.package
        is_index = self.script and folder is not None and self.path.stem == "index"
        if not is_index or folder is None or folder != self.path.parent:
            return self.path
        return self.path if self.path in _listed_scripts(folder) else folder


def factory_origin(factory: Callable[..., Any]) -> ExtensionFile:
    """Return the origin of an extension that a program passes as a function."""
    name = getattr(factory, "__qualname__", type(factory).__qualname__)
    module = getattr(factory, "__module__", "")
    path = Path(f"<{module}.{name} {id(factory):x}>")
    return ExtensionFile(path=path, explicit=True, factory=factory)


class LoadError(Value):
    """Error of an extension that could not be loaded, or of one of its registrations."""

    path: str
    error: str
    explicit: bool = False
    # The program that runs its language is missing.
    foreign: bool = False

    def __str__(self) -> str:
        return f'Failed to load extension "{self.path}": {self.error}'


class ExtensionFiles:
    """Extensions to load, in order, and load errors. Without `scripts` only those in Python."""

    def __init__(self, *, scripts: bool = True) -> None:
        self.errors: list[LoadError] = []
        self._scripts = scripts
        self._by_path: dict[str, ExtensionFile] = {}

    @property
    def origins(self) -> list[ExtensionFile]:
        return list(self._by_path.values())

    def add(self, file: ExtensionFile) -> None:
        """Add an extension, unless its real path was added before."""
        if self._scripts or not file.script:
            self._by_path.setdefault(file.real_path, file)

    def add_source(self, source: Source) -> None:
        """Add the extensions of a source that its filters allow."""
        for path, package in _scan(source.path, named=source.source != "auto"):
            if source.allow(package or path):
                self.add(_extension_file(path, source, package, explicit=False))

    def add_explicit(self, path: str, sources: Sequence[Source]) -> None:
        """Add the extensions at a path from the command line, or an error without any."""
        if not sources:
            self.refuse(path, f"Extension path does not exist: {path}")
        for source in sources:
            self._add_named(source)

    def _add_named(self, source: Source) -> None:
        files = list(_scan(source.path, named=True))
        if not files:
            needs = "it needs __init__.py, extension.py, index.ts, index.js, *.py, *.ts or *.js"
            self.refuse(str(source.path), f"No extension in {source.path}: {needs}")
        for file, package in files:
            self.add(_extension_file(file, source, package, explicit=True))

    def refuse(self, path: str, text: str) -> None:
        """Report what the command line named and cannot be loaded."""
        self.errors.append(LoadError(path=path, error=text, explicit=True))


def _extension_file(
    path: Path, source: Source, package: Path | None, *, explicit: bool
) -> ExtensionFile:
    script = path.suffix != ".py"
    return ExtensionFile(
        path=path, source=source, package=package, explicit=explicit, script=script
    )


def _scan(place: Path, *, named: bool) -> Iterator[tuple[Path, Path | None]]:
    """Yield the files at a path, each with its package folder.

    `named`: the path was named, so that the folder itself may be a package.
    """
    if place.is_file():
        if place.suffix in (".py", *SCRIPT_SUFFIXES):
            yield place, None
        return
    own = _main_files(place) if named else []
    if own:
        yield from ((path, place) for path in own)
        return
    if named and (place / "extensions").is_dir():  # a package without a manifest
        place = place / "extensions"
    for child in _children(place):
        if child.name.startswith((".", "_")) or child.name == "node_modules":
            continue
        if child.is_file():
            if child.suffix == ".py" or _is_found_script(child):
                yield child, None
        elif child.is_dir():
            yield from ((path, child) for path in _main_files(child))


def _is_found_script(path: Path) -> bool:
    return path.suffix in _FOUND_SCRIPTS and not path.name.endswith(".d.ts")


def find_extensions(
    home: Home,
    files: SettingsFiles,
    *,
    paths: Sequence[str] = (),
    discover: bool = True,
    scripts: bool = True,
) -> ExtensionFiles:
    """Return the extensions to load, highest precedence first; each real path once.

    `paths` come from the command line and are loaded even if `discover` is False. Extensions of
    the project are included only if the settings are those of a trusted project.
    """
    result = ExtensionFiles(scripts=scripts)
    for path in paths:
        sources = find_sources("extensions", home, files, paths=(path,), discover=False)
        missing = missing_package(home, path) if is_remote(path) else None
        if missing is not None:
            result.refuse(path, missing)
        elif sources or not is_remote(path):  # a package may have skills only
            result.add_explicit(path, sources)
    if discover:
        for source in find_sources("extensions", home, files):
            result.add_source(source)
        for file in installed():
            package = file.parent if file.name == "__init__.py" else None
            result.add(ExtensionFile(path=file, package=package))
    return result


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []  # an unreadable folder contains no extensions


def _main_files(folder: Path) -> list[Path]:
    """Return the files of an extension that is a folder: Python first, then as pi finds them."""
    python = (folder / "__init__.py", folder / "extension.py")
    first = next((path for path in python if path.is_file()), None)
    if first is not None:
        return [first]
    listed = _listed_scripts(folder)
    if listed:
        return listed
    scripts = (folder / f"index{end}" for end in _FOUND_SCRIPTS)
    return [path for path in scripts if path.is_file()][:1]


def _listed_scripts(folder: Path) -> list[Path]:
    """Return the files that `pi.extensions` in the folder's package.json names."""
    try:
        manifest = read_object(folder / "package.json").get("pi")
    except ConfigError:
        return []
    listed = manifest.get("extensions") if isinstance(manifest, dict) else None
    if not isinstance(listed, list):
        return []
    files = (Path(os.path.normpath(folder / name)) for name in listed if isinstance(name, str))
    return [path for path in files if path.is_file() and path.suffix in (".py", *SCRIPT_SUFFIXES)]


# ---------------------------------------------------------------- load


class CannotLoad(LudolfError):
    """Raised when a file is not a loadable extension; the text contains the reason."""


class NoInterpreter(CannotLoad):
    """Raised when the program that runs an extension is missing; the text says what to install."""


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
        raise CannotLoad(
            f"Extension does not export a valid factory function: {origin.path}. "
            "Define `def extension(api)` in it."
        )
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


def explained(failed: Failed, path: str) -> str:
    """Return the text of an error with its type and the line of the extension, for its author."""
    error = failed.__cause__
    if error is None or str(failed) != describe(error):
        return str(failed)  # a text of Ludolf, such as that of a timeout
    kind, text, place = type(error).__name__, str(failed), _place(error, path)
    if text != kind and not isinstance(error, SystemExit):
        text = f"{kind}: {text}"
    return f"{text} ({place})" if place else text


def _place(error: BaseException, path: str) -> str | None:
    """Return the last line in the file, or else the first one outside of Ludolf."""
    own = os.path.dirname(os.path.dirname(__file__))
    trace, found, first = error.__traceback__, None, None
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        place = f"{os.path.basename(file)}, line {trace.tb_lineno}"
        if file == path:
            found = place
        if not file.startswith(f"{own}{os.sep}"):
            first = first or place
        trace = trace.tb_next
    return found or first


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
