"""Find the texts that an edit names and work out what to put where, without touching the rest."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from ludolf.agent.tool import ToolError

_LOOKALIKES = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u202f\u205f\u3000", " "),
        **dict.fromkeys(map(chr, range(0x2002, 0x200B)), " "),
    }
)


class Replacement(msgspec.Struct, frozen=True):
    old: str
    new: str


class Span(msgspec.Struct, frozen=True):
    """Put `text` in place of `start` to `end`."""

    start: int
    end: int
    text: str


class _Match(msgspec.Struct, frozen=True):
    index: int
    start: int
    end: int
    new: str


def plan(text: str, replacements: Sequence[Replacement], path: str) -> list[Span]:
    """Where each replacement goes, in order. All are matched against the text as it is.

    Raises:
        ToolError: a text is empty, missing, ambiguous, or overlaps another.
    """
    several = len(replacements) > 1
    _refuse_empty(replacements, path, several)
    exact = all(item.old in text for item in replacements)
    normal = normalise(text)
    source = text if exact else normal
    matches = []
    for index, item in enumerate(replacements):
        wanted = item.old if exact else normalise(item.old)
        start = source.find(wanted) if wanted else -1
        if start < 0:
            raise ToolError(_not_found(path, index, several))
        # Counted without regard to blanks and look-alikes: what looks the same is ambiguous.
        alike = normalise(item.old)
        count = normal.count(alike) if alike else text.count(item.old)
        if count > 1:
            raise ToolError(_not_unique(path, index, count, several))
        matches.append(_Match(index, start, start + len(wanted), item.new))
    matches.sort(key=lambda match: match.start)
    _refuse_overlap(matches, path)
    if exact:
        return [Span(match.start, match.end, match.new) for match in matches]
    return _line_spans(text, normal, matches)


def splice(text: str, spans: Sequence[Span]) -> str:
    """The text with every span replaced."""
    pieces: list[str] = []
    at = 0
    for span in spans:
        pieces += (text[at : span.start], span.text)
        at = span.end
    return "".join((*pieces, text[at:]))


def normalise(text: str) -> str:
    """The text without the differences that models overlook; it keeps its lines."""
    if not text.isascii():
        from unicodedata import normalize

        text = normalize("NFKC", text).translate(_LOOKALIKES)
    return "\n".join(map(str.rstrip, text.split("\n")))


def _line_spans(text: str, normal: str, matches: Sequence[_Match]) -> list[Span]:
    """Spans of whole lines: a touched line takes its normal form, all others keep their bytes."""
    lines, normal_lines = _Lines(text), _Lines(normal)
    spans: list[Span] = []
    group: list[_Match] = []
    for match in matches:
        if group and normal_lines.first(match) >= normal_lines.after(group[-1]):
            spans.append(_group_span(lines, normal_lines, group))
            group = []
        group.append(match)
    spans.append(_group_span(lines, normal_lines, group))
    return spans


def _group_span(lines: "_Lines", normal: "_Lines", group: Sequence[_Match]) -> Span:
    first, after = normal.first(group[0]), normal.after(group[-1])
    start, end = normal.start(first), normal.start(after)
    inner = [Span(match.start - start, match.end - start, match.new) for match in group]
    return Span(lines.start(first), lines.start(after), splice(normal.text[start:end], inner))


class _Lines:
    """Where the lines of a text begin; each owns its newline."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(found.end() for found in re.finditer("\n", text))]

    def start(self, line: int) -> int:
        return self._starts[line] if line < len(self._starts) else len(self.text)

    def first(self, match: _Match) -> int:
        return bisect_right(self._starts, match.start) - 1

    def after(self, match: _Match) -> int:
        """The first line that the match leaves alone."""
        return max(bisect_left(self._starts, match.end), self.first(match) + 1)


def _refuse_empty(replacements: Sequence[Replacement], path: str, several: bool) -> None:
    if not replacements:
        raise ToolError("Edit tool input is invalid. edits must contain at least one replacement.")
    for index, item in enumerate(replacements):
        if not item.old:
            name = f"edits[{index}].oldText" if several else "oldText"
            raise ToolError(f"{name} must not be empty in {path}.")


def _refuse_overlap(matches: Sequence[_Match], path: str) -> None:
    for left, right in pairwise(matches):
        if right.start < left.end:
            one, other = sorted((left.index, right.index))
            raise ToolError(
                f"edits[{one}] and edits[{other}] overlap in {path}. "
                "Merge them into one edit or target disjoint regions."
            )


def _not_found(path: str, index: int, several: bool) -> str:
    rule = "must match exactly including all whitespace and newlines."
    if several:
        return f"Could not find edits[{index}] in {path}. The oldText {rule}"
    return f"Could not find the exact text in {path}. The old text {rule}"


def _not_unique(path: str, index: int, count: int, several: bool) -> str:
    advice = "Please provide more context to make it unique."
    if several:
        what = f"Found {count} occurrences of edits[{index}] in {path}. Each oldText"
    else:
        what = f"Found {count} occurrences of the text in {path}. The text"
    return f"{what} must be unique. {advice}"
