"""The package as parsed source: what the house tests look at."""

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import msgspec

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(msgspec.Struct, frozen=True, eq=False):
    """One file of the package; `place` is its path below the package."""

    name: str
    place: str
    lines: int
    tree: ast.Module

    @property
    def room(self) -> str:
        """The part of the house it belongs to; "" for the package's own __init__."""
        return self.name.partition(".")[2].partition(".")[0]

    def at(self, node: ast.stmt | ast.expr | ast.excepthandler) -> str:
        return f"{self.place}:{node.lineno}"

    def functions(self) -> Iterator[Function]:
        return (node for node in self.nodes() if isinstance(node, Function))

    def calls(self) -> Iterator[ast.Call]:
        return (node for node in self.nodes() if isinstance(node, ast.Call))

    def nodes(self) -> tuple[ast.AST, ...]:
        """Every node, as `ast.walk` gives them."""
        return _nodes(self.tree)


@cache
def _nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    with _no_collection():
        return tuple(ast.walk(tree))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Hold the garbage collector: it would look at every node of all trees again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class Import(msgspec.Struct, frozen=True, eq=False):
    """One name that a module imports. `eager` means: at import, not in a function or for types."""

    module: Module
    name: str
    node: ast.Import | ast.ImportFrom
    eager: bool

    @property
    def where(self) -> str:
        return self.module.at(self.node)


def dotted(node: ast.expr) -> str:
    """Return a name with its attributes, such as `os.path.join`; `?` is any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    first = node.id if isinstance(node, ast.Name) else "?"
    return ".".join((first, *reversed(parts)))


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package."""
    with _no_collection():
        found = tuple(_read(path) for path in sorted((SOURCE / "ludolf").rglob("*.py")))
        gc.freeze()  # they live to the end
    return found


@cache
def imports() -> tuple[Import, ...]:
    """Every import in the package, wherever it stands."""
    with _no_collection():
        return tuple(found for module in modules() for found in _imports(module))


def _read(path: Path) -> Module:
    text = path.read_text()
    parts = path.relative_to(SOURCE).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    place = path.relative_to(SOURCE / "ludolf").as_posix()
    return Module(name, place, text.count("\n"), ast.parse(text, place))


def _imports(module: Module) -> Iterator[Import]:
    for node, eager in _walk(module.tree, eager=True):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node, eager)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield Import(module, _target(node.module or "", alias.name), node, eager)


def _target(module: str, name: str) -> str:
    """The module behind `from module import name`: the name itself may be one."""
    whole = f"{module}.{name}"
    return whole if module.split(".")[0] == "ludolf" and whole in _names() else module


@cache
def _names() -> frozenset[str]:
    return frozenset(module.name for module in modules())


def _walk(node: ast.AST, *, eager: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        now = eager and not isinstance(child, Function | ast.Lambda) and not _for_types(child)
        yield child, now
        yield from _walk(child, eager=now)


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
