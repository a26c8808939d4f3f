"""Typed answers: the model returns them by calling a tool whose arguments have that type."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import msgspec

from ludolf.agent.tool import ToolContext, ToolDefaults, ToolFailure, ToolOutput, text_output
from ludolf.base import LudolfError, Schema, loads
from ludolf.functions.schema import schema_of
from ludolf.functions.tool import convert_value

T = TypeVar("T")
TOOL = "final_answer"
SOURCE = "sdk:answer"
ASK = f"\n\nWhen you are done, return the result by calling the tool `{TOOL}` once."
REMIND = f"The result is missing. Call the tool `{TOOL}` with it now."
_MISSING: Any = object()


class NotAnswered(LudolfError):
    """Raised when the model returned no value of the requested type; the text quotes its answer."""


class AnswerTool(ToolDefaults, Generic[T]):
    """Tool that takes the final answer; a value that does not match the type is an error result,
    so that the model can try again."""

    name = TOOL
    label = "Final answer"
    description = "Return the final result. Call it once, when everything else is done."
    read_only = True

    def __init__(self, kind: type[T]) -> None:
        """Build the schema of the type.

        Raises:
            NoSchema: the type has no JSON Schema.
        """
        self._kind = kind
        schema = schema_of(kind)
        self._wrapped = schema.get("type") != "object" or "properties" not in schema
        self.parameters: Schema = _wrap(schema) if self._wrapped else schema
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
        except (ValueError, TypeError, msgspec.DecodeError):
            return

    def _read(self, value: Any) -> T:
        result: T = convert_value(self._kind, value)
        return result


def _wrap(schema: Schema) -> Schema:
    return {"type": "object", "properties": {"value": schema}, "required": ["value"]}
