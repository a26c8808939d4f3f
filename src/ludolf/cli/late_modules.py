"""Make imports cheaper: fewer modules before the first reply, and fewer system calls for each.

Modules that libraries import early and the first reply does not need are loaded on first use. Only
the program does this; a process that imports ludolf as a library keeps its own imports.
`importlib.util.LazyLoader` does the same, but before Python 3.13 a second thread may see a module
that is half loaded, and a second `import` of the module loads it.
"""

# What importlib.machinery offers; to import that would load four modules.
import _frozen_importlib_external as machinery
import os
import sys
from collections.abc import Sequence
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

# Only modules without submodules. Otherwise two threads could wait for each other: one loads a
# package here and imports its submodule, the other imports the submodule and uses the package.
LATE = frozenset(
    (
        "asyncio.sslproto",
        "asyncio.staggered",
        "asyncio.trsock",
        "inspect",
        "ipaddress",
        "linecache",
        "locale",
        "msgspec.inspect",
        "msgspec.msgpack",
        "msgspec.toml",
        "msgspec.yaml",
        "ntpath",
        "ssl",
        "textwrap",
        "tokenize",
    )
)
_EVENT_LOOPS, _SOCKET_CHECK = "asyncio.base_events", "_check_ssl_socket"
_loading = RLock()


class LateModule(ModuleType):
    """A module whose code runs when one of its names is first used; other threads wait for it."""

    def __getattribute__(self, name: str) -> Any:
        if name == "__spec__":  # `import` reads it if the module was imported before
            return ModuleType.__getattribute__(self, name)
        with _loading:
            loader = ModuleType.__getattribute__(self, "__spec__").loader
            if isinstance(loader, _LateLoader):
                loader.load(self)
            # Not `super()`: another thread may have loaded the module and changed its class.
            return ModuleType.__getattribute__(self, name)


class _LateLoader:
    """Takes the place of the loader of a module until the module is used."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def create_module(self, spec: "ModuleSpec") -> ModuleType | None:
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__class__ = LateModule

    def load(self, module: ModuleType) -> None:
        """Run the code of the module, whose first use this is."""
        spec: Any = module.__spec__
        spec.loader = self._loader
        try:
            spec.loader.exec_module(module)
        except BaseException:
            spec.loader = self
            raise
        module.__loader__ = self._loader
        module.__class__ = ModuleType


class _EventLoopsLoader(_LateLoader):
    """Loads asyncio's event loops at once, so that a connection without TLS does not load ssl.

    They ask of each socket whether it is a socket of the module ssl. A plain socket is not.
    """

    def exec_module(self, module: Any) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        check = getattr(module, _SOCKET_CHECK, None)
        if check is not None:
            plain = module.socket.socket
            setattr(module, _SOCKET_CHECK, lambda sock: type(sock) is plain or check(sock))


class _LateFinder:
    """Finds the modules of `LATE`, and asyncio's event loops, where Python finds them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> "ModuleSpec | None":
        loader = _LateLoader
        if name == _EVENT_LOOPS:
            loader = _EventLoopsLoader
        elif name not in LATE or (name == "ssl" and machinery.PathFinder.find_spec("_ssl") is None):
            return None  # a Python without TLS must fail where ssl is imported
        spec: ModuleSpec | None = machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = loader(spec.loader)  # type: ignore[assignment]  # has its methods
        return spec


def load_late() -> None:
    """Load the modules of `LATE` that are imported from now on when they are first used."""
    sys.meta_path.insert(0, _LateFinder())


def read_modules_at_once() -> None:
    """Read the file of each module with one call, without the checks that opening a file does."""
    machinery.SourceFileLoader.get_data = _read_whole  # type: ignore[method-assign,assignment]


def _read_whole(_loader: Any, path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        data = os.read(descriptor, size + 1)
        while len(data) < size and (more := os.read(descriptor, size)):
            data += more
        return data
    finally:
        os.close(descriptor)


def import_msgspec() -> None:
    """Import msgspec without typing_extensions: it needs nothing that typing of Python 3.11 lacks.

    Importing None raises ImportError, which msgspec expects.
    """
    modules: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]  # documented
    is_loaded = "typing_extensions" in modules
    if not is_loaded:
        modules["typing_extensions"] = None
    try:
        import msgspec as msgspec
    finally:
        if not is_loaded:
            del modules["typing_extensions"]
