"""Events as values: the record of an event becomes the struct of its type."""

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ludolf.agent import events as run
from ludolf.base import Value
from ludolf.protocol import events as around
from ludolf.protocol import host_events as host
from ludolf.protocol.server import (
    Attached,
    ClientJoined,
    ClientLeft,
    ServerClosing,
    SessionClosed,
    SessionMoved,
)
from ludolf.protocol.subagent_events import SubagentNews
from ludolf.protocol.ui import UiRequest
from ludolf.protocol.wire import early_frames, frames, omp_frames
from ludolf.protocol.wire.dialects import WireDialect
from ludolf.protocol.wire.stored import StoredEntry, read_open

Record = dict[str, Any]


class UnknownEvent(msgspec.Struct, frozen=True):
    """An event that this version does not know, or not in this shape; `raw` is all of it."""

    type: str
    raw: Record


class SessionSnapshot(Attached):
    """A session of a server at one moment, with the unfinished work in `underway`."""

    entries: tuple[StoredEntry, ...] | UnsetType = UNSET


class Resynced(Value, tag_field="type", tag="resync", rename={"snapshot": "data"}):
    """Events are missing before this one; the snapshot describes the session as it is here.

    Its entries are those after the `leaf_id` of the snapshot before, if the server has that entry.
    """

    snapshot: SessionSnapshot


TypedEvent = (
    run.AgentStart
    | run.AgentEnd
    | around.AgentSettled
    | run.TurnStart
    | run.TurnEnd
    | frames.MessageStart
    | frames.MessageUpdate
    | frames.MessageEnd
    | run.ToolStart
    | run.ToolUpdate
    | run.ToolEnd
    | run.QueueUpdate
    | around.AutoRetryStart
    | around.AutoRetryEnd
    | around.CompactionStart
    | around.CompactionEnd
    | around.SummaryRetryScheduled
    | around.SummaryRetryStart
    | around.SummaryRetryFinished
    | around.SessionInfoChanged
    | around.ThinkingLevelChanged
    | frames.EntryAppended
    | frames.BashUpdate
    | around.LimitReached
    | around.ExtensionError
    | around.Warned
    | around.ContextFilesUsed
    | around.McpServerChanged
    | around.StructuredOutput
    | host.HostToolCall
    | host.HostToolCancel
    | host.TodoReminder
    | host.TodoAutoClear
    | host.StreamRuleHit
    | host.CommandOutput
    | host.SessionInfoUpdate
    | host.ModelChanged
    | host.ConfigUpdate
    | frames.PromptResult
    | host.SessionSettled
    | host.HostUriRequest
    | host.HostUriCancel
    | SubagentNews
    | UiRequest
    | omp_frames.Ready
    | omp_frames.CommandsUpdate
    | omp_frames.AutoCompactionStart
    | omp_frames.AutoCompactionEnd
    | omp_frames.Notice
    | early_frames.EarlyCompaction
    | early_frames.EarlyError
    | early_frames.BashEnd
    | Resynced
    | ClientJoined
    | ClientLeft
    | SessionClosed
    | SessionMoved
    | ServerClosing
    | UnknownEvent
)
_SERVER_EVENTS = (Resynced, ClientJoined, ClientLeft, SessionClosed, SessionMoved, ServerClosing)


class EventReader:
    """Reads the events of one dialect. What other programs write a little differently is read as
    far as it is common to all; what is not even that is unknown."""

    def __init__(self, wire: WireDialect) -> None:
        self._kinds = {name: _from_own_to_open(name, kind) for name, kind in wire.by_type().items()}

    def read(self, record: Record) -> TypedEvent:
        for kind in self._kinds.get(record["type"], ()):
            try:
                event: TypedEvent = msgspec.convert(record, kind, dec_hook=read_open)
            except (msgspec.ValidationError, UnicodeEncodeError):
                continue
            return event
        return UnknownEvent(record["type"], record)


class SessionEventReader(EventReader):
    """Reads the events of a session of a server too."""

    def __init__(self, wire: WireDialect) -> None:
        super().__init__(wire)
        self._kinds |= {str(kind.__struct_config__.tag): (kind,) for kind in _SERVER_EVENTS}


def _from_own_to_open(name: str, kind: type[Any]) -> tuple[type[Any], ...]:
    own = (each for each in kind.__mro__ if issubclass(each, Value))
    return tuple(each for each in (*own, *frames.OPEN) if each.__struct_config__.tag == name)
