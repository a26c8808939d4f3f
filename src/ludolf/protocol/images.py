"""Read images and attachments of a command, in every shape that hosts send."""

from typing import Any

from ludolf.ai.messages import Image, Part, Text
from ludolf.protocol.commands import BadCommand, invalid_parameter


def read_images(command: str, images: list[Any] | None) -> tuple[Image, ...]:
    """Images as `{data, mimeType}` or `{source: {type: "base64", mediaType, data}}`.

    Raises:
        BadCommand: an item is not an image, or only a link to one.
    """
    return tuple(read_image(command, item) for item in images or ())


def read_attachments(command: str, items: list[Any] | None) -> tuple[Part, ...]:
    """Attachments of early pi: an image, or a document with its text already extracted."""
    parts: list[Part] = []
    for item in items or ():
        if not isinstance(item, dict):
            raise invalid_parameter(command, "attachments")
        if item.get("type") == "image":
            shape = {"data": item.get("content"), "mimeType": item.get("mimeType")}
            parts.append(read_image(command, shape, field="attachments"))
        elif isinstance(item.get("extractedText"), str):
            name = item.get("fileName", "document")
            text = f"\n\n[Document: {name}]\n{item['extractedText']}"
            parts.append(Text(text=text, is_document=True))
    return tuple(parts)


def read_image(command: str, item: Any, field: str = "images") -> Image:
    """Raises:
    BadCommand: the item is not an image, or only a link to one.
    """
    source = item.get("source", item) if isinstance(item, dict) else {}
    if isinstance(source, dict):
        if source.get("type") == "url":
            raise BadCommand(f"{command}: images by URL are not supported; send them as base64")
        data = source.get("data")
        kind = source.get("mimeType") or source.get("mediaType") or source.get("media_type")
        if isinstance(data, str) and isinstance(kind, str):
            return Image(data=data, mime_type=kind)
    raise invalid_parameter(command, field)
