"""Arguments are accepted without the validator only if the validator accepts them, too."""

import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ludolf.tools import BuiltinToolOptions, BuiltinTools
from ludolf.tools.plain_schema import fits, is_plain

TOOLS = BuiltinTools(BuiltinToolOptions())
_EDIT = st.fixed_dictionaries({}, optional={"oldText": st.text(), "newText": st.text() | st.none()})
_VALUES = st.one_of(
    *(st.text(), st.integers(), st.floats(), st.booleans(), st.none()),
    *(st.lists(_EDIT), st.lists(st.text()), st.dictionaries(st.text(), st.text())),
)


@pytest.mark.parametrize("name", TOOLS)
def test_schemas_of_built_in_tools_are_plain(name: str) -> None:
    assert is_plain(TOOLS[name].parameters)


@given(data=st.data())
def test_what_fits_is_valid(data: st.DataObject) -> None:
    schema = data.draw(st.sampled_from([tool.parameters for tool in TOOLS.values()]))
    names = st.sampled_from([*schema["properties"], "other"]) | st.text()
    value = data.draw(st.dictionaries(names, _VALUES) | _VALUES)
    if fits(value, schema):
        assert jsonschema_rs.is_valid(dict(schema), value)


def test_usual_arguments_fit() -> None:
    edits = [{"oldText": "a", "newText": "b"}]
    assert fits({"path": "a", "edits": edits}, TOOLS["edit"].parameters)
    assert fits({"path": "a", "offset": 1, "limit": 2.5}, TOOLS["read"].parameters)
    assert fits({"command": "ls", "why": "to see"}, TOOLS["bash"].parameters)


@pytest.mark.parametrize(
    "schema",
    [
        *(True, {}, {"type": ["string", "null"]}, {"type": "strin"}, {"type": "array"}),
        *({"type": "string", "enum": ["a"]}, {"type": "object", "required": "a"}),
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "array", "items": {"type": "string", "minLength": 1}},
    ],
)
def test_other_schemas_are_left_to_the_validator(schema: Any) -> None:
    assert not is_plain(schema)


def test_a_good_call_of_a_built_in_tool_does_not_load_the_validator() -> None:
    program = """
import sys
from ludolf.tools import BuiltinToolOptions, BuiltinTools
from ludolf.tools.schema import check_arguments
tool = BuiltinTools(BuiltinToolOptions())["edit"]
edits = [{"oldText": "a", "newText": "b"}]
check_arguments("edit", tool.parameters, {"path": "a", "edits": edits})
sys.exit("jsonschema_rs" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
