"""Forms of MCP servers: fields of any schema, and what a typed answer means."""

from typing import Any

import pytest
from msgspec import UNSET

from ludolf.engine.features.mcp.forms import (
    DECLINE,
    MOST_CHOICES,
    MOST_FIELDS,
    FormField,
    InvalidAnswer,
    read_form,
    shown_text,
)
from ludolf.mcp.wire import Refusal


def _field(shape: Any, *, required: bool = True) -> FormField:
    schema = {"properties": {"it": shape}, "required": ["it"] if required else []}
    (field,) = read_form(schema)
    return field


@pytest.mark.parametrize(
    ("shape", "kind", "options"),
    [
        ({"type": "boolean"}, "boolean", {}),
        ({"type": "string", "enum": ["a", "b"]}, "choice", {"a": "a", "b": "b"}),
        ({"enum": ["a", "b"], "enumNames": ["First"]}, "choice", {"First": "a", "b": "b"}),
        ({"oneOf": [{"const": 1, "title": "One"}, {"const": 2}]}, "choice", {"One": 1, "2": 2}),
        ({"type": "array", "items": {"enum": ["a"]}}, "choices", {"a": "a"}),
        (
            {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
            "choices",
            {"A": "a"},
        ),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer", {}),
        ({"type": ["string", "null"]}, "string", {}),
        # Labels that look alike, and one that is an option of ours, stay distinct.
        (
            {"enum": ["x", "y", "z"], "enumNames": ["A\u200b", "A", DECLINE]},
            "choice",
            {"A": "x", "A (2)": "y", "Decline (2)": "z"},
        ),
    ],
)
def test_every_form_of_a_field_is_understood(shape: Any, kind: str, options: Any) -> None:
    field = _field(shape)
    assert (field.kind, dict(field.options)) == (kind, options)


@pytest.mark.parametrize(
    "schema",
    [
        7,
        {"properties": []},
        {"properties": {"it": "string"}},
        {"properties": {"it": {"type": "object"}}},
        {"properties": {"it": {"type": ["string", "number"]}}},
        {"properties": {"it": {"type": "array", "items": {"type": "string"}}}},
        {"properties": {"it": {"enum": []}}},
        {"properties": {"it": {"enum": [{}]}}},
        {"properties": {"it": {"enum": list(range(MOST_CHOICES + 1))}}},
        {"properties": {str(number): {} for number in range(MOST_FIELDS + 1)}},
    ],
)
def test_a_schema_that_no_dialog_can_ask_for_is_refused(schema: Any) -> None:
    with pytest.raises(Refusal) as refused:
        read_form(schema)
    assert refused.value.code == -32602


@pytest.mark.parametrize(
    ("shape", "text", "value"),
    [
        ({"type": "string"}, " as typed ", " as typed "),
        ({"type": "string", "format": "email"}, " a@b.org ", "a@b.org"),
        ({"type": "string", "format": "uri"}, "https://b.org/x", "https://b.org/x"),
        ({"type": "string", "format": "date"}, "2026-02-28", "2026-02-28"),
        ({"type": "string", "format": "date-time"}, "2026-02-28T10:00:00Z", "2026-02-28T10:00:00Z"),
        ({"type": "string", "format": "unheard"}, "x", "x"),
        ({"type": "string", "pattern": "^a+$"}, "aaa", "aaa"),
        ({"type": "string", "pattern": "(a)\\1"}, "b", "b"),  # cannot be searched in linear time
        ({"type": "integer", "minimum": 3}, " 3 ", 3),
        ({"type": "number", "maximum": 3}, "2.5", 2.5),
        ({"type": "number", "maximum": "3"}, "4", 4),
        ({"type": "string", "default": "d"}, "", "d"),
        ({"type": "integer", "default": True, "minimum": 10**400}, "5", 5),
    ],
)
def test_an_answer_that_fits_becomes_a_value(shape: Any, text: str, value: Any) -> None:
    read = _field(shape).read(text)
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("shape", "text", "reason"),
    [
        ({"type": "string"}, " ", "an answer is required"),
        ({"type": "string", "minLength": 2}, "a", "at least 2 characters are required"),
        ({"type": "string", "maxLength": 2}, "abc", "at most 2 characters fit"),
        ({"type": "string", "format": "email"}, "a b@c", "this must be an email address"),
        ({"type": "string", "format": "uri"}, "http://[", "this must be an address such as"),
        ({"type": "string", "format": "date"}, "2026-02-30", "this must be a date such as"),
        ({"type": "string", "format": "date-time"}, "2026-02-20", "this must be a date and time"),
        ({"type": "string", "pattern": "^a+$"}, "b", "this must match ^a+$"),
        ({"type": "integer"}, "2.5", "this must be a whole number"),
        ({"type": "integer"}, "9" * 5000, "this must be a whole number"),
        ({"type": "number"}, "nan", "this must be a number"),
        ({"type": "number"}, "1e400", "this must be a number"),
        ({"type": "number", "minimum": 1.5}, "1", "this must be at least 1.5"),
        ({"type": "integer", "maximum": 5}, "6", "this must be at most 5"),
    ],
)
def test_the_reason_is_given_for_an_answer_that_does_not_fit(
    shape: Any, text: str, reason: str
) -> None:
    with pytest.raises(InvalidAnswer, match=f"^{reason}".replace("^a+$", r"\^a\+\$")):
        _field(shape).read(text)


def test_an_optional_field_may_be_left_empty() -> None:
    assert _field({"type": "integer"}, required=False).read(" ") is UNSET


def test_texts_of_servers_are_shown_on_one_line_without_hidden_characters() -> None:
    hostile = "a\x1b[31m\u202eb\n\U000e0041c\ud800" + "x" * 50
    assert shown_text(hostile, 10) == "ab cxxxxx…"
    assert shown_text(None, 10) == ""
    field = _field({"title": "T\u200b", "description": "D\nE", "enum": ["a"], "default": "a"})
    assert field.question == "T: D E (default: a)"
