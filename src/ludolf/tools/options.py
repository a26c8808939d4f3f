"""Options of the built-in tools, from the settings and the model, and their parameters."""

from collections.abc import Mapping
from typing import Any

from ludolf.base import Value


class ImageLimits(Value):
    """Maximum size of an image for a model; `max_bytes` counts base64 characters."""

    max_width: int = 2000
    max_height: int = 2000
    max_bytes: int = 4_718_592
    jpeg_quality: int = 80


class BuiltinToolOptions(Value):
    shell_path: str | None = None
    command_prefix: str | None = None
    auto_resize: bool = True
    # The value of PATH in which tools find programs of their own.
    path: str = ""
    image_limits: ImageLimits = ImageLimits()


def image_limits(input_limits: Mapping[str, Any] | None) -> ImageLimits:
    """Return the image limits in the `inputLimits` of a model, with defaults."""
    images = (input_limits or {}).get("images") or {}
    stated = images.get("resize") or {}
    names = zip(ImageLimits.__struct_fields__, ImageLimits.__struct_encode_fields__, strict=True)
    return ImageLimits(**{name: int(stated[wire]) for name, wire in names if stated.get(wire)})


def parameter_schema(*required: str, **properties: tuple[str, str]) -> Mapping[str, Any]:
    """Return the JSON Schema of a tool's parameters, each with its type and description."""
    shapes = {
        name: {"type": kind, "description": text} for name, (kind, text) in properties.items()
    }
    schema: dict[str, Any] = {"type": "object", "properties": shapes}
    return {**schema, "required": list(required)} if required else schema
