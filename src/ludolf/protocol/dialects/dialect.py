"""The base of the dialects, each of which writes events and replies for one family of hosts.

It encodes values as they are. pi since 0.84 is nearly the same: updates of an answer are deltas.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ludolf.agent.events import MessageStart, MessageUpdate
from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart, StreamEvent
from ludolf.ai.messages import AssistantMessage, Text, Thinking, ToolCall
from ludolf.ai.models import Model, ModelCost
from ludolf.base import dumps
from ludolf.protocol.events import CompactionEnd, Event
from ludolf.protocol.framing import MORE_CODES, Frame, Reply, line, render_reply
from ludolf.protocol.results import State

if TYPE_CHECKING:
    from ludolf.protocol.ui import UiRequest

Render = Callable[[Any], Frame | None]


def _nowhere(entry_id: str) -> int:
    return 0


class ServerInfo(msgspec.Struct, frozen=True):
    """Data for a greeting; `commands` is called only by dialects that list them.

    `tells_titles`: requests to set a window title are passed on where a family drops them.
    `place_of`: the number of the line of an entry in the session file, from 0.
    `cwd`: the folder that relative paths of tools start from; `home`: what `~` stands for.
    """

    version: str
    commands: Callable[[], Any] = tuple
    tells_titles: bool = False
    place_of: Callable[[str], int] = _nowhere
    cwd: Callable[[], str] = str
    home: str = "~"


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """Behaviour that hosts of a family expect, unless the settings say otherwise.

    early_ack        a prompt is acknowledged before it has been checked
    starts_when_idle a steering or follow-up message starts a run if the agent is idle
    queues_when_busy a prompt without `streamingBehavior` waits for the end of the run
    skips_empty      a prompt or shell command without text is ignored
    answers_slash    prompts such as `/model` are answered without a model
    ends_after_run   at the end of input the run continues to its end
    opens_existing   a session file that does not exist is refused, not created
    todos            the todo tool and its reminders are on
    tasks            the model may start subagents
    clears_todos     finished todos are removed from the list after a while
    prompt_results   every accepted prompt ends with a `prompt_result`
    forgets_modes    the modes of the queues are not written to the settings
    max_frame        no line is longer than this many bytes
    """

    early_ack: bool = False
    starts_when_idle: bool = False
    queues_when_busy: bool = False
    skips_empty: bool = False
    answers_slash: bool = False
    ends_after_run: bool = False
    opens_existing: bool = False
    todos: bool = False
    tasks: bool = False
    clears_todos: bool = False
    prompt_results: bool = False
    forgets_modes: bool = False
    max_frame: int | None = None
    interrupt_mode: Literal["immediate", "wait"] = "wait"


class Dialect:
    """Writes the output. A frame is one or more whole lines, as bytes or as pieces to be joined.

    There is one per connection, so it may keep state. Events are encoded as they are unless
    `_table` has a function for their type.
    """

    name: str
    traits = Traits()
    # Error codes that replies carry.
    codes = MORE_CODES

    def __init__(self) -> None:
        self._table: dict[type, Render] = {}

    def greeting(self, info: ServerInfo) -> Frame | None:
        return None

    def begun(self, command: str) -> None:
        """Note that a command starts, before any event that it causes."""

    def reply(self, reply: Reply) -> Frame | None:
        return render_reply(reply, codes=self.codes)

    def event(self, event: Event) -> Frame | None:
        render = self._table.get(type(event))
        return render(event) if render else dumps(event) + b"\n"

    def ui(self, request: "UiRequest") -> Frame | None:
        return dumps(request) + b"\n"


# What pi writes while no model is selected.
UNKNOWN_MODEL = Model(
    id="unknown",
    name="unknown",
    api="unknown",
    provider="unknown",
    base_url="",
    reasoning=False,
    input=(),
    cost=ModelCost(),
    context_window=0,
    max_tokens=0,
)


def with_model(reply: Reply) -> Reply:
    """Fill in a model named `unknown`, as pi does, if the reply is a state without a model."""
    if isinstance(reply.data, State) and reply.data.model is None:
        return msgspec.structs.replace(reply, data=reply.data.replace(model=UNKNOWN_MODEL))
    return reply


def silent(event: Any) -> None:
    """Send nothing: the family has no such event."""


# ---------------------------------------------------------------- pi since 0.84


class PiDelta(Dialect):
    name = "pi-delta"

    def __init__(self) -> None:
        super().__init__()
        self._table[MessageUpdate] = render_delta
        self._table[MessageStart] = _message_start
        self._table[CompactionEnd] = compaction_end

    def reply(self, reply: Reply) -> Frame | None:
        return super().reply(with_model(reply))


def render_delta(update: MessageUpdate) -> Frame:
    return b'{"type":"message_update","usage":%b,"assistantMessageEvent":{%b}}\n' % (
        update.draft.usage_json,
        stream_event(update.event),
    )


def stream_event(event: StreamEvent) -> bytes:
    """Return the fields of `assistantMessageEvent` as JSON without braces."""
    if type(event) is BlockDelta:
        return b'"type":"%b_delta","contentIndex":%d,"delta":"%b"' % (
            event.kind.encode(),
            event.index,
            event.escaped,
        )
    if isinstance(event, BlockStart):
        head = b'"type":"%b_start","contentIndex":%d' % (event.kind.encode(), event.index)
        if event.kind != "toolcall":
            return head
        return head + b',"id":%b,"toolName":%b' % (dumps(event.call_id), dumps(event.tool_name))
    assert isinstance(event, BlockEnd)
    head = b'"type":"%b_end","contentIndex":%d,' % (event.kind.encode(), event.index)
    match event.block:
        case Text():
            return head + b'"content":' + dumps(event.block.text)
        case Thinking():
            return head + b'"content":' + dumps(event.block.thinking)
        case ToolCall():
            return head + b'"toolCall":' + dumps(event.block)


def _message_start(event: MessageStart) -> Frame:
    message = event.message
    if not isinstance(message, AssistantMessage) or message.stop_reason != "stop":
        return line(event)
    record = msgspec.to_builtins(event)
    record["message"]["stopReason"] = "pending"
    return line(record)


def compaction_end(event: CompactionEnd) -> Frame:
    if event.result is not None:
        return line(event)
    record = msgspec.to_builtins(event)
    del record["result"]
    return line(record)
