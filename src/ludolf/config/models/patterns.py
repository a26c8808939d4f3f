"""Model name patterns: globs, sort order of ids, fuzzy search."""

import re
from functools import cache

from ludolf.base.patterns import lazy_pattern

GLOB_SIGNS = frozenset("*?[")
# Signs before digits before letters, ignoring case.
_SIGNS = "_-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$"
_MIXED = lazy_pattern(r"([a-z]+)(\d+)|(\d+)([a-z]+)")


def id_order(model_id: str) -> tuple[tuple[tuple[int, str], ...], str]:
    """Return a key that sorts ids as pi does; lower case first if only case differs."""
    return tuple(_letter_order(letter) for letter in model_id.lower()), model_id.swapcase()


def is_glob(pattern: str) -> bool:
    return bool(GLOB_SIGNS & set(pattern))


def matches_glob(pattern: str, name: str) -> bool:
    """Match a name, ignoring case: `*` and `?` stop at a slash, `**` does not."""
    return any(_shape(part).fullmatch(name.lower()) for part in _alternatives(pattern.lower()))


def matches_path(pattern: str, path: str) -> bool:
    """Match a file path like `matches_glob`, but case-sensitively."""
    return any(_shape(part).fullmatch(path) for part in _alternatives(pattern))


def reaches(pattern: str, folder: str) -> bool:
    """Return whether a path below a folder may match the pattern."""
    parts = [part for part in folder.split("/") if part]
    return any(_reaches(each.strip("/").split("/"), parts) for each in _alternatives(pattern))


def fits_search(search: str, text: str) -> bool:
    """Return whether the text contains the letters of every search word, in order.

    Letters and digits of a word may be swapped: `codex52` matches 5.2-codex.
    """
    words = re.split(r"[\s/]+", search.lower())
    return all(_holds(text.lower(), word) for word in words)


def _letter_order(letter: str) -> tuple[int, str]:
    if letter.isdigit():
        return (1, letter)
    place = _SIGNS.find(letter)
    return (2, letter) if place < 0 else (0, chr(place))


def _holds(text: str, word: str) -> bool:
    if _in_order(text, word):
        return True
    mixed = _MIXED.fullmatch(word)
    if mixed is None:
        return False
    first, second = mixed[1] or mixed[3], mixed[2] or mixed[4]
    return _in_order(text, second + first)


def _in_order(text: str, word: str) -> bool:
    letters = iter(text)
    return all(letter in letters for letter in word)


# ---------------------------------------------------------------- globs


def _alternatives(pattern: str) -> list[str]:
    """Expand `a{b,c}` to `ab` and `ac`."""
    match = re.search(r"\{([^{}]*,[^{}]*)\}", pattern)
    if match is None:
        return [pattern]
    head, tail = pattern[: match.start()], pattern[match.end() :]
    return [
        choice for part in match[1].split(",") for choice in _alternatives(f"{head}{part}{tail}")
    ]


def _reaches(pattern: list[str], folder: list[str]) -> bool:
    for place, name in enumerate(folder):
        if place < len(pattern) and pattern[place] == "**":
            return True
        if place >= len(pattern) or not _shape(pattern[place]).fullmatch(name):
            return False
    return len(pattern) > len(folder)


@cache
def _shape(pattern: str) -> re.Pattern[str]:
    parts = pattern.split("/")
    out = ""
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        if part == "**":
            out += ".*" if last else "(?:.*/)?"
        else:
            out += _segment(part) + ("" if last else "/")
    return re.compile(out, re.DOTALL)


def _segment(part: str) -> str:
    out, at = "", 0
    while at < len(part):
        sign = part[at]
        end = part.find("]", at + 2) if sign == "[" else -1
        if sign == "*":
            out += "[^/]*"
        elif sign == "?":
            out += "[^/]"
        elif end > 0:
            inner = part[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            out += f"[^{inner[1:]}]" if inner[0] in "!^" else f"[{inner}]"
            at = end
        else:
            out += re.escape(sign)
        at += 1
    return out
