"""The value of a JSON object that is still arriving."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ludolf.ai.draft import PartialJson

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**15), 10**15),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
    st.sampled_from(("\ud83d", "\\", '"', "\n", "\u2028", "é", "😀")),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(), VALUES, max_size=4)


def fed(*pieces: str) -> PartialJson:
    partial = PartialJson()
    for piece in pieces:
        partial.feed(piece)
    return partial


def cut(text: str, places: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return [text[start:end] for start, end in pairwise(edges)]


@settings(deadline=None)
@given(OBJECTS, st.booleans(), st.sampled_from((None, 2)), st.lists(st.integers(0, 999)))
def test_a_whole_object_is_the_same_however_it_was_cut(
    value: dict[str, Any], ascii_only: bool, indent: int | None, places: list[int]
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    partial = fed(*cut(text, places))
    assert partial.whole() == value
    assert partial.best() == value


@settings(deadline=None)
@given(OBJECTS, st.booleans())
def test_every_prefix_gives_a_valid_object_that_only_grows(
    value: dict[str, Any], ascii_only: bool
) -> None:
    partial, before = PartialJson(), dict[str, Any]()
    for char in json.dumps(value, ensure_ascii=ascii_only):
        partial.feed(char)
        now = json.loads(b"".join(partial.segments()))
        assert set(before) <= set(now)
        before = now
    assert before == value


@settings(deadline=None)
@given(OBJECTS, st.integers(0, 10_000))
def test_a_cut_object_is_never_whole(value: dict[str, Any], place: int) -> None:
    text = json.dumps(value)
    start = text[: 1 + place % (len(text) - 1)]
    with pytest.raises(ValueError, match="cut"):
        fed(start).whole()


@settings(deadline=None)
@given(st.lists(st.text(alphabet='{}[]",:\\u0d8 \n1-etrufalsn\x1f'), max_size=8))
@example(['{"a":"\\', '\x1f\\u12"', ',"b":1}'])
def test_garbage_never_breaks_the_best_effort(pieces: list[str]) -> None:
    partial = fed(*pieces)
    json.loads(b"".join(partial.segments()))
    assert isinstance(partial.best(), dict)


def test_an_open_string_shows_what_has_arrived() -> None:
    assert fed('{"path":"src/ma').best() == {"path": "src/ma"}
    assert fed('{"a":[1,{"b":"x').best() == {"a": [1, {"b": "x"}]}


def test_half_an_escape_is_held_back() -> None:
    assert fed('{"a":"x\\').best() == {"a": "x"}
    assert fed('{"a":"x\\u00').best() == {"a": "x"}
    assert fed('{"a":"x\\u00', "e9").best() == {"a": "xé"}


def test_a_key_or_number_shows_once_it_is_certain() -> None:
    assert fed('{"a":1,"b').best() == {"a": 1}
    assert fed('{"a":12').best() == {}
    assert fed('{"a":12', "3,").best() == {"a": 123}


def test_no_text_at_all_is_the_empty_object() -> None:
    assert fed().whole() == {}
    assert fed(" \n").whole() == {}
    assert fed().segments() == [b"{}"]


@pytest.mark.parametrize("text", ["[1]", "7", '"x"', "null"])
def test_another_json_value_is_kept_for_the_schema_to_refuse(text: str) -> None:
    assert fed(text).whole() == json.loads(text)


@pytest.mark.parametrize("text", ["nonsense", '{"a":1}}', '{"a":1} x'])
def test_what_is_no_single_value_is_not_whole(text: str) -> None:
    with pytest.raises(ValueError, match="cut"):
        fed(text).whole()


def test_what_followed_an_object_does_not_hide_it() -> None:
    assert fed('{"a":1} x').best() == {"a": 1}


def test_raw_line_breaks_and_unknown_escapes_in_strings_are_repaired() -> None:
    assert fed('{"a":"one\ntwo","b":"\\d"}').whole() == {"a": "one\ntwo", "b": "\\d"}


def test_a_lone_surrogate_passes() -> None:
    assert fed('{"a":"\ud800"}').best() == {"a": "\ud800"}


def test_nesting_without_end_is_cut_off_instead_of_followed() -> None:
    partial = fed('{"a":' + "[" * 100_000)
    assert len(b"".join(partial.segments())) < 2_000
    assert isinstance(partial.best()["a"], list)
    with pytest.raises(ValueError, match="cut"):
        partial.whole()


def test_a_number_without_end_is_given_up() -> None:
    partial = fed('{"a":', *["1234567890"] * 1_000, ',"b":2}')
    assert partial.best() == {}
