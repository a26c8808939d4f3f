"""Parameters of commands as hosts should send them, stricter than the server reads them."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ludolf.agent.io import QueueMode
from ludolf.ai.messages import Image, Text, ThinkingLevel
from ludolf.base import Value
from ludolf.protocol.commands import COMMANDS
from ludolf.protocol.results import TodoStatus
from ludolf.protocol.subagent_events import Level

InterruptMode = Literal["immediate", "wait"]


class OneOf:
    """A choice among structs that differ only by their fields."""

    members: tuple[type[Any], ...]


# ---------------------------------------------------------------- prompts


class ImageData(Value):
    """An image in base64."""

    data: str
    mime_type: str
    type: Literal["image"] = "image"


class ImageSource(Value):
    type: Literal["base64"]
    data: str
    media_type: str


class SourcedImage(Value):
    """The same in the shape of some model providers."""

    source: ImageSource
    type: Literal["image"] = "image"


class ImageInput(OneOf):
    members = (ImageData, SourcedImage)


class Attachment(Value, kw_only=True):
    """An image as `content`, or a document with its `extractedText`: the form of early pi."""

    type: str | None = None
    file_name: str | None = None
    mime_type: str | None = None
    content: str | None = None
    extracted_text: str | None = None


class HostTool(Value, kw_only=True):
    """A tool of the host; `parameters` is a JSON Schema. A hidden one is kept from the model."""

    name: str
    description: str
    parameters: dict[str, Any]
    label: str | None = None
    hidden: bool = False
    read_only: bool = False
    timeout_ms: float | None = None


class HostToolContent(Value, kw_only=True):
    """`isError`: the result is an error."""

    content: list[Text | Image]
    details: Any = UNSET
    is_error: bool = False


class HostUriScheme(Value, kw_only=True):
    """Addresses that begin with `scheme://` are documents of the host."""

    scheme: str
    description: str | None = None
    writable: bool = False
    immutable: bool = False
    timeout_ms: float | None = None


class TaskInput(Value, kw_only=True):
    content: str
    id: str | None = None
    status: TodoStatus = "pending"
    notes: str | None = None
    blocker: str | None = None


class PhaseInput(Value, kw_only=True):
    """A task may be its text alone."""

    tasks: list[TaskInput | str]
    name: str | None = None
    id: str | None = None


# ---------------------------------------------------------------- the table

Fields = dict[str, Any]
_IMAGES: Fields = {"images": (list[ImageInput] | None, None)}
_PROMPT: Fields = {
    "__doc__": "`streamingBehavior` is required while the agent runs. `outputSchema` is a JSON "
    "Schema: the answer is a value that fits it, in `structured_output`.",
    **_IMAGES,
    "attachments": (list[Attachment] | None, None),
    "output_schema": (dict[str, Any] | None, None),
}
# Types of fields that the server takes as any JSON, with their default if they have one.
_STRICTER: dict[str, Fields] = {
    "prompt": _PROMPT,
    "abort_and_prompt": _PROMPT,
    "steer": _IMAGES,
    "follow_up": _IMAGES,
    "set_thinking_level": {"level": ThinkingLevel},
    "set_steering_mode": {"mode": QueueMode},
    "set_follow_up_mode": {"mode": QueueMode},
    "set_interrupt_mode": {"mode": InterruptMode},
    "set_event_filter": {
        "__doc__": "Null or absent lifts the filter. With `usage` `changes`, updates of an answer "
        "have a `usage` only if it differs from that of the update before.",
        "usage": (Literal["all", "changes"] | None, None),
    },
    "negotiate_protocol": {"protocol_version": (Literal[1, 2], 1)},
    "get_messages_page": {
        "cursor": (str | None, None),
        "limit": (Annotated[int, Meta(ge=1, le=256)] | None, None),
    },
    "extension_ui_response": {
        "__doc__": "`value` for a choice or a text, `confirmed` for yes and no; "
        "`cancelled` dismisses.",
        "id": str,
        "value": (str | UnsetType, UNSET),
        "confirmed": (bool | UnsetType, UNSET),
        "cancelled": (bool, False),
    },
    "set_host_tools": {
        "__doc__": "All tools at once; they replace those before.",
        "tools": list[HostTool],
    },
    "host_tool_update": {
        "__doc__": "The result so far; it replaces the one before.",
        "id": str,
        "partial_result": HostToolContent,
    },
    "host_tool_result": {
        "__doc__": "With `isError` the texts are the error of the call.",
        "id": str,
        "result": HostToolContent,
        "is_error": (bool, False),
    },
    "set_host_uri_schemes": {
        "__doc__": "All schemes at once; they replace those before.",
        "schemes": list[HostUriScheme],
    },
    "host_uri_result": {
        "__doc__": "A document, in base64 for an image; with `isError`, `error` is the reason.",
        "id": str,
        "content": (str | None, None),
        "content_type": (str | None, None),
        "notes": (list[str] | None, None),
        "immutable": (bool | None, None),
        "is_error": (bool, False),
        "error": (str | None, None),
    },
    "set_subagent_subscription": {"level": Level},
    "get_subagent_messages": {
        "__doc__": "Either field names the subagent; the file is read from `fromByte` on.",
        "from_byte": (int | None, None),
    },
    "set_todos": {"phases": list[PhaseInput]},
}


def _sent(name: str, params: type[Value]) -> type[msgspec.Struct]:
    """Return the parameters of a command with their stricter types."""
    if name not in _STRICTER:
        return params
    fields = dict(_STRICTER[name])
    own = {"__doc__": fields.pop("__doc__", None)}
    typed = [
        (key, *kind) if isinstance(kind, tuple) else (key, kind) for key, kind in fields.items()
    ]
    return msgspec.defstruct(f"{name}_sent", typed, bases=(params,), namespace=own)


SENT: dict[str, type[msgspec.Struct]] = {
    name: _sent(name, spec.params) for name, spec in COMMANDS.items()
}
