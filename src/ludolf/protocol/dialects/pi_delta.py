"""pi since 0.84: plain encoding; updates of an answer are deltas only."""

from typing import TYPE_CHECKING, Any

import msgspec

from ludolf.agent.events import MessageStart, MessageUpdate
from ludolf.ai.draft import BlockDelta, BlockEnd, BlockStart, StreamEvent
from ludolf.ai.messages import AssistantMessage, Text, Thinking, ToolCall
from ludolf.base import Value, dumps
from ludolf.protocol.dialects.dialect import Dialect, Render, ServerInfo, Traits
from ludolf.protocol.events import CompactionEnd, Event
from ludolf.protocol.framing import Frame, Reply, line, render_reply
from ludolf.protocol.results import State

if TYPE_CHECKING:
    from ludolf.protocol.ui import UiRequest


class PiDelta:
    name = "pi-delta"
    traits = Traits()

    def __init__(self) -> None:
        self._table: dict[type, Render] = {
            MessageUpdate: render_delta,
            MessageStart: _message_start,
            CompactionEnd: _compaction_end,
        }

    def greeting(self, info: ServerInfo) -> Frame | None:
        return None

    def begun(self, command: str) -> None:
        """Ignored: no frame depends on the commands that run."""

    def reply(self, reply: Reply) -> Frame | None:
        if isinstance(reply.data, State) and reply.data.model is None:
            reply = msgspec.structs.replace(reply, data=_without(reply.data, "model"))
        return render_reply(reply)

    def event(self, event: Event) -> Frame | None:
        render = self._table.get(type(event))
        return render(event) if render else dumps(event) + b"\n"

    def ui(self, request: "UiRequest") -> Frame | None:
        return dumps(request) + b"\n"


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


def _compaction_end(event: CompactionEnd) -> Frame:
    return line(_without(event, "result") if event.result is None else event)


def _without(value: Value, field: str) -> dict[str, Any]:
    """Return the fields of a value as they are encoded, without one of them."""
    record: dict[str, Any] = msgspec.to_builtins(value)
    del record[field]
    return record


if TYPE_CHECKING:
    _proof: Dialect = PiDelta()
