"""Find the texts of an edit and compute the byte ranges to replace."""

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from ludolf.agent.tool import ToolFailure
from ludolf.tools.lookalikes import NormalText, TextMatch, encoded, normalise


class Replacement(msgspec.Struct, frozen=True):
    old: str
    new: str


class Span(msgspec.Struct, frozen=True):
    """Put `text` in place of the bytes from `start` to `end`."""

    start: int
    end: int
    text: bytes


class _Match(msgspec.Struct, frozen=True):
    index: int
    start: int
    end: int


def plan(data: bytes, replacements: Sequence[Replacement], path: str) -> list[Span]:
    """Return the span of each replacement, in order. All are matched against the original data.

    A text is matched exactly, or else ignoring look-alikes, line endings and trailing blanks. Only
    the bytes of the match are replaced.

    Raises:
        ToolFailure: a text is empty, missing, ambiguous, or overlaps another.
    """
    _refuse_empty(replacements, path)
    old_texts = [normalise(item.old) for item in replacements]
    normal = NormalText(data, [text for text in old_texts if text])
    hits = iter(normal.hits)
    several = len(replacements) > 1
    matches = []
    for index, item in enumerate(replacements):
        hit = next(hits) if old_texts[index] else TextMatch()
        start, end, count = _exact(data, item.old)
        # Texts that look the same are ambiguous as well.
        count = max(count, hit.count)
        if count > 1:
            raise ToolFailure(_not_unique(path, index, count, several))
        place = (start, end) if end else _near(normal, hit, len(old_texts[index]))
        if place is None:
            raise ToolFailure(_not_found(path, index, several))
        matches.append(_Match(index, *place))
    matches.sort(key=lambda match: match.start)
    _refuse_overlap(matches, path)
    ending = _line_ending(data)
    news = [encoded(replacements[match.index].new.replace("\n", ending)) for match in matches]
    return [Span(match.start, match.end, new) for match, new in zip(matches, news, strict=True)]


def splice(data: bytes, spans: Sequence[Span]) -> bytes:
    """Return the data with every span replaced."""
    view = memoryview(data)
    pieces: list[bytes | memoryview] = []
    at = 0
    for span in spans:
        pieces += (view[at : span.start], span.text)
        at = span.end
    return b"".join((*pieces, view[at:]))


def _exact(data: bytes, old: str) -> tuple[int, int, int]:
    """Return start and end of the first exact occurrence and their number; all zero if none.

    A CRLF matches a newline of the old text, and is never split.
    """
    spellings = [old, old.replace("\n", "\r\n")] if "\n" in old else [old]
    for text in map(encoded, spellings):
        start = data.find(text)
        end = start + len(text)
        if start < 0 or _cuts_line_ending(data, start) or _cuts_line_ending(data, end):
            continue
        is_unique = data.find(text, start + 1) < 0
        return start, end, 1 if is_unique else max(2, data.count(text))
    return 0, 0, 0


def _cuts_line_ending(data: bytes, place: int) -> bool:
    return place > 0 and data[place - 1 : place + 1] == b"\r\n"


def _near(normal: NormalText, hit: TextMatch, size: int) -> tuple[int, int] | None:
    return normal.bytes_of(hit.first, hit.first + size) if hit.count else None


def _line_ending(data: bytes) -> str:
    """Return the line ending of the first line, which new lines get too."""
    first = data.find(b"\n")
    return "\r\n" if first > 0 and data[first - 1 : first] == b"\r" else "\n"


def _refuse_empty(replacements: Sequence[Replacement], path: str) -> None:
    if not replacements:
        raise ToolFailure(
            "Edit tool input is invalid. edits must contain at least one replacement."
        )
    for index, item in enumerate(replacements):
        if not item.old:
            name = f"edits[{index}].oldText" if len(replacements) > 1 else "oldText"
            raise ToolFailure(f"{name} must not be empty in {path}.")


def _refuse_overlap(matches: Sequence[_Match], path: str) -> None:
    for left, right in pairwise(matches):
        if right.start < left.end:
            one, other = sorted((left.index, right.index))
            raise ToolFailure(
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
