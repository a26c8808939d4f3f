"""Content of messages and calls for export: off by default, masked, and cut to a size."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from ludolf.ai.messages import (
    AssistantMessage,
    Image,
    Part,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from ludolf.base import dumps
from ludolf.config.settings.settings import TelemetryOptions

MOST_BYTES = 16 * 1024
ELLIPSIS = "…"
_CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_LENGTH_LIMIT = "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"
_PLACES = ("no_content", "span_only", "event_only", "span_and_event")
_QUERY = re.compile(r"(\w+://[^\s?#\"'<>]+)\?[^\s\"'<>]*")
# What the JSON of a message holds around its texts.
_MESSAGE_BYTES, _PART_BYTES = 64, 96
Scrub = Callable[[Any], Any]


class ContentPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a message; `text` of a call are its arguments."""

    kind: Literal["text", "reasoning", "tool_call"] = "text"
    text: str
    name: str = ""
    id: str = ""


class ContentRules(msgspec.Struct, frozen=True, kw_only=True):
    """Which content is exported, and where: `place` is a value of the variable of the conventions.

    `scrub` masks secrets in a JSON value.
    """

    place: str = "no_content"
    prompts: bool = False
    answers: bool = False
    tools: bool = False
    limit: int = MOST_BYTES
    scrub: Scrub = lambda value: value

    @property
    def any(self) -> bool:
        return self.prompts or self.answers or self.tools

    def prompt(self, message: UserMessage) -> list[ContentPart]:
        if not self.prompts:
            return []
        return self._fit(ContentPart(text=_shown(part)) for part in message.parts)

    def instructions(self, system: str) -> list[ContentPart]:
        return self._fit([ContentPart(text=system)]) if self.prompts and system else []

    def answer(self, message: AssistantMessage) -> list[ContentPart]:
        if not self.answers:
            return []
        return self._fit(self._blocks(message))

    def arguments(self, args: Any) -> str | None:
        """Return the arguments of a call as JSON."""
        return self.text(dumps(self.scrub(args)).decode("utf-8", "replace")) if self.tools else None

    def result(self, content: tuple[Part, ...]) -> str | None:
        """Return the result of a call as text."""
        return self.text("\n".join(map(_shown, content))) if self.tools else None

    def text(self, text: str) -> str:
        """Return a text for an attribute of its own."""
        return cut(self._clean(text), self.limit)

    def _blocks(self, message: AssistantMessage) -> Iterator[ContentPart]:
        for block in message.content:
            if isinstance(block, Text):
                yield ContentPart(text=block.text)
            elif isinstance(block, Thinking):
                yield ContentPart(kind="reasoning", text=block.thinking)
            elif isinstance(block, ToolCall):
                text = dumps(self.scrub(block.arguments)).decode("utf-8", "replace")
                shown = text if self.tools else ""
                yield ContentPart(kind="tool_call", text=shown, name=block.name, id=block.id)

    def _fit(self, parts: Iterator[ContentPart] | list[ContentPart]) -> list[ContentPart]:
        """Return the parts that fit into one attribute, the last one cut."""
        left, fitting = self.limit - _MESSAGE_BYTES, []
        for part in parts:
            left -= _PART_BYTES + len(part.name) + len(part.id)
            if left <= 0:
                break
            text = cut_json(self._clean(part.text), left)
            left -= len(json.dumps(text))
            fitting.append(msgspec.structs.replace(part, text=text))
        return fitting

    def _clean(self, text: str) -> str:
        return _QUERY.sub(rf"\1?{ELLIPSIS}", self.scrub(text))


def content_rules(
    environ: Mapping[str, str], options: TelemetryOptions, scrub: Scrub
) -> ContentRules:
    """Return the rules of a session: the variable says where, the settings narrow what."""
    chosen, narrowed = environ.get(_CAPTURE, "").strip().lower(), options.content
    place = chosen if chosen in _PLACES else "no_content"
    if not chosen and narrowed is not None:
        place = "span_only"
    if place == "no_content" or (narrowed is not None and not narrowed.any):
        return ContentRules()
    given = environ.get(_LENGTH_LIMIT, "").strip()
    limit = min(MOST_BYTES, int(given)) if given.isdecimal() else MOST_BYTES
    if narrowed is None:
        return ContentRules(
            place=place, prompts=True, answers=True, tools=True, limit=limit, scrub=scrub
        )
    return ContentRules(
        place=place,
        prompts=narrowed.prompts,
        answers=narrowed.answers,
        tools=narrowed.tools,
        limit=limit,
        scrub=scrub,
    )


def cut(text: str, limit: int) -> str:
    """Return the text with at most `limit` bytes, cut at a character and marked."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    room = max(0, limit - len(ELLIPSIS.encode()))
    return data[:room].decode("utf-8", "ignore") + ELLIPSIS


def cut_json(text: str, limit: int) -> str:
    """Return the text so that its JSON string has at most `limit` bytes."""
    if len(json.dumps(text)) <= limit:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if len(json.dumps(text[:middle] + ELLIPSIS)) <= limit:
            low = middle
        else:
            high = middle - 1
    return text[:low] + ELLIPSIS


def _shown(part: Part) -> str:
    """Return a part as text; of an image only its type and size."""
    if isinstance(part, Image):
        return f"[{part.mime_type}, {len(part.data) * 3 // 4} bytes]"
    return part.text
