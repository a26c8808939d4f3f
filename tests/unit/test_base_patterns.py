"""Patterns of modules are compiled on first use."""

import re

import pytest

from ludolf.base.patterns import lazy_pattern


def test_a_lazy_pattern_matches_as_a_compiled_one() -> None:
    pattern = lazy_pattern(r"(a+)(?P<end>b)", re.IGNORECASE)
    found = pattern.fullmatch("AAB")
    assert found is not None
    assert found.group(1, "end") == ("AA", "B")
    assert pattern.sub("-", "xabx") == "x-x"
    assert pattern.groups == 2
    assert lazy_pattern(rb"\d").findall(b"a1b2") == [b"1", b"2"]


def test_a_lazy_pattern_is_compiled_by_its_first_use() -> None:
    pattern = lazy_pattern("(")
    with pytest.raises(re.error):
        pattern.match("")
