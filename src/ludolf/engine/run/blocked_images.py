"""Implements `images.blockImages`: replace images in requests with a note."""

from collections.abc import Iterable
from itertools import groupby

from msgspec import structs

from ludolf.ai.messages import (
    AnyMessage,
    CustomMessage,
    Image,
    Part,
    Text,
    ToolResultMessage,
    UserMessage,
)

NOTE = "Image reading is disabled."


class ImageBlock:
    """Replaces images by a note. The same message always gives the same copy, so that what a
    provider made of it can be kept."""

    def __init__(self) -> None:
        self._copies: dict[int, tuple[AnyMessage, AnyMessage]] = {}

    def apply(self, messages: Iterable[AnyMessage]) -> tuple[AnyMessage, ...]:
        return tuple(map(self._without, messages))

    def _without(self, message: AnyMessage) -> AnyMessage:
        if not isinstance(message, UserMessage | CustomMessage | ToolResultMessage):
            return message
        if not any(isinstance(part, Image) for part in message.content):
            return message
        known = self._copies.get(id(message))
        if known is None or known[0] is not message:
            copy = structs.replace(message, content=_noted(message.content))
            known = self._copies[id(message)] = (message, copy)
        return known[1]


def _noted(content: str | tuple[Part, ...]) -> tuple[Part, ...]:
    parts: list[Part] = []
    for is_image, run in groupby(content, lambda part: isinstance(part, Image)):
        if is_image:
            parts.append(Text(text=NOTE))
        else:
            parts += [part for part in run if isinstance(part, Text)]
    return tuple(parts)
