"""Frames of the program that are the same in several dialects, and pi's own two."""

from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta

from ludolf.agent import events as run
from ludolf.ai.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from ludolf.base import Value
from ludolf.protocol import events as around
from ludolf.protocol import host_events as host
from ludolf.protocol.events import Event
from ludolf.protocol.ui import UiRequest
from ludolf.protocol.wire.pieces import Piece, WholePiece
from ludolf.protocol.wire.stored import StoredEntry, StoredMessage
from ludolf.session import entries

SPOKEN: tuple[type[Any], ...] = get_args(Event)


MessageId = Annotated[
    str,
    Meta(description="The same in all frames of a message; for hosts that want prompt results."),
]


class MessageStart(run.MessageStart, kw_only=True):
    """A message begins; an assistant's is empty unless it failed before its first token."""

    message_id: MessageId | None = None


class MessageEnd(run.MessageEnd, kw_only=True):
    """A message is whole, and on disk."""

    message_id: MessageId | None = None


class MessageUpdate(Value, kw_only=True, tag_field="type", tag="message_update"):
    """A piece of an answer, between its `message_start` and `message_end`."""

    assistant_message_event: Piece
    message_id: MessageId | None = None

    @property
    def piece(self) -> Piece:
        """The same under a shorter name."""
        return self.assistant_message_event


class PieceUpdate(MessageUpdate):
    """The piece alone; the whole is in `message_end`.

    `usage` is only absent for a host that asked for changes alone.
    """

    usage: Usage | None = None


class WholeUpdate(MessageUpdate):
    """The piece with the whole answer so far, twice."""

    assistant_message_event: WholePiece
    message: AssistantMessage
    usage: Usage | None = None


class BegunMessage(AssistantMessage):
    """An answer that begins."""

    stop_reason: Literal["pending", "stop", "length", "toolUse", "error", "aborted"]  # type: ignore[assignment]  # one word more than a finished one


class BegunStart(MessageStart):
    """A message begins; an answer that has not failed yet is `pending`."""

    message: (
        UserMessage
        | BegunMessage
        | ToolResultMessage
        | BashExecutionMessage
        | CustomMessage
        | BranchSummaryMessage
        | CompactionSummaryMessage
    )


class FailedCompactionEnd(around.CompactionEnd, kw_only=True):
    """`result` is missing unless the compaction succeeded."""

    result: around.CompactionResult | None = None


# ---------------------------------------------------------------- as other programs may say it


class OpenMessageStart(MessageStart):
    """A message of a role that only other programs know."""

    message: StoredMessage  # type: ignore[assignment]  # as above


class OpenMessageEnd(MessageEnd):
    message: StoredMessage  # type: ignore[assignment]  # likewise


class OpenAgentEnd(run.AgentEnd, kw_only=True):
    messages: tuple[StoredMessage, ...]  # type: ignore[assignment]  # likewise
    will_retry: bool = False


OPEN: tuple[type[Any], ...] = (
    BegunStart,
    FailedCompactionEnd,
    OpenMessageStart,
    OpenMessageEnd,
    OpenAgentEnd,
)


# ---------------------------------------------------------------- in all dialects of pi


class AnyToolStart(run.ToolStart):
    """A call is looked at. `args` are an object, unless the model gave something else."""

    args: Any


class EntryAppended(Value, tag_field="type", tag="entry_appended"):
    """An extension wrote an entry into the session."""

    entry: StoredEntry


class BashUpdate(Value, kw_only=True, tag_field="type", tag="bash_execution_update"):
    """Output of a shell command that the host runs; `id` is that of the host's command."""

    id: Any = UNSET
    delta: str


class PromptResult(host.PromptEnded, kw_only=True):
    """The end of one prompt, for hosts that asked for it; `id` is that of the prompt."""

    id: Any = UNSET


class Header(entries.SessionHeader):
    """The first line of `--mode json`, which has no replies."""


class Chunk(Value, tag_field="type", tag="rpc_chunk"):
    """A slice of a line that is longer than agreed; `data` is base64.

    Chunks of one line follow each other; joined they are the line.
    """

    chunk_id: str
    index: int
    count: int
    byte_length: int
    data: str


# What an event of the core is on the wire where its own struct does not say it; None: unspoken.
Replaced = dict[type[Any], type[Any] | None]
COMMON: Replaced = {
    run.MessageStart: MessageStart,
    run.MessageEnd: MessageEnd,
    run.ToolStart: AnyToolStart,
    around.EntryStored: EntryAppended,
    around.ShellOutput: BashUpdate,
    host.PromptEnded: PromptResult,
}
PI: Replaced = {**COMMON, run.MessageUpdate: WholeUpdate}
PI_DELTA: Replaced = {
    **COMMON,
    run.MessageUpdate: PieceUpdate,
    run.MessageStart: BegunStart,
    around.CompactionEnd: FailedCompactionEnd,
}


def frames(replaced: Replaced, *more: type[Any]) -> tuple[type[Any], ...]:
    """The frames of a dialect: all events of the core with some replaced, and its own."""
    kinds = (replaced.get(kind, kind) for kind in SPOKEN)
    return (*(kind for kind in kinds if kind is not None), *more)


PI_FRAMES = frames(PI, UiRequest, Chunk, Header)
PI_DELTA_FRAMES = frames(PI_DELTA, UiRequest, Chunk, Header)


# Method -> fields that are always there, fields that may be.
REQUESTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "select": (
        ("title", "options"),
        ("timeout", "toolName", "toolCallId", "args", "risk", "sessionId"),
    ),
    "confirm": (("title", "message"), ("timeout",)),
    "input": (("title",), ("placeholder", "timeout")),
    "editor": (("title",), ("prefill",)),
    "notify": (("message",), ("notifyType",)),
    "setStatus": (("statusKey",), ("statusText",)),
    "setWidget": (("widgetKey",), ("widgetLines", "widgetPlacement")),
    "setTitle": (("title",), ()),
    "set_editor_text": (("text",), ()),
    "open_url": (("url",), ("launchUrl", "instructions")),
    "cancel": (("targetId",), ("by",)),
}
