"""Search one answer for the patterns of stream rules, within a budget for untrusted ones."""

from typing import TYPE_CHECKING

from ludolf.ai.draft import BlockDelta
from ludolf.config.resources.linear_pattern import Budget, Exhausted, LinearPattern, Scan

if TYPE_CHECKING:
    from ludolf.config.resources.rules import StreamRule

# A pattern that is not searched in linear time sees this much of what came before a piece; all of
# it when the block is whole.
WINDOW = 8192
# Steps for all rules of a project that is not trusted, for one answer; less than a second.
STEPS = 2_000_000


class RuleSearch:
    """Made for one answer, whose blocks arrive in pieces."""

    def __init__(self) -> None:
        self.is_exhausted = False
        self._budget = Budget(STEPS)
        self._piece = ""
        self._seen: dict[int, str] = {}
        self._scans: dict[tuple[str, int], list[Scan]] = {}

    def add(self, event: BlockDelta) -> None:
        """Take a piece of a block; ask `in_stream` for each rule afterwards."""
        self._piece = event.delta
        self._seen[event.index] = self._seen.get(event.index, "")[-WINDOW:] + event.delta

    def in_stream(self, rule: "StreamRule", index: int) -> bool:
        """Whether a block matches a rule so far; each piece must be asked about once."""
        key = (rule.name, index)
        if key not in self._scans:
            linear = [each for each in rule.patterns if isinstance(each, LinearPattern)]
            self._scans[key] = [pattern.scan() for pattern in linear]
        return self._has_match(rule, self._scans[key], self._piece, self._seen[index])

    def in_text(self, rule: "StreamRule", text: str) -> bool:
        """Whether a whole text matches a rule."""
        linear = [each for each in rule.patterns if isinstance(each, LinearPattern)]
        return self._has_match(rule, [pattern.scan() for pattern in linear], text, text)

    def _has_match(self, rule: "StreamRule", scans: list[Scan], piece: str, text: str) -> bool:
        if not rule.trusted and self.is_exhausted:
            return False
        budget = None if rule.trusted else self._budget
        try:
            found = [scan.feed(piece, budget) for scan in scans]
        except Exhausted:
            self.is_exhausted = True
            return False
        wild = (each for each in rule.patterns if not isinstance(each, LinearPattern))
        return any(found) or any(pattern.search(text) for pattern in wild)
