"""Frames of the dialects of oh-my-pi and xcsh."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args

from msgspec import Meta, field

from ludolf.agent import events as run
from ludolf.agent.tool import ToolOutput
from ludolf.ai.messages import AssistantMessage
from ludolf.base import Value
from ludolf.protocol import events as around
from ludolf.protocol import host_events as host
from ludolf.protocol.subagent_events import AgentWaiting
from ludolf.protocol.ui import UiRequest
from ludolf.protocol.wire.answers import CommandItem
from ludolf.protocol.wire.frames import (
    COMMON,
    Chunk,
    Header,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Replaced,
    frames,
)
from ludolf.protocol.wire.omp_messages import (
    OmpAssistantMessage,
    OmpMessage,
    OmpModel,
    OmpToolCall,
    OmpToolResultMessage,
)
from ludolf.protocol.wire.pieces import Piece, WholePiece

# A field of the common struct that a dialect never writes: it is in no schema.
Never = Annotated[bool, Meta(extra_json_schema={"absent": True})]


class Ready(Value, tag_field="type", tag="ready"):
    """The first record: commands may be sent."""


class OmpReady(Ready):
    protocol_version: int
    supported_protocol_versions: tuple[int, ...]
    max_frame_bytes: int
    max_reassembled_frame_bytes: int


class XcshReady(Ready):
    version: str


class CommandsUpdate(Value, tag_field="type", tag="available_commands_update"):
    """The commands that a prompt may now call with `/`."""

    commands: tuple[CommandItem, ...]


# ---------------------------------------------------------------- the run


class OmpAgentEnd(run.AgentEnd, kw_only=True):
    """The end of a prompt, with the messages of its last run.

    `messageCount` is there where the list was cut for a host with small buffers.
    """

    messages: tuple[OmpMessage, ...]  # type: ignore[assignment]  # with reminders of its own
    will_retry: Never = False
    is_terminal: bool = True
    message_count: int | None = None


class OmpTurnEnd(run.TurnEnd):
    message: OmpAssistantMessage
    tool_results: tuple[OmpToolResultMessage, ...]


class OmpMessageStart(MessageStart):
    message: OmpMessage  # type: ignore[assignment]  # likewise


class OmpMessageEnd(MessageEnd):
    message: OmpMessage  # type: ignore[assignment]  # likewise


if TYPE_CHECKING:
    OmpPiece = Piece
else:
    *_OTHERS, _END = get_args(WholePiece)

    class OmpToolcallEnd(_END):
        tool_call: OmpToolCall

    OmpPiece = Union[(*_OTHERS, OmpToolcallEnd)]  # made of a tuple


class OmpUpdate(MessageUpdate):
    """The piece with the whole answer so far, twice."""

    assistant_message_event: OmpPiece
    message: AssistantMessage


class OmpToolOutput(ToolOutput, kw_only=True):
    """`isError`: the result is an error with details."""

    details: Any
    is_error: bool = False


class OmpToolUpdate(run.ToolUpdate):
    partial_result: OmpToolOutput


class OmpToolEnd(run.ToolEnd, kw_only=True):
    """`isWarning` is there in xcsh only."""

    result: OmpToolOutput
    is_warning: bool = False


# ---------------------------------------------------------------- around it


class OmpRetryStart(around.AutoRetryStart):
    error_id: int


class RetryError(Value):
    attempt: int
    error_message: str
    error_id: int


class OmpRetryEnd(around.AutoRetryEnd, kw_only=True):
    """`retryErrors` are those of all attempts; missing where the host ended them."""

    retry_errors: tuple[RetryError, ...] | None = None


class AutoCompactionStart(Value, tag_field="type", tag="auto_compaction_start"):
    """The older part of the conversation is replaced by a summary."""

    reason: Literal["threshold", "overflow"]
    action: Literal["context-full"]


class AutoCompactionResult(Value):
    summary: str
    short_summary: str
    first_kept_entry_id: str
    tokens_before: int
    details: Any


class AutoCompactionEnd(Value, tag_field="type", tag="auto_compaction_end"):
    """`result` is null unless the compaction succeeded."""

    action: Literal["context-full"]
    result: AutoCompactionResult | None
    aborted: bool
    will_retry: bool
    error_message: str | None = None


class OmpLevelChanged(around.ThinkingLevelChanged):
    level: str = field(name="thinkingLevel")


class OmpConfigUpdate(host.ConfigUpdate):
    model: OmpModel


class Notice(Value, tag_field="type", tag="notice"):
    """Something could not be done as it should, or is worth to be known."""

    level: Literal["info", "warning"]
    message: str
    source: str


OMP: Replaced = {
    **COMMON,
    **dict.fromkeys(around.ONLY_PI),
    run.AgentEnd: OmpAgentEnd,
    around.AgentSettled: None,
    AgentWaiting: None,
    run.TurnEnd: OmpTurnEnd,
    run.MessageStart: OmpMessageStart,
    run.MessageUpdate: OmpUpdate,
    run.MessageEnd: OmpMessageEnd,
    run.ToolUpdate: OmpToolUpdate,
    run.ToolEnd: OmpToolEnd,
    run.QueueUpdate: None,
    around.AutoRetryStart: OmpRetryStart,
    around.AutoRetryEnd: OmpRetryEnd,
    around.CompactionStart: AutoCompactionStart,
    around.CompactionEnd: AutoCompactionEnd,
    around.ThinkingLevelChanged: OmpLevelChanged,
    around.Warned: Notice,
    around.ContextFilesUsed: Notice,
    host.ConfigUpdate: OmpConfigUpdate,
}
XCSH: Replaced = {
    **OMP,
    around.ThinkingLevelChanged: None,
    around.Warned: None,
    around.ContextFilesUsed: None,
}
OMP_FRAMES = frames(OMP, OmpReady, CommandsUpdate, UiRequest, Chunk, Header)
XCSH_FRAMES = frames(XCSH, XcshReady, UiRequest, Chunk, Header)
