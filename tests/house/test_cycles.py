"""Rings of imports stay small, whatever the kind: at import, in a function, or for types only."""

from collections.abc import Iterable, Iterator, Mapping

from tests.house.source import imports, modules

LARGEST_CYCLE = 3

Graph = Mapping[str, set[str]]


def _graph() -> Graph:
    """The modules that each module imports; its own packages are left out."""
    graph: dict[str, set[str]] = {module.name: set() for module in modules()}
    for found in imports():
        name = found.module.name
        if found.name in graph and not f"{name}.".startswith(f"{found.name}."):
            graph[name].add(found.name)
    return graph


def _reversed(graph: Graph) -> Graph:
    turned: dict[str, set[str]] = {name: set() for name in graph}
    for name, targets in graph.items():
        for target in targets:
            turned[target].add(name)
    return turned


def _reached(start: str, graph: Graph, seen: set[str]) -> Iterator[str]:
    """Everything that can be reached and was not seen yet; a node comes after those it leads to."""
    seen.add(start)
    stack = [(start, iter(sorted(graph[start])))]
    while stack:
        node, targets = stack[-1]
        following = next((target for target in targets if target not in seen), None)
        if following is None:
            stack.pop()
            yield node
        else:
            seen.add(following)
            stack.append((following, iter(sorted(graph[following]))))


def _components(graph: Graph) -> Iterable[tuple[str, ...]]:
    """The sets of modules that reach each other, by the algorithm of Kosaraju."""
    seen: set[str] = set()
    order = [node for name in graph if name not in seen for node in _reached(name, graph, seen)]
    turned, seen = _reversed(graph), set()
    for name in reversed(order):
        if name not in seen:
            yield tuple(sorted(_reached(name, turned, seen)))


def test_components_are_found_in_a_small_graph() -> None:
    graph: Graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set()}
    assert sorted(_components(graph)) == [("a", "b", "c"), ("d",), ("e",)]


def test_no_ring_of_imports_is_larger_than_the_limit() -> None:
    large = [ring for ring in _components(_graph()) if len(ring) > LARGEST_CYCLE]
    assert not large, "\n".join(f"{len(ring)}: {', '.join(ring)}" for ring in large)
