"""Events as values: the record of an event becomes the struct of its type."""

from typing import Any

import msgspec

from ludolf.agent.events import (
    AgentEnd,
    AgentStart,
    QueueUpdate,
    ToolEnd,
    ToolStart,
    ToolUpdate,
    TurnEnd,
    TurnStart,
)
from ludolf.base import Value
from ludolf.protocol.events import (
    AgentSettled,
    AutoRetryEnd,
    AutoRetryStart,
    CompactionEnd,
    CompactionStart,
    ContextFilesUsed,
    ExtensionError,
    LimitReached,
    SessionInfoChanged,
    SummaryRetryFinished,
    SummaryRetryScheduled,
    SummaryRetryStart,
    ThinkingLevelChanged,
    Warned,
)
from ludolf.protocol.host_events import (
    CommandOutput,
    ConfigUpdate,
    HostToolCall,
    HostToolCancel,
    HostUriCancel,
    HostUriRequest,
    ModelChanged,
    SessionInfoUpdate,
    SessionSettled,
    StreamRuleHit,
    TodoAutoClear,
    TodoReminder,
)
from ludolf.protocol.subagent_events import (
    AgentWaiting,
    SubagentEvent,
    SubagentLifecycle,
    SubagentProgress,
)
from ludolf.protocol.ui import UiRequest
from ludolf.protocol.wire.dialects import WireDialect
from ludolf.protocol.wire.early_frames import BashEnd, EarlyCompaction, EarlyError
from ludolf.protocol.wire.frames import (
    OPEN,
    BashUpdate,
    EntryAppended,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    PromptResult,
)
from ludolf.protocol.wire.omp_frames import (
    AutoCompactionEnd,
    AutoCompactionStart,
    CommandsUpdate,
    Notice,
    Ready,
)
from ludolf.protocol.wire.stored import read_open

Record = dict[str, Any]


class UnknownEvent(msgspec.Struct, frozen=True):
    """An event that this version does not know, or not in this shape; `raw` is all of it."""

    type: str
    raw: Record


TypedEvent = (
    AgentStart
    | AgentEnd
    | AgentSettled
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolStart
    | ToolUpdate
    | ToolEnd
    | QueueUpdate
    | AutoRetryStart
    | AutoRetryEnd
    | CompactionStart
    | CompactionEnd
    | SummaryRetryScheduled
    | SummaryRetryStart
    | SummaryRetryFinished
    | SessionInfoChanged
    | ThinkingLevelChanged
    | EntryAppended
    | BashUpdate
    | LimitReached
    | ExtensionError
    | Warned
    | ContextFilesUsed
    | HostToolCall
    | HostToolCancel
    | TodoReminder
    | TodoAutoClear
    | StreamRuleHit
    | CommandOutput
    | SessionInfoUpdate
    | ModelChanged
    | ConfigUpdate
    | PromptResult
    | SessionSettled
    | HostUriRequest
    | HostUriCancel
    | AgentWaiting
    | SubagentLifecycle
    | SubagentProgress
    | SubagentEvent
    | UiRequest
    | Ready
    | CommandsUpdate
    | AutoCompactionStart
    | AutoCompactionEnd
    | Notice
    | EarlyCompaction
    | EarlyError
    | BashEnd
    | UnknownEvent
)


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


def _from_own_to_open(name: str, kind: type[Any]) -> tuple[type[Any], ...]:
    own = (each for each in kind.__mro__ if issubclass(each, Value))
    return tuple(each for each in (*own, *OPEN) if each.__struct_config__.tag == name)
