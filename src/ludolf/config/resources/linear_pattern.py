"""Search for a regular expression in linear time, in a text that arrives in parts.

The syntax is the part of Python's that needs no backtracking: characters, sets, groups,
alternatives, repeats and anchors. A search returns whether there is a match, not where. It keeps a
set of positions in the pattern (a lazily built automaton), so a character costs at most one step
for each position, whatever the pattern and the text are.
"""

import re
from collections.abc import Iterable

import msgspec

from ludolf.config.resources.linear_syntax import (
    ANCHORS,
    LONGEST_PATTERN,
    MOST_POSITIONS,
    PatternProgram,
    Unsupported,
    parse,
)

__all__ = (
    "LONGEST_PATTERN",
    "MOST_POSITIONS",
    "Budget",
    "Exhausted",
    "LinearPattern",
    "Unsupported",
)

# Maximum positions and transitions in the cache of one pattern.
_MOST_CACHED = 20_000
# Cost of a cached step, relative to a step for one position.
_CACHED_STEPS = 4
# The character before or after a position in the text.
_EDGE, _NEWLINE, _WORD, _OTHER, _LAST_NEWLINE = range(5)


class Exhausted(Exception):
    """The budget of a search is used up."""


class Budget:
    """Total steps that searches may take; one step is a visit of one position."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def spend(self, steps: int) -> None:
        """Use up steps.

        Raises:
            Exhausted: no steps are left.
        """
        self._left -= steps
        if self._left < 0:
            raise Exhausted


class _Node:
    """A set of positions of a search, and its transitions by character."""

    __slots__ = ("before", "closures", "following", "positions")

    def __init__(self, positions: frozenset[int], before: int) -> None:
        self.positions = positions
        self.before = before
        self.following: dict[str, _Node] = {}
        self.closures: dict[int, _Closure] = {}


class _Closure(msgspec.Struct, frozen=True):
    """States reachable without a character: a match, and positions that need one."""

    matches: bool
    waiting: tuple[int, ...]


_MATCH = _Node(frozenset(), _EDGE)


class LinearPattern:
    """A compiled pattern; `scan` starts a search."""

    def __init__(self, pattern: str, flags: int = 0) -> None:
        """Compile a pattern.

        Raises:
            Unsupported: the pattern uses other syntax, or is too large.
        """
        self._program: PatternProgram = parse(pattern, flags)
        self._word = re.compile(r"\w", flags & re.ASCII)
        self._has_anchors = any(step.kind in ANCHORS for step in self._program)
        self._nodes: dict[tuple[frozenset[int], int], _Node] = {}
        self._cached = 0
        self._start = _Node(frozenset((0,)), _EDGE)

    @property
    def size(self) -> int:
        """The number of positions."""
        return len(self._program)

    def scan(self) -> "Scan":
        return Scan(self)

    def search(self, text: str, budget: Budget | None = None) -> bool:
        """Return whether a text has a match.

        Raises:
            Exhausted: the budget is used up.
        """
        return self.scan().feed(text, budget)

    # ------------------------------------------------------------ steps of a scan

    def run(self, node: _Node, text: str, budget: Budget | None) -> tuple[_Node, bool]:
        """Continue at `node` with a text; return the next node and whether there was a match."""
        if budget is not None:
            budget.spend(len(text) // _CACHED_STEPS + 1)
        ends_line = self._has_anchors and text.endswith("\n")
        for char in text[:-1] if ends_line else text:
            node = node.following.get(char) or self._step(node, char, self._kind(char), budget)
            if node is _MATCH:
                return node, True
        if ends_line:
            # `$` also matches before a newline while that is the last character.
            last = self._step(node, "\n", _LAST_NEWLINE, budget)
            if last is _MATCH or self._closure(last, _EDGE, budget).matches:
                return _MATCH, True
            node = self._step(node, "\n", _NEWLINE, budget)
        return node, node is _MATCH or self._closure(node, _EDGE, budget).matches

    @property
    def start(self) -> _Node:
        return self._start

    # ------------------------------------------------------------ private

    def _step(self, node: _Node, char: str, kind: int, budget: Budget | None) -> _Node:
        closure = self._closure(node, kind, budget)
        if closure.matches:
            return _MATCH
        if budget is not None:
            budget.spend(len(closure.waiting))
        reached = [at + 1 for at in closure.waiting if self._program[at].fits(char)]
        # A match may start at any position.
        before = _NEWLINE if kind == _LAST_NEWLINE else kind
        following = self._node(frozenset((0, *reached)), before)
        if kind != _LAST_NEWLINE:
            self._count(1)
            node.following[char] = following
        return following

    def _node(self, positions: frozenset[int], before: int) -> _Node:
        key = (positions, before)
        node = self._nodes.get(key)
        if node is not None:
            return node
        self._count(len(positions))
        made = self._nodes[key] = _Node(positions, before)
        return made

    def _count(self, added: int) -> None:
        """Count a cached item; clear the cache when it is full."""
        self._cached += added
        if self._cached > _MOST_CACHED:
            for node in (self._start, *self._nodes.values()):
                node.following.clear()
                node.closures.clear()
            self._nodes.clear()
            self._cached = added

    def _closure(self, node: _Node, after: int, budget: Budget | None) -> _Closure:
        after = after if self._has_anchors or after == _EDGE else _OTHER
        closure = node.closures.get(after)
        if closure is None:
            if budget is not None:
                budget.spend(len(self._program))
            closure = self._reach(node.positions, node.before, after)
            self._count(len(closure.waiting))
            node.closures[after] = closure
        return closure

    def _reach(self, positions: Iterable[int], before: int, after: int) -> _Closure:
        program = self._program
        pending, seen = list(positions), set(positions)
        waiting: list[int] = []
        while pending:
            at = pending.pop()
            step = program[at]
            if step.kind == "match":
                return _Closure(True, ())
            if step.kind == "char":
                waiting.append(at)
                continue
            targets = step.targets
            if step.kind in ANCHORS:
                targets = (at + 1,) if _holds(step.kind, before, after) else ()
            for target in targets:
                if target not in seen:
                    seen.add(target)
                    pending.append(target)
        return _Closure(False, tuple(waiting))

    def _kind(self, char: str) -> int:
        if not self._has_anchors:
            return _OTHER
        if char == "\n":
            return _NEWLINE
        return _WORD if self._word.match(char) else _OTHER


class Scan:
    """One search in a text that arrives in parts."""

    __slots__ = ("_node", "_pattern")

    def __init__(self, pattern: LinearPattern) -> None:
        self._pattern = pattern
        self._node = pattern.start

    def feed(self, text: str, budget: Budget | None = None) -> bool:
        """Return whether the text so far has a match; the search restarts after one.

        Raises:
            Exhausted: the budget is used up.
        """
        self._node, matched = self._pattern.run(self._node, text, budget)
        if matched:
            self._node = self._pattern.start
        return matched


def _holds(anchor: str, before: int, after: int) -> bool:
    match anchor:
        case "start":
            return before == _EDGE
        case "line start":
            return before in (_EDGE, _NEWLINE)
        case "end":
            return after in (_EDGE, _LAST_NEWLINE)
        case "line end":
            return after in (_EDGE, _NEWLINE, _LAST_NEWLINE)
        case "very end":
            return after == _EDGE
        case "boundary":
            return (before == _WORD) != (after == _WORD)
        case _:
            return (before == _WORD) == (after == _WORD)
