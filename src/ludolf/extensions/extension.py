"""One loaded extension: its origin and its registrations."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from ludolf.base import Value
from ludolf.config.resources.sources import Source, SourceDetails
from ludolf.functions.tool import FunctionTool


class ExtensionFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file or function to load.

    `package` is the folder of an extension that is a package or has a separate folder; `explicit`
    is set if the command line named the extension.
    """

    path: Path
    source: Source | None = None
    package: Path | None = None
    explicit: bool = False
    factory: Callable[..., Any] | None = None

    @property
    def real_path(self) -> str:
        return os.path.realpath(self.path) if self.factory is None else str(self.path)

    def info(self) -> SourceDetails:
        if self.source is not None:
            return self.source.info(self.path)
        return SourceDetails(path=str(self.path), source="auto", scope="user", origin="package")


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

    def __str__(self) -> str:
        return f'Failed to load extension "{self.path}": {self.error}'


class ExtensionCommand(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    name: str
    function: Callable[..., Any]
    description: str | None = None


class ExtensionCommandItem(Value, kw_only=True):
    """Command of an extension as an item of `get_commands`."""

    name: str
    description: str | None = None
    source: Literal["extension"]
    source_info: SourceDetails
    path: str


class Flag(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: type[bool] | type[str]
    default: bool | str | None = None
    description: str | None = None


class Extension:
    """Registrations of one extension. `place` is its position in the load order."""

    def __init__(self, origin: ExtensionFile, place: int, module: str) -> None:
        self.origin = origin
        self.place = place
        self.module = module
        self.tools: dict[str, FunctionTool] = {}
        self.commands: dict[str, ExtensionCommand] = {}
        self.flags: dict[str, Flag] = {}

    @property
    def path(self) -> Path:
        return self.origin.path
