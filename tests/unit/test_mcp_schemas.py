"""Schemas of servers become object schemas that providers accept."""

from typing import Any

import pytest

from ludolf.base import dumps
from ludolf.mcp.schemas import MAX_SCHEMA_BYTES, UnusableSchema, model_schema

EMPTY = {"type": "object", "properties": {}}


def shown(raw: Any) -> dict[str, Any]:
    return model_schema(raw).schema


def shown_property(shape: Any, **more: Any) -> Any:
    return shown({"type": "object", "properties": {"p": shape}, **more})["properties"]["p"]


@pytest.mark.parametrize(
    "raw", [None, True, {}, {"type": "object"}, {"type": ["object", "null"]}, {"$schema": "x"}]
)
def test_a_missing_or_empty_schema_is_an_empty_object(raw: Any) -> None:
    assert shown(raw) == EMPTY


@pytest.mark.parametrize(
    "raw",
    [
        *(False, [], "object", 5, {"type": "array", "items": {}}, {"type": ["string", "null"]}),
        {"anyOf": [{"type": "string"}, {"type": "array"}]},
    ],
)
def test_what_is_not_a_schema_of_an_object_is_refused(raw: Any) -> None:
    with pytest.raises(UnusableSchema):
        model_schema(raw)


def test_properties_make_an_object_and_required_names_without_property_are_dropped() -> None:
    raw = {"properties": {"a": {"type": "string"}}, "required": ["a", "ghost", 5]}
    assert shown(raw) == {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
    }


def test_references_of_the_document_are_inlined_and_rings_cut() -> None:
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/$defs/Node"}, "n": {"type": "integer"}},
    }
    raw = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "x",
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/Node", "description": "First."}},
        "$defs": {"Node": node},
    }
    inner = {"next": {"type": "object"}, "n": {"type": "integer"}}
    assert shown(raw) == {
        "type": "object",
        "properties": {"node": {"type": "object", "description": "First.", "properties": inner}},
    }
    assert shown({"$ref": "#/$defs/T", "$defs": {"T": {"properties": {"a": True}}}}) == {
        "type": "object",
        "properties": {"a": {}},
    }
    assert shown({"$ref": "#"}) == EMPTY


def test_other_references_are_dropped() -> None:
    assert shown_property({"$ref": "http://127.0.0.1:9/s.json", "type": "string"}) == {
        "type": "string"
    }
    assert shown_property({"$ref": "#/nowhere"}) == {}


def test_a_union_at_the_root_becomes_one_object_that_requires_nothing() -> None:
    first = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]}
    second = {"properties": {"a": {"type": "integer"}, "c": {}}, "required": ["c"]}
    for keyword in ("anyOf", "oneOf"):
        assert shown({keyword: [first, second, {"type": "string"}]}) == {
            "type": "object",
            "properties": {
                "a": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
                "b": {},
                "c": {},
            },
        }


def test_all_parts_of_a_conjunction_are_merged() -> None:
    parts = [
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        {"properties": {"b": {}}, "required": ["b"]},
    ]
    assert shown({"allOf": parts}) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {}},
        "required": ["a", "b"],
    }


@pytest.mark.parametrize(
    ("raw", "made"),
    [
        (
            {"type": "array", "items": [{"type": "string"}]},
            {"type": "array", "items": {"type": "string"}},
        ),
        (
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}]},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        ),
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": "strnig", "pattern": "(", "minimum": "1", "format": 5, "enum": {}}, {}),
        ({"type": "string", "items": {}, "properties": {}}, {"type": "string"}),
        ({"type": ["string", "odd"], "maxLength": 5}, {"type": "string", "maxLength": 5}),
        ({"const": 5, "minLength": -1, "exclusiveMinimum": True}, {"enum": [5]}),
        ({"enum": [1, "a", None], "default": 10**400}, {"enum": [1, "a", None]}),
        ({"allOf": [{"type": "string"}], "not": {}, "x-own": "y"}, {"type": "string"}),
        ({"type": "string", "pattern": r"^\p{L}+$"}, {"type": "string", "pattern": r"^\p{L}+$"}),
        ([1, 2], {}),
    ],
)
def test_keywords_that_are_invalid_or_not_accepted_everywhere_are_replaced(
    raw: Any, made: Any
) -> None:
    assert shown_property(raw) == made


def test_deep_schemas_are_bounded() -> None:
    for levels in (60, 3000):
        raw: dict[str, Any] = {"type": "object"}
        for _ in range(levels):
            raw = {"type": "object", "properties": {"d": raw}}
        assert 10 <= dumps(shown(raw)).count(b'"d"') < 60


def test_references_that_multiply_stay_within_the_limit() -> None:
    shapes = {
        f"d{at}": {
            "type": "object",
            "properties": {n: {"$ref": f"#/$defs/d{at + 1}"} for n in "abcdefgh"},
        }
        for at in range(8)
    }
    made = shown({"$ref": "#/$defs/d0", "$defs": shapes})
    assert len(dumps(made)) <= MAX_SCHEMA_BYTES


def test_a_large_schema_loses_its_descriptions_first_and_then_everything() -> None:
    many = {f"p{at}": {"type": "string", "description": "x" * 500} for at in range(100)}
    made = model_schema({"type": "object", "properties": {**many, "title": {"title": "T"}}})
    assert made.schema["properties"]["p7"] == {"type": "string"}
    assert made.schema["properties"]["title"] == {}
    assert not made.is_too_large
    huge = {f"p{at}": {"type": "string"} for at in range(3000)}
    made = model_schema({"type": "object", "properties": huge})
    assert (made.schema, made.is_too_large) == (EMPTY, True)
