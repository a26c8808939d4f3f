"""Find known values in text: complete, partial, and encoded."""

import base64
import json
from collections.abc import Iterable, Iterator
from typing import AnyStr, Generic
from urllib.parse import quote

from ludolf.base import escape
from ludolf.base.patterns import lazy_pattern

# Shorter values ("none", "local") occur in ordinary text and protect nothing.
SHORTEST = 8
# Maximum number of values that share a part of eight characters; bounds the cost of a lookup.
_MOST_ALIKE = 64
# Half of a key discloses it; at least and at most this many characters count.
_LEAST_PART, _MOST_PART = 12, 16
_KEY = lazy_pattern(r"(?=.*\d)(?=.*[A-Za-z])[^\s/]{16,}")


def encodings(value: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each encoding of a value, starting with the value itself."""
    yield "", value
    escaped = escape(value).decode()
    for text in (escaped, escaped.replace("/", "\\/"), json.dumps(value)[1:-1]):
        yield "JSON", text
    data = value.encode("utf-8", "surrogatepass")
    for text in (quote(data), quote(data, safe="")):
        yield "URL", text
    for coded in _base64(data):
        yield "BASE64", coded
        yield "BASE64", coded.replace("+", "-").replace("/", "_")


def disguises(value: str) -> Iterator[str]:
    """Yield further forms in which a server may repeat a key in its errors."""
    yield from (value.upper(), value.lower(), value[::-1], " ".join(value))
    code = value.encode("utf-8", "surrogatepass").hex()
    yield from (code, code.upper())


def looks_like_key(value: str) -> bool:
    """Return whether a value consists of characters of a key, not of a path or a text."""
    return _KEY.fullmatch(value) is not None


def least_part(value: str) -> int:
    """Return how many characters of a value count as the value: all, unless it looks like a key."""
    if not looks_like_key(value):
        return len(value)
    return max(_LEAST_PART, min(_MOST_PART, len(value) // 2))


class Finder(Generic[AnyStr]):
    """Finds values by their parts of eight characters; the cost depends only on the text."""

    def __init__(self, values: Iterable[tuple[AnyStr, int]]) -> None:
        """`values` are pairs of a text of at least eight characters and how many of them count."""
        self._places: dict[AnyStr, list[tuple[AnyStr, int, int]]] = {}
        self._step = _MOST_PART
        for value, least in values:
            # Every occurrence has one of these parts within its first `step` characters.
            is_complete = least == len(value)
            step = min(least, 2 * SHORTEST) - SHORTEST + 1
            parts: set[AnyStr] = set()
            for at in range(step if is_complete else len(value) - SHORTEST + 1):
                part = value[at : at + SHORTEST]
                if part in parts:
                    step = min(step, at) if is_complete else step
                    continue
                parts.add(part)
                places = self._places.setdefault(part, [])
                if len(places) < _MOST_ALIKE:
                    places.append((value, at, least))
            self._step = min(self._step, step)

    def spans(self, text: AnyStr) -> list[tuple[int, int, AnyStr]]:
        """Return start, end and value of each occurrence, without overlaps."""
        spans: list[tuple[int, int, AnyStr]] = []
        places, at, done = self._places, 0, 0
        last = len(text) - SHORTEST if places else -1
        while at <= last:
            candidates = places.get(text[at : at + SHORTEST])
            if candidates is not None:
                best = _longest(text, at, done, candidates)
                if best is not None:
                    spans.append(best)
                    at = done = best[1]
                    continue
            at += self._step
        return spans


def _longest(
    text: AnyStr, at: int, done: int, candidates: list[tuple[AnyStr, int, int]]
) -> tuple[int, int, AnyStr] | None:
    best: tuple[int, int, AnyStr] | None = None
    for value, place, least in candidates:
        if least == len(value):
            start = at - place
            if start < 0 or text[start : start + least] != value:
                continue
            end = start + least
        else:
            start, end = _around(text, at, value, place)
        # Characters before `done` belong to the previous occurrence, but count for the length.
        if end - start >= least and (best is None or (-start, end) > (-best[0], best[1])):
            best = (max(start, done), end, value)
    return best


def _around(text: AnyStr, at: int, value: AnyStr, place: int) -> tuple[int, int]:
    """Return start and end of the part of a value in the text; its `place` is at `at`."""
    start, end = at, at + SHORTEST
    before, after = place, place + SHORTEST
    while start and before and text[start - 1 : start] == value[before - 1 : before]:
        start, before = start - 1, before - 1
    while after < len(value) and text[end : end + 1] == value[after : after + 1]:
        end, after = end + 1, after + 1
    return start, end


def _base64(data: bytes) -> Iterator[str]:
    """Yield the complete code, and the part of it that does not depend on adjacent text."""
    yield base64.b64encode(data).decode()
    for lead, skipped in ((0, 0), (1, 2), (2, 3)):
        code = base64.b64encode(bytes(lead) + data).decode()
        yield code[skipped : (lead + len(data)) * 8 // 6]
