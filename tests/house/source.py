"""The package as parsed source: what the house tests look at."""

import ast
from collections.abc import Iterator
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
        for node in ast.walk(self.tree):
            if isinstance(node, Function):
                yield node

    def calls(self) -> Iterator[ast.Call]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                yield node


class Import(msgspec.Struct, frozen=True, eq=False):
    """One name that a module imports. `eager` means: at import, not in a function or for types."""

    module: Module
    name: str
    node: ast.Import | ast.ImportFrom
    eager: bool

    @property
    def where(self) -> str:
        return self.module.at(self.node)


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package."""
    return tuple(_read(path) for path in sorted((SOURCE / "ludolf").rglob("*.py")))


@cache
def imports() -> tuple[Import, ...]:
    """Every import in the package, wherever it stands."""
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
