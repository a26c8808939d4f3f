"""Measure schemas: how deep they are nested, and how much their references stand for."""

from collections.abc import Iterable, Mapping
from typing import Any

# Limits of a schema that a validator may apply: schemas that references stand for, and steps of
# counting them.
_MAX_REFERENCED = 2000
_MAX_STEPS = 100_000
_LONGEST_CHAIN = 64


def is_deeper(value: Any, levels: int) -> bool:
    """Return whether arrays and objects of JSON are nested deeper than a number of levels."""
    layer = [value] if isinstance(value, dict | list) else []
    depth = 0
    while layer and depth <= levels:
        depth += 1
        layer = [
            inner for each in layer for inner in children(each) if isinstance(inner, dict | list)
        ]
    return depth > levels


def children(value: dict[str, Any] | list[Any]) -> Iterable[Any]:
    """Return the values of an object or the items of an array."""
    return value.values() if isinstance(value, dict) else value


def is_cheap_to_apply(schema: Mapping[str, Any]) -> bool:
    """Return whether a validator can apply the schema in reasonable time.

    References to references can multiply: thirty short definitions stand for a billion schemas.
    """
    return _References(schema).count(schema, ()) <= _MAX_REFERENCED


class _References:
    """Counts the schemas that the references of a document stand for."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._counts: dict[str, int] = {}
        self._steps = 0

    def count(self, schema: Any, chain: tuple[str, ...]) -> int:
        total = 0
        waiting = [schema]
        while waiting and total <= _MAX_REFERENCED:
            each = waiting.pop()
            self._steps += 1
            if self._steps > _MAX_STEPS:
                return _MAX_REFERENCED + 1
            if isinstance(each, dict) and isinstance(each.get("$ref"), str):
                total += self._of(each["$ref"], chain)
            if isinstance(each, dict | list):
                waiting.extend(children(each))
        return total

    def _of(self, reference: str, chain: tuple[str, ...]) -> int:
        if reference in chain:
            return 1
        if len(chain) >= _LONGEST_CHAIN:
            return _MAX_REFERENCED + 1
        if reference not in self._counts:
            target = local_target(self._root, reference)
            self._counts[reference] = 1 + self.count(target, (*chain, reference))
        return self._counts[reference]


def local_target(root: Mapping[str, Any], reference: Any) -> Mapping[str, Any] | None:
    """Return the schema of the same document that a reference names; None if there is none."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: Any = root
    for step in filter(None, reference[1:].split("/")):
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None
