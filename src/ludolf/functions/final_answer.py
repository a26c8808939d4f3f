"""Typed answers: the model returns them by calling a tool whose arguments have that type."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput, text_output
from ludolf.base import ReadOnlySchema, Schema, loads

T = TypeVar("T")
TOOL = "final_answer"
ASK = f"When you are done, return the result by calling the tool `{TOOL}` once."
REMIND = f"The result is missing. Call the tool `{TOOL}` with it now."
_MISSING: Any = object()
# Keywords whose values are data, not schemas.
_DATA = ("const", "enum", "default", "examples")


class AnswerTool(ToolDefaults, Generic[T]):
    """Tool that takes the final answer; a value that `read` rejects with a ValueError or a
    TypeError is an error result, so that the model can try again."""

    name = TOOL
    label = "Final answer"
    description = "Return the final result. Call it once, when everything else is done."
    read_only = True

    def __init__(self, schema: ReadOnlySchema, read: Callable[[Any], T]) -> None:
        self._read = read
        self._wrapped = schema.get("type") != "object" or "properties" not in schema
        self.parameters: Schema = _wrap(schema) if self._wrapped else dict(schema)
        self._value: Any = _MISSING

    @property
    def given(self) -> bool:
        return self._value is not _MISSING

    @property
    def value(self) -> T:
        result: T = self._value
        return result

    async def execute(self, args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
        """Store the result and end the run.

        Raises:
            ToolFailure: the result does not match the type.
        """
        try:
            self._value = self._read(args["value"] if self._wrapped else args)
        except (ValueError, TypeError, KeyError) as error:
            raise ToolFailure(f"The result does not match the type: {error}") from error
        return msgspec.structs.replace(text_output("Noted."), ends_run=True)

    def take_text(self, text: str) -> None:
        """Accept an answer in plain JSON, with or without a code fence."""
        body = text.strip().removeprefix("```json").removeprefix("```").removesuffix("```")
        try:
            self._value = self._read(loads(body))
        except (ValueError, TypeError, RecursionError, msgspec.DecodeError):
            return


def _wrap(schema: ReadOnlySchema) -> Schema:
    """Return the schema of an object with the property `value`; references follow the move."""
    inner = {word: each for word, each in schema.items() if word not in ("$schema", "$id")}
    version = {"$schema": schema["$schema"]} if "$schema" in schema else {}
    value = _moved(inner)
    return {**version, "type": "object", "properties": {"value": value}, "required": ["value"]}


def _moved(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_moved(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    moved = {word: each if word in _DATA else _moved(each) for word, each in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        moved["$ref"] = f"#/properties/value{reference[1:]}"
    return moved
