"""Type hints and docstrings become the JSON Schema that a model sees."""

import datetime
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict

import msgspec
import pytest

from ludolf.functions import schema
from ludolf.functions.schema import NoSchema, inline, schema_of
from ludolf.functions.tool import make_tool

TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
UserId = NewType("UserId", str)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    """A place.

    Attributes:
        x: how far right
    """

    x: int
    y: Annotated[int, "how far up"] = 0
    tags: list[str] = field(default_factory=list)


class Options(TypedDict):
    name: str
    deep: NotRequired[bool]


class Shape(msgspec.Struct, rename="camel"):
    corner_count: int
    centre: Point | None = None


class PydanticLike:
    """What pydantic's models offer, as far as the schema goes."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
        return {
            "$defs": {"Node": node, "Leaf": TEXT},
            "type": "object",
            "properties": {"leaf": {"$ref": "#/$defs/Leaf", "description": "d"}, "n": node},
        }


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (str, TEXT),
        (bool, {"type": "boolean"}),
        (int, WHOLE),
        (float, {"type": "number"}),
        (Any, {}),
        (UserId, TEXT),
        (Path, TEXT),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": WHOLE}),
        (Sequence[str], {"type": "array", "items": TEXT}),
        (tuple[int, ...], {"type": "array", "items": WHOLE}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [WHOLE, TEXT], "minItems": 2, "maxItems": 2},
        ),
        (set[str], {"type": "array", "items": TEXT, "uniqueItems": True}),
        (dict[str, int], {"type": "object", "additionalProperties": WHOLE}),
        (Mapping[str, Any], {"type": "object", "additionalProperties": {}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (str | None, {"anyOf": [TEXT, {"type": "null"}]}),
        (int | str, {"anyOf": [WHOLE, TEXT]}),
        (Annotated[str, "what it is"], {**TEXT, "description": "what it is"}),
        (
            Annotated[list[str], msgspec.Meta(min_length=1, description="some")],
            {"type": "array", "items": TEXT, "minItems": 1, "description": "some"},
        ),
        (
            Annotated[int, msgspec.Meta(ge=1, le=9)],
            {"type": "integer", "minimum": 1, "maximum": 9},
        ),
        (
            Point,
            {
                "type": "object",
                "properties": {
                    "x": {**WHOLE, "description": "how far right"},
                    "y": {**WHOLE, "description": "how far up", "default": 0},
                    "tags": {"type": "array", "items": TEXT},
                },
                "required": ["x"],
            },
        ),
        (
            Options,
            {
                "type": "object",
                "properties": {"name": TEXT, "deep": {"type": "boolean"}},
                "required": ["name"],
            },
        ),
        (
            PydanticLike,
            {
                "type": "object",
                "properties": {
                    "leaf": {**TEXT, "description": "d"},
                    "n": {
                        "type": "object",
                        "properties": {"next": {"type": "object", "properties": {"next": {}}}},
                    },
                },
            },
        ),
    ],
    ids=str,
)
def test_a_type_has_its_schema(kind: Any, schema: dict[str, Any]) -> None:
    assert schema_of(kind) == schema


def test_a_struct_is_told_by_its_names_on_the_wire() -> None:
    shape = schema_of(Shape)
    assert list(shape["properties"]) == ["cornerCount", "centre"]
    assert shape["required"] == ["cornerCount"]
    assert shape["properties"]["centre"]["required"] == ["x"]


@pytest.mark.parametrize("kind", [object(), complex, list[complex]])
def test_a_type_that_no_model_can_fill_is_refused(kind: Any) -> None:
    with pytest.raises(NoSchema, match="parameters=…"):
        schema_of(kind)


def test_references_to_nothing_known_stay() -> None:
    assert inline({"$ref": "#/elsewhere"}) == {"$ref": "#/elsewhere"}


def _parameters(function: Any) -> Any:
    return make_tool(
        function,
        None,
        names=(None, None, None),
        parameters=None,
        execution="parallel",
        options={},
    ).parameters


def test_a_function_gives_properties_requirements_defaults_and_descriptions() -> None:
    async def find(
        pattern: str,
        depth: Annotated[int, "how deep"] = 3,
        kind: Literal["file", "folder"] | None = None,
        *,
        hidden: bool = False,
        ctx: Any,
        update: Any,
    ) -> None:
        """Find things.

        Args:
            pattern: what to look for;
                may hold stars
            depth: not this one
            hidden (bool): also dot files
        """

    assert _parameters(find) == {
        "type": "object",
        "properties": {
            "pattern": {**TEXT, "description": "what to look for; may hold stars"},
            "depth": {**WHOLE, "description": "how deep", "default": 3},
            "kind": {"type": "string", "enum": ["file", "folder"]},
            "hidden": {"type": "boolean", "description": "also dot files", "default": False},
        },
        "required": ["pattern"],
    }


def test_a_parameter_named_like_a_filled_in_one_is_the_models_if_it_says_what_it_is() -> None:
    def note(update: str) -> None: ...

    assert _parameters(note)["required"] == ["update"]


def test_a_parameter_that_cannot_be_described_is_named() -> None:
    def odd(thing: complex) -> None: ...

    with pytest.raises(NoSchema, match=r"^thing: complex has no JSON Schema"):
        _parameters(odd)


def test_names_that_hints_cannot_find_are_reported() -> None:
    def odd(thing: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # on purpose

    with pytest.raises(NoSchema, match="'Nowhere' is not defined"):
        _parameters(odd)


@pytest.mark.parametrize(
    ("text", "summary", "parameters"),
    [
        (None, "", {}),
        ("One line.", "One line.", {}),
        ("Say.\n\n    More.\n\n    Returns:\n        text: x\n    ", "Say.\n\nMore.", {}),
        (
            "Say.\n\n    :param a: first\n    :param int b: second\n    :returns: x",
            "Say.",
            {"a": "first", "b": "second"},
        ),
        (
            "Say.\n\n  Args:\n    a: one: two\n\n    b (int): three\n  Raises:\n    E: no",
            "Say.",
            {"a": "one: two", "b": "three"},
        ),
    ],
)
def test_docstrings(text: str | None, summary: str, parameters: dict[str, str]) -> None:
    assert schema.docstring_summary(text) == summary
    assert schema.docstring_parameters(text) == parameters
