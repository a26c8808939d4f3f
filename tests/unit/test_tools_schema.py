"""Arguments: nulls dropped, near misses mended, the rest refused in words that models know."""

from typing import Any

import pytest

from ludolf.agent.tool import ToolFailure
from ludolf.engine.toolset import DEFAULT_ACTIVE
from ludolf.tools import BuiltinToolOptions, BuiltinTools
from ludolf.tools.schema import check_arguments

READ = BuiltinTools(BuiltinToolOptions())["read"].parameters


def check(schema: dict[str, Any], value: Any) -> Any:
    """The mended value of one required property."""
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    return check_arguments("t", whole, {"v": value})["v"]


def refused(schema: Any, args: Any) -> str:
    with pytest.raises(ToolFailure) as error:
        check_arguments("read", schema, args)
    return str(error.value)


def reason(schema: dict[str, Any], value: Any) -> str:
    text = refused({"type": "object", "properties": {"v": schema}}, {"v": value})
    return text.split("\n")[1].removeprefix("  - ")


def test_good_arguments_pass_as_a_copy() -> None:
    given = {"path": "a.txt", "bogus": [1]}
    checked = check_arguments("read", READ, given)
    assert checked == given
    assert checked is not given
    assert checked["bogus"] is not given["bogus"]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (
            {},
            'Validation failed for tool "read":\n  - path: must have required properties path\n\n'
            "Received arguments:\n{}",
        ),
        (
            {"path": {"a": 1}},
            'Validation failed for tool "read":\n  - path: must be string\n\n'
            'Received arguments:\n{\n  "path": {\n    "a": 1\n  }\n}',
        ),
        (
            [1],
            'Validation failed for tool "read":\n  - root: must be object\n\n'
            "Received arguments:\n[\n  1\n]",
        ),
    ],
)
def test_refusals_read_as_models_know_them(args: Any, text: str) -> None:
    assert refused(READ, args) == text


def test_missing_properties_inside_are_named_by_their_path() -> None:
    edit = BuiltinTools(BuiltinToolOptions())["edit"].parameters
    text = refused(edit, {"path": "p", "edits": [{"oldText": "a"}, {}]})
    assert text.split("\n")[1:3] == [
        "  - edits.0.newText: must have required properties newText",
        "  - edits.1.oldText: must have required properties oldText, newText",
    ]


@pytest.mark.parametrize(
    ("schema", "given", "meant"),
    [
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "2", 2),
        ({"type": "integer"}, "7", 7),
        ({"type": "number"}, None, 0),
        ({"type": "number"}, True, 1),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, 0, False),
        ({"type": "boolean"}, None, False),
        ({"type": "string"}, 5, "5"),
        ({"type": "string"}, 5.0, "5"),
        ({"type": "string"}, False, "false"),
        ({"type": "string"}, None, ""),
        ({"type": "null"}, "", None),
        ({"type": ["number", "null"]}, "3", 3),
        ({"type": ["string", "null"]}, None, None),
        ({"anyOf": [{"type": "string"}, {"type": "number"}]}, 3, 3),
        ({"anyOf": [{"type": "number"}, {"type": "boolean"}]}, "true", True),
        ({"type": "array", "items": {"type": "integer"}}, ["1", 2], [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, "1", [1]),
        ({"type": "array", "prefixItems": [{"type": "string"}]}, [1, 1], ["1", 1]),
        ({"type": "object", "additionalProperties": {"type": "number"}}, {"a": "1"}, {"a": 1}),
    ],
)
def test_near_misses_are_mended(schema: dict[str, Any], given: Any, meant: Any) -> None:
    mended = check(schema, given)
    assert mended == meant
    assert type(mended) is type(meant)


@pytest.mark.parametrize(
    ("schema", "given", "words"),
    [
        ({"type": "integer"}, "2.5", "v: must be integer"),
        ({"type": "number"}, "abc", "v: must be number"),
        ({"type": "number"}, "inf", "v: must be number"),
        ({"type": "boolean"}, 2, "v: must be boolean"),
        ({"type": ["number", "boolean"]}, "x", "v: must be either boolean or number"),
        ({"enum": ["a", "b"]}, "c", "v: must be equal to one of the allowed values"),
        ({"const": 1}, 2, "v: must be equal to constant"),
        ({"type": "number", "minimum": 3}, 2, "v: must be >= 3"),
        ({"type": "array", "minItems": 1}, [], "v: must not have fewer than 1 items"),
        ({"type": "string", "maxLength": 2}, "abc", "v: must not have more than 2 characters"),
        ({"type": "string", "pattern": "^a"}, "b", 'v: must match pattern "^a"'),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "x", "v: must match a schema in anyOf"),
        (
            {"type": "object", "additionalProperties": False},
            {"x": 1},
            "v: must not have additional properties",
        ),
    ],
)
def test_reasons_use_the_common_words(schema: dict[str, Any], given: Any, words: str) -> None:
    assert reason(schema, given) == words


def test_optional_nulls_are_dropped_where_null_is_not_allowed() -> None:
    schema = {
        "type": "object",
        "properties": {
            "plain": {"type": "number"},
            "nullable": {"type": ["number", "null"]},
            "free": {},
            "list": {
                "type": "array",
                "items": {"type": "object", "properties": {"x": {"type": "string"}}},
            },
        },
    }
    given = {"plain": None, "nullable": None, "free": None, "list": [{"x": None, "y": None}]}
    expected = {"nullable": None, "free": None, "list": [{"y": None}]}
    assert check_arguments("t", schema, given) == expected


def test_references_within_a_schema_are_followed() -> None:
    schema = {
        "type": "object",
        "properties": {"size": {"$ref": "#/$defs/size"}, "other": {"$ref": "#/$defs/maybe"}},
        "$defs": {
            "size": {"type": "integer"},
            "maybe": {"anyOf": [{"$ref": "#/$defs/size"}, {"type": "boolean"}]},
        },
    }
    checked = check_arguments("t", schema, {"size": "4", "other": "5"})
    assert checked == {"size": 4, "other": 5}


@pytest.mark.parametrize("schema", [{"type": "objekt"}, {"$ref": "http://127.0.0.1:9/x.json"}])
def test_an_unusable_schema_is_an_error_of_the_tool(schema: dict[str, Any]) -> None:
    assert refused(schema, {}).startswith('Tool "read" has an unusable parameter schema: ')


def test_odd_text_in_arguments_is_no_obstacle() -> None:
    assert check_arguments("read", READ, {"path": "\ud83d"}) == {"path": "\ud83d"}


def test_built_in_tools_come_in_order_with_usable_schemas() -> None:
    tools = BuiltinTools(BuiltinToolOptions())
    assert list(tools) == ["read", "bash", "edit", "write", "grep", "find", "ls"]
    assert set(DEFAULT_ACTIVE) <= set(tools)
    for tool in tools.values():
        needed = dict.fromkeys(tool.parameters.get("required", ()), "x")
        if tool.name == "edit":
            needed["edits"] = [{"oldText": "a", "newText": "b"}]  # type: ignore[assignment]
        assert check_arguments(tool.name, tool.parameters, needed) == needed
        assert tool.description
        assert tool.snippet


@pytest.mark.parametrize("depth", [200, 300, 450, 900])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"v": {"anyOf": [{"type": "string"}, {"$ref": "#"}]}}},
    ],
)
def test_arguments_of_any_depth_fit_or_are_refused_in_words(
    schema: dict[str, Any], depth: int
) -> None:
    value: Any = {}
    for _ in range(depth):
        value = {"v": [value]}
    try:
        check_arguments("read", schema, value)
    except ToolFailure as error:
        assert str(error).startswith('Validation failed for tool "read":')
        return
    assert depth < 300
