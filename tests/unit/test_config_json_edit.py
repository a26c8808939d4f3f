"""One value of a JSON text changes; all other text stays."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludolf.config.settings.json_edit import with_value, without

NAMES = st.sampled_from(["a", "b", 'q"\\uote', "ü", "{", ","])
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
OBJECTS = st.recursive(
    LEAVES, lambda inner: st.dictionaries(NAMES, inner, max_size=3) | st.lists(inner, max_size=2)
)
STYLES = st.sampled_from([None, 0, 2, 4, "\t"])


@given(st.dictionaries(NAMES, OBJECTS, max_size=4), st.lists(NAMES, min_size=1), LEAVES, STYLES)
def test_a_value_is_set_as_in_the_object_itself(
    value: dict[str, Any], path: list[str], new: Any, style: Any
) -> None:
    text = json.dumps(value, indent=style)
    here = value
    for name in path[:-1]:
        if not isinstance(here.get(name), dict):
            here[name] = {}
        here = here[name]
    here[path[-1]] = new
    assert json.loads(with_value(text, path, new)) == value


@given(st.dictionaries(NAMES, OBJECTS, max_size=4), st.lists(NAMES, min_size=1), STYLES)
def test_what_was_added_can_be_removed(value: dict[str, Any], path: list[str], style: Any) -> None:
    text = json.dumps({"kept": 1, **value}, indent=style)
    added = with_value(text, ["new", *path], True)
    assert without(added, ["new", *path]) == text


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ("", ["a"], '{\n  "a": 1\n}\n'),
        ("{}", ["a", "b"], '{\n  "a": {\n    "b": 1\n  }\n}'),
        ('{ "x": 0 }', ["a"], '{ "x": 0, "a": 1 }'),
        ('{\r\n\t"x": 0\r\n}', ["a"], '{\r\n\t"x": 0,\r\n\t"a": 1\r\n}'),
        ('{"a": 2,  "a" : 3}', ["a"], '{"a": 2,  "a" : 1}'),
    ],
)
def test_the_style_of_the_file_is_kept(text: str, path: list[str], expected: str) -> None:
    assert with_value(text, path, 1) == expected


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        ('{"a": 1, "b": 2}', ["a"], '{"b": 2}'),
        ('{"a": 1, "b": 2}', ["b"], '{"a": 1}'),
        ('{"x": 0, "a": {"b": {"c": 1}}}', ["a", "b", "c"], '{"x": 0}'),
        ('{"a": {"b": 1}}', ["a", "b"], "{}"),
        ('{"a": {"b": 1}}', ["a", "c"], '{"a": {"b": 1}}'),
        ('{"a": 5}', ["a", "c"], '{"a": 5}'),
        ("", ["a"], ""),
    ],
)
def test_a_member_is_removed_with_the_objects_that_it_leaves_empty(
    text: str, path: list[str], expected: str
) -> None:
    assert without(text, path) == expected
