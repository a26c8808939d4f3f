"""Load the factory function of an extension from a file, as a new private module."""

import itertools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from ludolf.base import LudolfError
from ludolf.extensions.extension import ExtensionFile
from ludolf.functions.isolation import Failed, call_now, describe

_numbers = itertools.count(1)
_BLOCK = re.compile(r"(?m)^# /// script\s*$\s(?P<content>(^#(| .*)$\s)+)^# ///$")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


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


# ---------------------------------------------------------------- private


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
