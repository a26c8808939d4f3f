"""A linear search finds what Python's `re` finds, in a number of steps that its text decides."""

import random
import re

import pytest

from ludolf.config.resources.linear_pattern import (
    LONGEST_PATTERN,
    Budget,
    Exhausted,
    LinearPattern,
    Unsupported,
)

_PARTS = ["a", "b", "A", "é", "_", r"\n", ".", "[ab]", "[^a]", r"[a-c\]]", r"\w", r"\S", r"\."]
_ANCHORS = ["^", "$", r"\b", r"\B", r"\A", r"\Z"]
_REPEATS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,3}", "{,2}", "{1,}", "{0}"]
_FLAGS = [0, re.I, re.M, re.S, re.I | re.M, re.A]


def _random_pattern(chance: random.Random, depth: int = 0) -> str:
    kind = chance.random()
    if depth > 3 or kind < 0.4:
        return chance.choice(_PARTS + _ANCHORS)
    first = _random_pattern(chance, depth + 1)
    if kind < 0.6:
        return first + _random_pattern(chance, depth + 1)
    if kind < 0.8:
        return f"(?:{first}|{_random_pattern(chance, depth + 1)})"
    return f"({first}){chance.choice(_REPEATS)}"


@pytest.mark.parametrize("seed", range(10))
def test_a_search_agrees_with_re_after_each_piece(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(150):
        pattern, flags = _random_pattern(chance), chance.choice(_FLAGS)
        plain, linear = re.compile(pattern, flags), LinearPattern(pattern, flags)
        for _ in range(5):
            text = "".join(chance.choices("abcA\n_ .é", k=chance.randrange(1, 9)))
            scan = linear.scan()
            for end in range(1, len(text) + 1):
                expected = plain.search(text[:end]) is not None
                assert scan.feed(text[end - 1]) is expected, (pattern, flags, text[:end])
                if expected:
                    break
            assert linear.search(text) is (plain.search(text) is not None), (pattern, flags, text)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(\w)\1",
        "(?=a)b",
        "(?<!a)b",
        "a*+b",
        "(?>a)",
        "(?i:a)",
        "(?P<n>a)(?P=n)",
        "a{2000}",
        "((a{20}){20}){20}",
        "(?:(?:(?:){1000}){1000}){1000}",
        "(" * 60 + ")" * 60,
        "x" * (LONGEST_PATTERN + 1),
        "(",
        ")",
        "*a",
        "[z-a]",
        "[a",
        "\\",
    ],
)
def test_other_syntax_and_giants_are_not_supported(pattern: str) -> None:
    with pytest.raises(Unsupported):
        LinearPattern(pattern)


def test_wide_ranges_that_ignore_case_are_not_compiled() -> None:
    with pytest.raises(Unsupported):
        LinearPattern(r"[\x00-\U0010ffff]", re.IGNORECASE)
    assert LinearPattern(r"[à-ÿ]").search("é")


@pytest.mark.parametrize(
    "pattern", ["a*a*b", "a?" * 40 + "a" * 40 + "b", "(a+)+b", "(a|aa)*b", "(?:.*a.*){9}b"]
)
def test_patterns_that_backtrack_for_ever_take_few_steps_for_each_character(pattern: str) -> None:
    linear = LinearPattern(pattern)
    budget = Budget(30 * linear.size**2 + 3000)
    assert not linear.search("a" * 3000 + "!", budget)


def test_a_search_ends_when_its_budget_is_used_up() -> None:
    chance = random.Random(1)
    text = "".join(chance.choices("ab", k=20_000))
    with pytest.raises(Exhausted):
        LinearPattern("[ab]*a[ab]{300}c").search(text, Budget(100_000))


def test_a_search_goes_on_when_its_cache_was_full() -> None:
    chance = random.Random(1)
    text = "".join(chance.choices("ab", k=2_000))
    linear = LinearPattern("a[ab]{60}c")
    assert not linear.search(text)
    assert linear.search(text + "a" + "b" * 60 + "c")
