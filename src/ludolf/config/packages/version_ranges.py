"""Version ranges of npm: whether an installed version is one that a package entry asks for."""

import re
from collections.abc import Callable, Iterator

_VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:-([\w.-]+))?(?:\+[\w.-]+)?", re.ASCII)
_PART = r"(?:\d+|[xX*])"
_COMPARATOR = re.compile(
    rf"(\^|~>?|>=|<=|>|<|=)?\s*v?({_PART})(?:\.({_PART}))?(?:\.({_PART}))?"
    r"(?:-([\w.-]+))?(?:\+[\w.-]+)?",
    re.ASCII,
)
_HYPHEN = re.compile(r"(\S+)\s+-\s+(\S+)")
_LONGEST = 256
_Prerelease = tuple[tuple[int, int, str], ...]
# Major, minor, patch, whether it is a release, and the parts of a prerelease.
_Key = tuple[int, int, int, bool, _Prerelease]
_Test = Callable[[_Key], bool]


class _NotRange(ValueError):
    """The text is something else, such as a tag."""


def satisfies(version: str, wanted: str) -> bool | None:
    """Return whether a version is in a range; None if one of them is not what it should be.

    As in npm, a prerelease counts only if the range names a prerelease of the same version.
    """
    found = _VERSION.fullmatch(version.strip())
    if found is None or len(wanted) > _LONGEST or len(version) > _LONGEST:
        return None
    key = _key(int(found[1]), int(found[2]), int(found[3]), found[4])
    try:
        fits = [_all_fit(key, part.strip()) for part in wanted.split("||")]
    except _NotRange:
        return None
    return any(fits)


def _all_fit(key: _Key, part: str) -> bool:
    tests: list[_Test] = []
    named: set[tuple[int, int, int]] = set()
    for sign, numbers, prerelease in _comparators(part):
        tests += _tests(sign, numbers, prerelease)
        if prerelease is not None and len(numbers) == 3:
            named.add((numbers[0], numbers[1], numbers[2]))
    return all(test(key) for test in tests) and (key[3] or key[:3] in named)


def _comparators(part: str) -> Iterator[tuple[str, list[int], str | None]]:
    """Yield the sign, the given numbers and the prerelease of each comparator."""
    hyphen = _HYPHEN.fullmatch(part)
    text = f">={hyphen[1]} <={hyphen[2]}" if hyphen is not None else part
    place = 0
    while place < len(text):
        found = _COMPARATOR.match(text, place)
        if found is None or (found.end() < len(text) and not text[found.end()].isspace()):
            raise _NotRange(part)
        numbers = []
        for number in found.group(2, 3, 4):
            if number is None or not number.isdigit():
                break
            numbers.append(int(number))
        yield (found[1] or "=").replace("~>", "~"), numbers, found[5]
        place = found.end() + len(text[found.end() :]) - len(text[found.end() :].lstrip())


def _tests(sign: str, numbers: list[int], prerelease: str | None) -> list[_Test]:
    major, minor, patch = [*numbers, 0, 0, 0][:3]
    low = _key(major, minor, patch, prerelease if len(numbers) == 3 else None)
    next_one = _after(numbers)
    if sign == "^" and numbers:
        kept = next((at for at, number in enumerate(numbers) if number), len(numbers) - 1)
        return [_at_least(low), _below(_after(numbers[: kept + 1]))]
    if sign == "~" and numbers:
        return [_at_least(low), _below(_after(numbers[:2]))]
    if len(numbers) == 3 and sign in (">", "<="):
        return [lambda key: (key > low) == (sign == ">")]
    if sign == ">":
        return [lambda key: next_one is not None and key >= next_one]
    if sign == ">=":
        return [_at_least(low)]
    if sign == "<":
        return [_below(low if len(numbers) == 3 else (*low[:3], *_FIRST))]
    if sign == "<=":
        return [_below(next_one)]
    if len(numbers) == 3:
        return [lambda key: key == low]
    return [_at_least(low), _below(next_one)]


# Sorts before every prerelease of a version.
_FIRST: tuple[bool, _Prerelease] = (False, ())


def _key(major: int, minor: int, patch: int, prerelease: str | None) -> _Key:
    if prerelease is None:
        return major, minor, patch, True, ()
    parts = tuple(
        (0, int(one), "") if one.isdigit() else (1, 0, one) for one in prerelease.split(".")
    )
    return major, minor, patch, False, parts


def _after(numbers: list[int]) -> _Key | None:
    """Return the first version after all that begin with these numbers; None without numbers."""
    if not numbers:
        return None
    raised = [*numbers[:-1], numbers[-1] + 1, 0, 0]
    return (raised[0], raised[1], raised[2], *_FIRST)


def _at_least(low: _Key) -> _Test:
    return lambda key: key >= low


def _below(high: _Key | None) -> _Test:
    return lambda key: high is None or key < high
