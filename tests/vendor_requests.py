"""Conversations and options whose requests are held against the vendors' own types and rules."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

from ludolf.ai.messages import (
    THINKING_LEVELS,
    AssistantMessage,
    Image,
    Message,
    Part,
    Text,
    ToolResultMessage,
    UserMessage,
)
from ludolf.ai.provider import ToolSpec
from tests.vendor_streams import FAMILIES, READ, message_of, model, names

PICTURE = Image(data="iVBORw0KGgo=", mime_type="image/png")
_TEXT = {"type": "string", "description": "Where."}
EDIT = ToolSpec(
    "edit",
    "Changes a file.",
    {
        "type": "object",
        "properties": {
            "path": _TEXT,
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"old": {"type": "string"}, "new": {"type": "string"}},
                    "required": ["old", "new"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["path", "edits"],
        "additionalProperties": False,
    },
)
# Answers that are whole; what failed is never sent again.
_UNSENT = ("cut", "error", "failed", "garbage", "no_end", "refusal_without_words")


class Case(msgspec.Struct, frozen=True):
    """What a request is made of: the conversation, and what differs from the plain request."""

    messages: tuple[Message, ...]
    changes: dict[str, Any] = {}


def user(*parts: Part | str) -> UserMessage:
    blocks = tuple(Text(text=part) if isinstance(part, str) else part for part in parts)
    return UserMessage(content=blocks or (Text(text="Go on."),), timestamp=1)


def results(answer: AssistantMessage, *parts: Part, is_error: bool = False) -> list[Message]:
    """A result for each call of an answer."""
    return [
        ToolResultMessage(
            tool_call_id=call.id,
            tool_name=call.name,
            content=parts or (Text(text=f"done {place}"),),
            is_error=is_error,
            timestamp=3,
        )
        for place, call in enumerate(answer.tool_calls)
    ]


@cache
def told_by(family: str) -> tuple[AssistantMessage, ...]:
    """All answers of a family that a later request repeats."""
    chosen = [name for name in names(family) if not name.startswith(_UNSENT)]
    found = [message_of(family, name) for name in chosen]
    return tuple(message for message in found if not message.failed)


def dialogue(answers: Sequence[AssistantMessage]) -> tuple[Message, ...]:
    """A conversation of these answers, with a result for each call."""
    said: list[Message] = []
    for answer in answers:
        said += (user(), answer, *results(answer))
    return (*said, user())


def cases(family: str) -> dict[str, Case]:
    """The table: conversations of every form, then options one by one."""
    tools = message_of(family, "tools")
    shown = results(tools, PICTURE), results(tools, Text(text="a chart"), PICTURE)
    failed = results(tools, is_error=True), results(tools, Text(text=""), is_error=True)
    table = {
        "a question": Case((user("Hi"),)),
        "a plain string": Case((UserMessage(content="Hi", timestamp=1),)),
        "no system prompt": Case((user("Hi"),), {"system": ""}),
        "a picture": Case((user("What is this?", PICTURE),)),
        "a picture alone": Case((user(PICTURE),)),
        "results with pictures": Case((user(), tools, *shown[0], user(), tools, *shown[1])),
        "results that failed": Case((user(), tools, *failed[0], user(), tools, *failed[1])),
        "a call without result": Case((user(), tools, user("Stop."))),
        "all answers of its own": Case(dialogue(told_by(family))),
        "calls but no tools": Case((user(), tools, *results(tools)), {"tools": ()}),
        "several tools": Case((user(),), {"tools": (READ, EDIT)}),
        "an output limit": Case((user(),), {"max_tokens": 500}),
        "a session, long cache": Case((user(),), {"session_id": "0199-session", "cache": "long"}),
        "no cache": Case((user(),), {"session_id": "0199-session", "cache": "none"}),
        "a model that does not think": Case(
            (user(),), {"model": model(family, reasoning=False, input=("text",))}
        ),
    }
    for other in FAMILIES:
        if other != family:
            table[f"answers of {other}"] = Case(dialogue(told_by(other)))
    for level in THINKING_LEVELS:
        table[f"thinking {level}"] = Case((user(),), {"thinking": level})
    return table
