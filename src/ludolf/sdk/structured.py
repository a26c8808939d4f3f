"""Typed answers of the Python API: a type in the place of a JSON Schema."""

from functools import partial
from typing import TypeVar

from ludolf.base import LudolfError
from ludolf.functions.final_answer import AnswerTool
from ludolf.functions.schema import schema_of
from ludolf.functions.tool import convert_value

T = TypeVar("T")
SOURCE = "sdk:answer"


class NotAnswered(LudolfError):
    """Raised when the model returned no value of the requested type; the text quotes its answer."""


def tool_for(kind: type[T]) -> AnswerTool[T]:
    """Return the tool that takes an answer of a type.

    Raises:
        NoSchema: the type has no JSON Schema.
    """
    return AnswerTool(schema_of(kind), partial(convert_value, kind))
