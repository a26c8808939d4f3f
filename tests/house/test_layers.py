"""Rooms import only what stands below them, and no module reaches itself by import."""

import graphlib

from tests.house.source import imports, modules

_LOW = ("base", "ai")
_TO_PROTOCOL = (*_LOW, "agent", "tools", "session", "config", "protocol")
_TO_ENGINE = (*_TO_PROTOCOL, "mcp", "functions", "extensions", "page", "engine")

# Every room may import itself and the package's version. Siblings may not import each other.
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "": ("sdk", "fleet"),
    "base": (),
    "ai": ("base",),
    "agent": _LOW,
    "tools": (*_LOW, "agent"),
    "session": _LOW,
    "config": _LOW,
    "functions": (*_LOW, "agent"),
    "mcp": (*_LOW, "agent", "tools"),
    "protocol": (*_LOW, "agent", "session"),
    "page": (*_LOW, "agent", "session"),
    "extensions": (*_TO_PROTOCOL, "functions"),
    "ext": (*_TO_PROTOCOL, "functions", "extensions"),
    "engine": (*_TO_PROTOCOL, "mcp", "functions", "extensions", "page"),
    "rpc": _TO_ENGINE,
    "serve": (*_TO_ENGINE, "rpc"),
    "acp": (*_TO_ENGINE, "rpc"),
    "client": (*_LOW, "agent", "session", "config", "protocol", "functions"),
    "tui": (*_LOW, "agent", "session", "config", "protocol", "page", "client"),
    "sdk": _TO_ENGINE,
    "fleet": (*_TO_ENGINE, "sdk", "client"),
    "cli": (*_TO_ENGINE, "rpc", "acp", "serve", "client", "tui", "fleet"),
    "__main__": ("cli",),
}


def test_every_module_belongs_to_a_room() -> None:
    assert {module.room for module in modules()} <= set(MAY_IMPORT)


def test_rooms_import_only_lower_rooms() -> None:
    wrong = []
    for found in imports():
        package, _, rest = found.name.partition(".")
        here, there = found.module.room, rest.partition(".")[0]
        if package == "ludolf" and there not in ("", here, *MAY_IMPORT.get(here, ())):
            wrong.append(f"{found.where}: {here} imports {there}")
    assert not wrong, "\n".join(wrong)


def test_no_module_imports_itself_in_a_ring() -> None:
    graph: dict[str, set[str]] = {module.name: set() for module in modules()}
    for found in imports():
        if found.eager and found.name in graph and found.name != found.module.name:
            graph[found.module.name].add(found.name)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        raise AssertionError(" imports ".join(reversed(error.args[1]))) from None


def test_imports_are_absolute() -> None:
    wrong = [found.where for found in imports() if getattr(found.node, "level", 0)]
    assert not wrong, "\n".join(wrong)
