"""Parameters of commands as hosts should send them, stricter than the server reads them."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from ludolf.agent.io import (
    QueueMode,
)
from ludolf.ai.messages import Image, Text, ThinkingLevel
from ludolf.base import Value
from ludolf.protocol import commands
from ludolf.protocol.commands import COMMANDS
from ludolf.protocol.results import (
    TodoStatus,
)
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


class PromptSchema(commands.Prompt):
    """`streamingBehavior` is required while the agent runs."""

    images: list[ImageInput] | None = None
    attachments: list[Attachment] | None = None


class QueueMessageSchema(commands.QueueMessage):
    images: list[ImageInput] | None = None


# ---------------------------------------------------------------- words out of a few


class SetThinkingLevelSchema(commands.SetThinkingLevel):
    level: ThinkingLevel


class SetQueueModeSchema(commands.SetMode):
    mode: QueueMode


class SetInterruptModeSchema(commands.SetMode):
    mode: InterruptMode


class NegotiateProtocolSchema(commands.NegotiateProtocol):
    protocol_version: Literal[1, 2] = 1


class GetMessagesPageSchema(commands.GetMessagesPage):
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=256)] | None = None


# ---------------------------------------------------------------- host tools and documents


class UiAnswerSchema(commands.UiAnswer):
    """`value` for a choice or a text, `confirmed` for yes and no; `cancelled` dismisses."""

    id: str
    value: str | UnsetType = UNSET
    confirmed: bool | UnsetType = UNSET
    cancelled: bool = False


class HostTool(Value, kw_only=True):
    """A tool of the host; `parameters` is a JSON Schema. A hidden one is kept from the model."""

    name: str
    description: str
    parameters: dict[str, Any]
    label: str | None = None
    hidden: bool = False
    read_only: bool = False
    timeout_ms: float | None = None


class SetHostToolsSchema(commands.SetHostTools):
    """All tools at once; they replace those before."""

    tools: list[HostTool]


class HostToolContent(Value, kw_only=True):
    """`isError`: the result is an error."""

    content: list[Text | Image]
    details: Any = UNSET
    is_error: bool = False


class HostToolUpdateSchema(commands.HostToolUpdate):
    """The result so far; it replaces the one before."""

    id: str
    partial_result: HostToolContent


class HostToolResultSchema(commands.HostToolResult):
    """With `isError` the texts are the error of the call."""

    id: str
    result: HostToolContent
    is_error: bool = False


class HostUriScheme(Value, kw_only=True):
    """Addresses that begin with `scheme://` are documents of the host."""

    scheme: str
    description: str | None = None
    writable: bool = False
    immutable: bool = False
    timeout_ms: float | None = None


class SetHostUriSchemesSchema(commands.SetHostUriSchemes):
    """All schemes at once; they replace those before."""

    schemes: list[HostUriScheme]


class HostUriResultSchema(commands.HostUriResult):
    """A document, in base64 for an image; with `isError`, `error` is the reason."""

    id: str
    content: str | None = None
    content_type: str | None = None
    notes: list[str] | None = None
    immutable: bool | None = None
    is_error: bool = False
    error: str | None = None


class SetSubagentSubscriptionSchema(commands.SetSubagentSubscription):
    level: Level


class GetSubagentMessagesSchema(commands.GetSubagentMessages):
    """Either field names the subagent; the file is read from `fromByte` on."""

    from_byte: int | None = None


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


class SetTodosSchema(commands.SetTodos):
    phases: list[PhaseInput]


SENT: dict[str, type[Value]] = {
    name: globals()[spec.sent] if spec.sent else spec.params for name, spec in COMMANDS.items()
}
