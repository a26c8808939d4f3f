"""Find known values in text: whole, in part, and in the encodings that they are sent in."""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import AnyStr, Generic
from urllib.parse import quote

from ludolf.base import escape

# Shorter values ("none", "local") occur in innocent text and protect nothing.
SHORTEST = 8
# So many values may share a part of eight characters; this bounds the cost of each look.
_MOST_ALIKE = 64
# Half of a key gives it away, but at least so many characters, and at most so many.
_LEAST_PART, _MOST_PART = 12, 16
_KEY = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[^\s/]{16,}")


def encodings(value: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each form that a value takes on its way, itself first."""
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
    """Yield further forms, in which a server may repeat a key in its errors."""
    yield from (value.upper(), value.lower(), value[::-1], " ".join(value))
    code = value.encode("utf-8", "surrogatepass").hex()
    yield from (code, code.upper())


def looks_like_key(value: str) -> bool:
    """Whether a value has the letters and digits of a key, and not those of a path or a text."""
    return _KEY.fullmatch(value) is not None


def least_part(value: str) -> int:
    """How many characters of a value count as the value: all, unless it looks like a key."""
    if not looks_like_key(value):
        return len(value)
    return max(_LEAST_PART, min(_MOST_PART, len(value) // 2))


class Finder(Generic[AnyStr]):
    """Finds values by their parts of eight characters, at a cost that only the text determines."""

    def __init__(self, values: Iterable[tuple[AnyStr, int]]) -> None:
        """`values` are texts of at least eight characters, and how many of them count."""
        self._places: dict[AnyStr, list[tuple[AnyStr, int, int]]] = {}
        self._step = _MOST_PART
        for value, least in values:
            # Every occurrence has one of these parts within the first `step` places.
            whole = least == len(value)
            step = min(least, 2 * SHORTEST) - SHORTEST + 1
            known: set[AnyStr] = set()
            for at in range(step if whole else len(value) - SHORTEST + 1):
                part = value[at : at + SHORTEST]
                if part in known:
                    step = min(step, at) if whole else step
                    continue
                known.add(part)
                places = self._places.setdefault(part, [])
                if len(places) < _MOST_ALIKE:
                    places.append((value, at, least))
            self._step = min(self._step, step)

    def spans(self, text: AnyStr) -> list[tuple[int, int, AnyStr]]:
        """Return start, end and value of each occurrence; none overlaps another."""
        found: list[tuple[int, int, AnyStr]] = []
        places, at, done = self._places, 0, 0
        last = len(text) - SHORTEST if places else -1
        while at <= last:
            candidates = places.get(text[at : at + SHORTEST])
            if candidates is not None:
                best = _longest(text, at, done, candidates)
                if best is not None:
                    found.append(best)
                    at = done = best[1]
                    continue
            at += self._step
        return found


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
        # Characters before `done` belong to the occurrence before, as far as its length goes.
        if end - start >= least and (best is None or (-start, end) > (-best[0], best[1])):
            best = (max(start, done), end, value)
    return best


def _around(text: AnyStr, at: int, value: AnyStr, place: int) -> tuple[int, int]:
    """Start and end of what the text has of the value, whose `place` is at `at`."""
    start, end = at, at + SHORTEST
    before, after = place, place + SHORTEST
    while start and before and text[start - 1 : start] == value[before - 1 : before]:
        start, before = start - 1, before - 1
    while after < len(value) and text[end : end + 1] == value[after : after + 1]:
        end, after = end + 1, after + 1
    return start, end


def _base64(data: bytes) -> Iterator[str]:
    """Yield the whole code, and what other text before and after leaves of it."""
    yield base64.b64encode(data).decode()
    for lead, skipped in ((0, 0), (1, 2), (2, 3)):
        code = base64.b64encode(bytes(lead) + data).decode()
        yield code[skipped : (lead + len(data)) * 8 // 6]
