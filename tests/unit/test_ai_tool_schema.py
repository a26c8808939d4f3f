"""Schemas that authors of tools wrote, in the forms that model servers accept."""

import json
from typing import Any

import pytest

from ludolf.ai.strict_schema import sampled_schema
from ludolf.ai.tool_schema import claude_schema, gemini_schema, openai_schema, portable_schema
from ludolf.tools import BuiltinToolOptions, BuiltinTools

RICH: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "properties": {
        "enum": {"type": ["string", "null"], "default": None, "description": "A name."},
        "type": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "rows": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
        "map": {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}},
        "kind": {"enum": ["a", "b"], "title": "Kind"},
        "size": {"enum": [1, 2.5], "x-note": [True]},
        "code": {"type": "string", "pattern": "^[a-z]+$", "format": "slug"},
    },
    "required": ["kind"],
    "additionalProperties": False,
    "type": "object",
}


@pytest.mark.parametrize("form", [portable_schema, claude_schema, gemini_schema, openai_schema])
def test_a_valid_schema_is_sent_byte_for_byte(form: Any) -> None:
    valid = [RICH, *(tool.parameters for tool in BuiltinTools(BuiltinToolOptions()).values())]
    if form is claude_schema:
        valid = [{"type": "object", **schema} for schema in valid]
        assert [form(schema) for schema in valid] == valid
        return
    assert [json.dumps(form(schema)) for schema in valid] == [json.dumps(s) for s in valid]


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ({"type": "array"}, {"type": "array", "items": {}}),
        ({"type": ["array", "null"]}, {"type": ["array", "null"], "items": {}}),
        (
            {"type": "array", "items": [{"type": "string"}, True]},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {}]}},
        ),
        ({"type": "array", "items": []}, {"type": "array", "items": {}}),
        ({"minimum": 1, "exclusiveMinimum": True}, {"exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": False}, {"maximum": 1}),
        ({"exclusiveMaximum": True}, {}),
        ({"type": "string", "required": True}, {"type": "string"}),
        ({"required": ["a", 1, "a"]}, {"required": ["a"]}),
        ({"type": "any", "description": None}, {}),
        ({"type": ["int", "string"]}, {"type": ["string"]}),
        ({"type": {"not": "a type"}}, {}),
        ({"enum": []}, {}),
        ({"enum": ["a", "a", 1, True, None]}, {"enum": ["a", 1, True, None]}),
        ({"pattern": "^\\p{L}+$"}, {}),
        ({"pattern": 5, "format": None}, {}),
        ({"properties": "none", "anyOf": "none", "allOf": []}, {}),
        ({"properties": {"a": "string"}}, {"properties": {"a": {}}}),
        ({"additionalProperties": "yes"}, {"additionalProperties": {}}),
        (True, {}),
        ("string", {}),
    ],
)
def test_what_servers_refuse_is_left_out(written: Any, sent: dict[str, Any]) -> None:
    root = {"type": "object", "properties": {"here": written}}
    assert portable_schema(root) == {"type": "object", "properties": {"here": sent}}


def test_a_union_at_the_root_becomes_one_object() -> None:
    one = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    other = {"type": "object", "properties": {"a": {"type": "number"}, "b": {}}}
    assert portable_schema({"oneOf": [one, other], "not": {}, "description": "Both."}) == {
        "description": "Both.",
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {}},
    }


def test_a_schema_without_end_is_cut() -> None:
    ring: dict[str, Any] = {"type": "object"}
    ring["properties"] = {"again": ring}
    assert len(json.dumps(portable_schema(ring))) < 5_000


def test_claude_gets_no_property_with_a_name_that_the_api_refuses() -> None:
    schema = {"properties": {"$top": {}, "ok.-_": {}, "x" * 65: {}}, "required": ["$top", "ok.-_"]}
    assert claude_schema(schema) == {
        "type": "object",
        "properties": {"ok.-_": {}},
        "required": ["ok.-_"],
    }


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ({"enum": ["a", None]}, {"enum": ["a"]}),
        ({"const": "a"}, {"enum": ["a"]}),
        ({"enum": ["a", 1]}, {"description": 'One of: ["a",1]'}),
        (
            {"description": "Which.", "enum": [True, False]},
            {"description": "Which. One of: [true,false]"},
        ),
        ({"enum": [None]}, {"description": "One of: [null]"}),
    ],
)
def test_gemini_gets_enums_of_one_kind(written: dict[str, Any], sent: dict[str, Any]) -> None:
    root = {"type": "object", "properties": {"here": {"anyOf": [written]}}}
    assert gemini_schema(root)["properties"]["here"] == {"anyOf": [sent]}


def test_openai_gets_an_object_with_properties() -> None:
    assert openai_schema({}) == {"type": "object", "properties": {}}
    assert openai_schema({"type": "object"}) == {"type": "object", "properties": {}}


def test_every_schema_that_is_not_enforced_is_made_portable() -> None:
    schema, enforced = sampled_schema("t", {"items": []}, None, supported=True)
    assert (schema, enforced) == ({"items": {}}, False)
