"""Parse the part of Python's regular expressions that a linear search supports."""

import re
from typing import Literal

from ludolf.base import LudolfError

MOST_POSITIONS = 1000
LONGEST_PATTERN = 2000
_DEEPEST = 50
Anchor = Literal["start", "line start", "end", "line end", "very end", "boundary", "no boundary"]
ANCHORS = frozenset(
    ("start", "line start", "end", "line end", "very end", "boundary", "no boundary")
)
_ESCAPED_ANCHORS: dict[str, Anchor] = {
    "A": "start",
    "Z": "very end",
    "b": "boundary",
    "B": "no boundary",
}
_SET = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
# A range over characters beyond ASCII takes long to compile if case is ignored.
_WIDE_RANGE = re.compile(r"[^\x00-\x7f]|\\[xuUN0-7]")
_ESCAPE = re.compile(
    r"\\(?:x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|[^\da-zA-Z]|[dDwWsSaftnrv])"
)
_REPEAT = re.compile(r"(?:[*+?]|\{(?P<least>\d*)(?P<comma>,?)(?P<most>\d*)\})")
_GROUP = re.compile(r"\((?:\?:|\?P<\w+>|(?!\?))")


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


class Leaf:
    def __init__(self, step: PatternStep) -> None:
        self.step = step


class Sequence:
    def __init__(self) -> None:
        self.items: list[Node] = []


class Choice:
    def __init__(self, options: "list[Node]") -> None:
        self.options = options


class Repeat:
    def __init__(self, item: "Node", least: int, most: int | None) -> None:
        self.item = item
        self.least = least
        self.most = most


Node = Leaf | Sequence | Choice | Repeat


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
        sequence = Sequence()
        while self._at < len(self._text) and self._text[self._at] not in "|)":
            sequence.items.append(self._repeated(self._item()))
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
                return Leaf(PatternStep("line start" if self._flags & re.MULTILINE else "start"))
            case "$":
                self._at += 1
                return Leaf(PatternStep("line end" if self._flags & re.MULTILINE else "end"))
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
            return Leaf(PatternStep(anchor))
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

    def _character(self, text: str) -> Leaf:
        if text not in self._characters:
            wide = self._flags & re.IGNORECASE and "-" in text and _WIDE_RANGE.search(text)
            if wide:
                raise Unsupported("it has a range of characters that are not ASCII")
            try:
                self._characters[text] = re.compile(text, self._flags)
            except (re.error, OverflowError) as error:
                raise Unsupported(str(error)) from error
        return Leaf(PatternStep("char", self._characters[text]))


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
            case Leaf():
                self.add(_copy(tree.step))
            case Sequence():
                for item in tree.items:
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


def _copy(step: PatternStep) -> PatternStep:
    return PatternStep(step.kind, step.pattern)
