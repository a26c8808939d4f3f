"""Search for a regular expression in linear time, in a text that arrives in parts.

The syntax is the part of Python's that needs no backtracking: characters, sets, groups,
alternatives, repeats and anchors. A search returns whether there is a match, not where. It keeps a
set of positions in the pattern (a lazily built automaton), so a character costs at most one step
for each position, whatever the pattern and the text are.
"""

import re
from collections.abc import Iterable
from typing import Literal, get_args

import msgspec

from ludolf.base import LudolfError
from ludolf.base.patterns import lazy_pattern

MOST_POSITIONS = 1000
LONGEST_PATTERN = 2000
_DEEPEST = 50
Anchor = Literal["start", "line start", "end", "line end", "very end", "boundary", "no boundary"]
ANCHORS = frozenset(get_args(Anchor))
_ESCAPED_ANCHORS: dict[str, Anchor] = {
    "A": "start",
    "Z": "very end",
    "b": "boundary",
    "B": "no boundary",
}
_SET = lazy_pattern(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
# A range over characters beyond ASCII takes long to compile if case is ignored.
_WIDE_RANGE = lazy_pattern(r"[^\x00-\x7f]|\\[xuUN0-7]")
_ESCAPE = lazy_pattern(
    r"\\(?:x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|[^\da-zA-Z]|[dDwWsSaftnrv])"
)
_REPEAT = lazy_pattern(r"(?:[*+?]|\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\})")
_GROUP = lazy_pattern(r"\((?:\?:|\?P<\w+>|(?!\?))")


class Unsupported(LudolfError):
    """A pattern is too large, or uses syntax that a linear search does not support."""


class PatternStep:
    """One position of a program: a character, a fork, an anchor, or the match."""

    __slots__ = ("kind", "pattern", "targets")

    def __init__(
        self,
        kind: Literal["char", "fork", "match"] | Anchor,
        pattern: "re.Pattern[str] | None" = None,
    ) -> None:
        self.kind = kind
        self.targets: tuple[int, ...] = ()
        self.pattern = pattern

    def fits(self, char: str) -> bool:
        return self.pattern is not None and self.pattern.match(char) is not None


PatternProgram = list[PatternStep]


class Choice(msgspec.Struct):
    options: "list[Node]"


class Repeat(msgspec.Struct):
    item: "Node"
    least: int
    most: int | None


# A list is a sequence.
Node = PatternStep | list["Node"] | Choice | Repeat


def parse(pattern: str, flags: int) -> PatternProgram:
    """Parse a pattern.

    Raises:
        Unsupported: the pattern uses other syntax, or is too large.
    """
    if flags & ~(re.IGNORECASE | re.MULTILINE | re.DOTALL | re.ASCII):
        raise Unsupported("its flags are not supported")
    if len(pattern) > LONGEST_PATTERN:
        raise Unsupported(f"it is longer than {LONGEST_PATTERN} characters")
    tree = _Parser(pattern, flags).whole()
    writer = _Writer()
    writer.write(tree)
    writer.add(PatternStep("match"))
    return writer.program


class _Parser:
    def __init__(self, text: str, flags: int) -> None:
        self._text = text
        self._flags = flags
        self._at = 0
        self._depth = 0
        self._characters: dict[str, re.Pattern[str]] = {}

    def whole(self) -> Node:
        tree = self._choice()
        if self._at < len(self._text):
            raise Unsupported("it has an unmatched closing parenthesis")
        return tree

    def _choice(self) -> Node:
        options = [self._sequence()]
        while self._text.startswith("|", self._at):
            self._at += 1
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(options)

    def _sequence(self) -> Node:
        sequence: list[Node] = []
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            sequence.append(self._repeated(self._item()))
        return sequence

    def _item(self) -> Node:
        char = self._text[self._at]
        match char:
            case "(":
                return self._group()
            case "[":
                return self._character(self._taken(_SET))
            case "\\":
                return self._escaped()
            case "^":
                self._at += 1
                return PatternStep("line start" if self._flags & re.MULTILINE else "start")
            case "$":
                self._at += 1
                return PatternStep("line end" if self._flags & re.MULTILINE else "end")
            case "*" | "+" | "?":
                raise Unsupported("it has a repeat without an operand")
            case _:
                self._at += 1
                return self._character(char if char == "." else re.escape(char))

    def _group(self) -> Node:
        self._taken(_GROUP)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unsupported("its groups are nested too deeply")
        inside = self._choice()
        if not self._text.startswith(")", self._at):
            raise Unsupported("it lacks a closing parenthesis")
        self._at += 1
        self._depth -= 1
        return inside

    def _escaped(self) -> Node:
        anchor = _ESCAPED_ANCHORS.get(self._text[self._at + 1 : self._at + 2])
        if anchor is not None:
            self._at += 2
            return PatternStep(anchor)
        return self._character(self._taken(_ESCAPE))

    def _repeated(self, item: Node) -> Node:
        match = _REPEAT.match(self._text, self._at)
        if match is None or match[0] in ("{}", "{,}"):
            return item
        self._at = match.end()
        if self._text.startswith("+", self._at):
            raise Unsupported("it has a possessive repeat")
        if self._text.startswith("?", self._at):
            self._at += 1  # laziness does not change whether a pattern matches
        if match[0] in ("*", "+", "?"):
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[match[0]]
            return Repeat(item, least, most)
        low = int(match["least"] or 0)
        high = (int(match["most"]) if match["most"] else None) if match["comma"] else low
        return Repeat(item, low, high)

    def _taken(self, shape: "re.Pattern[str]") -> str:
        match = shape.match(self._text, self._at)
        if match is None:
            raise Unsupported("its syntax is not supported")
        self._at = match.end()
        return match[0]

    def _character(self, text: str) -> PatternStep:
        if text not in self._characters:
            wide = self._flags & re.IGNORECASE and "-" in text and _WIDE_RANGE.search(text)
            if wide:
                raise Unsupported("it has a range of characters that are not ASCII")
            try:
                self._characters[text] = re.compile(text, self._flags)
            except (re.error, OverflowError) as error:
                raise Unsupported(str(error)) from error
        return PatternStep("char", self._characters[text])


class _Writer:
    """Compile a tree to a sequence of steps."""

    def __init__(self) -> None:
        self.program: PatternProgram = []
        self._parts = 0

    def add(self, step: PatternStep) -> PatternStep:
        if len(self.program) >= MOST_POSITIONS:
            raise Unsupported(f"it has more than {MOST_POSITIONS} positions")
        self.program.append(step)
        return step

    def write(self, tree: Node) -> None:
        self._parts += 1
        # Empty parts add no position, but may be repeated too.
        if self._parts > 10 * MOST_POSITIONS:
            raise Unsupported(f"it has more than {MOST_POSITIONS} positions")
        match tree:
            case PatternStep():
                self.add(PatternStep(tree.kind, tree.pattern))
            case list():
                for item in tree:
                    self.write(item)
            case Choice():
                self._write_choice(tree.options)
            case Repeat():
                self._write_repeat(tree)

    def _write_choice(self, options: list[Node]) -> None:
        ends: list[PatternStep] = []
        for option in options[:-1]:
            fork = self.add(PatternStep("fork"))
            here = len(self.program)
            self.write(option)
            ends.append(self.add(PatternStep("fork")))
            fork.targets = (here, len(self.program))
        self.write(options[-1])
        for end in ends:
            end.targets = (len(self.program),)

    def _write_repeat(self, tree: Repeat) -> None:
        for _ in range(tree.least):
            self.write(tree.item)
        if tree.most is None:
            fork = self.add(PatternStep("fork"))
            here = len(self.program)
            self.write(tree.item)
            self.add(PatternStep("fork")).targets = (here - 1,)
            fork.targets = (here, len(self.program))
            return
        forks: list[tuple[PatternStep, int]] = []
        for _ in range(tree.most - tree.least):
            fork = self.add(PatternStep("fork"))
            forks.append((fork, len(self.program)))
            self.write(tree.item)
        for fork, here in forks:
            fork.targets = (here, len(self.program))


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
        self.start = _Node(frozenset((0,)), _EDGE)

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
            for node in (self.start, *self._nodes.values()):
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
