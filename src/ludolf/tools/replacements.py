"""Find the texts of an edit and compute the byte ranges to replace.

A text that does not occur exactly is found ignoring look-alike characters, line endings and
trailing blanks; each match is mapped back to the bytes of the file. The file is normalised in
pieces of about 64 KiB: it needs no second copy in memory, and no single call blocks for long.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import accumulate, pairwise

import msgspec

from ludolf.agent.tool import ToolFailure
from ludolf.base.patterns import lazy_pattern

_PIECE = 1 << 16
_WINDOW = 1 << 20
# In a very long line, bytes beyond the piece size within which to look for a place to cut.
_REACH = 1 << 12
# Bytes that begin a visible character that never combines with the one before it.
_CUT = lazy_pattern(rb"[!-~\xc3\xd0\xd1\xe4-\xe9]")
_BLANK_END = lazy_pattern(r"[ \t\r\x0b\x0c\x1c-\x1f]\n")
# Sorting long runs of combining marks takes quadratic time. Unicode's own limit is 30.
_LONGEST_RUN_OF_MARKS = 32
_LOOKALIKES = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u00a0\u202f\u205f\u3000", " "),
        **dict.fromkeys(map(chr, range(0x2002, 0x200B)), " "),
    }
)
_ANY_LOOKALIKE = lazy_pattern(f"[{''.join(map(chr, _LOOKALIKES))}]")


class Replacement(msgspec.Struct, frozen=True):
    old: str
    new: str


class Span(msgspec.Struct, frozen=True):
    """Put `text` in place of the bytes from `start` to `end`."""

    start: int
    end: int
    text: bytes


def plan(data: bytes, replacements: Sequence[Replacement], path: str) -> list[Span]:
    """Return the span of each replacement, in order. All are matched against the original data.

    A text is matched exactly, or else ignoring look-alikes, line endings and trailing blanks. Only
    the bytes of the match are replaced.

    Raises:
        ToolFailure: a text is empty, missing, ambiguous, or overlaps another.
    """
    _refuse_empty(replacements, path)
    old_texts = [_normalise(item.old) for item in replacements]
    normal = _NormalText(data, [text for text in old_texts if text])
    hits = iter(normal.hits)
    several = len(replacements) > 1
    matches: list[tuple[int, int, int]] = []
    for index, item in enumerate(replacements):
        hit = next(hits) if old_texts[index] else _TextMatch()
        start, end, count = _exact(data, item.old)
        # Texts that look the same are ambiguous as well.
        count = max(count, hit.count)
        if count > 1:
            raise ToolFailure(_not_unique(path, index, count, several))
        place = (start, end) if end else None
        if place is None and hit.count:
            place = normal.bytes_of(hit.first, hit.first + len(old_texts[index]))
        if place is None:
            raise ToolFailure(_not_found(path, index, several))
        matches.append((*place, index))
    matches.sort()
    _refuse_overlap(matches, path)
    ending = _line_ending(data)
    news = [encoded(item.new.replace("\n", ending)) for item in replacements]
    return [Span(start, end, news[index]) for start, end, index in matches]


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


def _refuse_overlap(matches: Sequence[tuple[int, int, int]], path: str) -> None:
    for (_, end, left), (start, _, right) in pairwise(matches):
        if start < end:
            one, other = sorted((left, right))
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


# ---------------------------------------------------------------- look-alikes


class _TextMatch(msgspec.Struct):
    """Place of the first occurrence in the normalised file (-1 if none), and the count.

    Occurrences that overlap the first one count too.
    """

    first: int = -1
    count: int = 0


def _normalise(text: str) -> str:
    """Return the text without the differences that models overlook; lines are kept."""
    data = encoded(text)
    cuts = list(_cuts(data))
    return "".join(_normal(decoded(data[start:end]), last=end == len(data)) for start, end in cuts)


def encoded(text: str) -> bytes:
    """Encode as UTF-8; `decoded` restores lone surrogates, which host documents may contain."""
    return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


class _NormalText:
    """The normalised content of a file, searched for several texts in one pass."""

    def __init__(self, data: bytes, texts: Sequence[str]) -> None:
        """Every text of `texts` must be normalised and not empty."""
        self._data = data
        self._cuts: list[tuple[int, int]] = []
        self._starts: list[int] = []
        self.hits = [_TextMatch() for _ in texts]
        base, pending, size = 0, [""], 0
        overlap = max(map(len, texts), default=1) - 1
        for piece in self._pieces():
            pending.append(piece)
            size += len(piece)
            if size >= _WINDOW + 4 * overlap:
                window = "".join(pending)
                self._look(window, base, size - overlap, texts)
                base += size - overlap
                pending, size = [window[size - overlap :]], overlap
        self._look("".join(pending), base, size, texts)

    def bytes_of(self, start: int, end: int) -> tuple[int, int] | None:
        """Return the bytes of that part in the file; None if it splits a character."""
        first, last = self._unit_at(start), self._unit_at(end - 1)
        if first is None or last is None or first[2] != start or last[3] != end:
            return None
        return first[0], last[1]

    def _pieces(self) -> Iterator[str]:
        reached = 0
        for start, end in _cuts(self._data):
            piece = _normal(decoded(self._data[start:end]), last=end == len(self._data))
            self._cuts.append((start, end))
            self._starts.append(reached)
            reached += len(piece)
            yield piece

    def _look(self, window: str, base: int, step: int, texts: Sequence[str]) -> None:
        """Count the occurrences that begin in the first `step` characters of the window."""
        for text, hit in zip(texts, self.hits, strict=True):
            end = step + len(text) - 1
            count = window.count(text, 0, end)
            if not count:
                continue
            first = window.find(text, 0, end)
            if count == 1 and window.find(text, first + 1, end) >= 0:
                count = 2
            if not hit.count:
                hit.first = base + first
            hit.count += count

    def _unit_at(self, place: int) -> tuple[int, int, int, int] | None:
        """Return the unit of a normalised character: its bytes and its normalised extent."""
        index = bisect_right(self._starts, place) - 1
        start, end = self._cuts[index]
        text, last = decoded(self._data[start:end]), end == len(self._data)
        units = _units(text, last=last)
        if "".join(normal for _, normal in units) != _normal(text, last=last):
            return None
        ends = list(accumulate(len(normal) for _, normal in units))
        at = bisect_right(ends, place - self._starts[index])
        before = start + sum(len(encoded(source)) for source, _ in units[:at])
        source, normal = units[at]
        reached = self._starts[index] + ends[at]
        return before, before + len(encoded(source)), reached - len(normal), reached


def _cuts(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield pieces of whole lines; a line that is too long is cut before a visible character."""
    start = 0
    while start < len(data):
        end = start + _PIECE
        if end >= len(data):
            end = len(data)
        elif (newline := data.rfind(b"\n", start, end)) >= 0:
            end = newline + 1
        else:
            end = _cut_in_line(data, end)
        yield start, end
        start = end


def _cut_in_line(data: bytes, end: int) -> int:
    cut = _CUT.search(data, end, end + _REACH)
    if cut is not None:
        return cut.start()
    end = min(end + _REACH, len(data))
    while end < len(data) and (data[end] & 0xC0 == 0x80 or data[end] == 0x0A):
        end -= 1
    return end


def _normal(text: str, *, last: bool) -> str:
    """`last`: the text ends where the file ends, so its last line is complete."""
    text = _folded(text, composed=_is_composable(text))
    if not last and text.isascii() and not _BLANK_END.search(text):
        return text
    lines = text.split("\n")
    tail = lines.pop()
    return "".join((*(f"{line.rstrip()}\n" for line in lines), tail.rstrip() if last else tail))


def _folded(text: str, *, composed: bool) -> str:
    if text.isascii():
        return text
    if composed:
        from unicodedata import normalize

        text = normalize("NFKC", text)
    return text.translate(_LOOKALIKES) if _ANY_LOOKALIKE.search(text) else text


def _is_composable(text: str) -> bool:
    if text.isascii():
        return True
    from unicodedata import is_normalized

    # Both checks stop at marks in the wrong order, which are the expensive ones.
    return is_normalized("NFKC", text) or not _runs_of_marks().search(text)


@cache
def _runs_of_marks() -> re.Pattern[str]:
    from unicodedata import combining

    marks = [chr(code) for code in range(0x300, 0x10000) if combining(chr(code))]
    # One range for the rest, since a long class is slow. It contains old scripts, not emoji.
    mark = f"[{''.join(marks)}\U000101fd-\U0001e94a]"
    return re.compile(f"{mark}{mark}{{{_LONGEST_RUN_OF_MARKS}}}")


def _units(text: str, *, last: bool) -> list[tuple[str, str]]:
    """Split the text into the smallest parts that normalise independently, with their results."""
    composed = _is_composable(text)
    lines = text.split("\n")
    units: list[tuple[str, str]] = []
    for number, line in enumerate(lines, 1):
        is_whole = number < len(lines)
        body = line.removesuffix("\r") if is_whole else line
        segments = _segments(body, composed=composed)
        parts = [(part, _folded(part, composed=composed)) for part in segments]
        units += _without_blank_end(parts) if is_whole or last else parts
        if is_whole:
            units.append((f"{line[len(body) :]}\n", "\n"))
    return units


def _segments(line: str, *, composed: bool) -> list[str]:
    if not composed or line.isascii():
        return list(line)
    from unicodedata import combining, normalize

    segments: list[str] = []
    for letter in line:
        if letter.isascii() or not segments:
            segments.append(letter)
            continue
        before = segments[-1]
        apart = normalize("NFKC", before) + normalize("NFKC", letter)
        if combining(letter) or normalize("NFKC", before + letter) != apart:
            segments[-1] += letter
        else:
            segments.append(letter)
    return segments


def _without_blank_end(parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    room = len("".join(normal for _, normal in parts).rstrip())
    kept: list[tuple[str, str]] = []
    for source, normal in parts:
        kept.append((source, normal[:room]))
        room -= len(kept[-1][1])
    return kept
